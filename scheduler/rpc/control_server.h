// How a scheduler's port is listened on, whether the scheduler leads or follows: by one process alone, and with probes
// that notice a peer whose node is gone. Any thread.
#ifndef SHOAL_SCHEDULER_RPC_CONTROL_SERVER_H_
#define SHOAL_SCHEDULER_RPC_CONTROL_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "scheduler/rpc/doorkeeper.h"

namespace shoal::scheduler {

// So long may calls take to end once it stops.
inline constexpr std::chrono::seconds kStopPatience{1};

// `listen`: "ip:port". `doorkeeper`: null lets everybody in, in plain text. BuildAndStart() fills in `port`: what is
// listened on, 0 if it can't be.
void ListenOn(const std::string& listen, grpc::ServerBuilder* builder, int* port,
              std::shared_ptr<Doorkeeper> doorkeeper);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_CONTROL_SERVER_H_
