// The reduction server that a worker's process runs for its own job, when the scheduler asks it to (docs/adr/0010).
//
// It lives on threads of its own and is gone with the process. Thread: any, one at a time.
#ifndef SHOAL_WORKER_COLOCATED_COLOCATED_SERVER_H_
#define SHOAL_WORKER_COLOCATED_COLOCATED_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/ids.h"
#include "process/notice_log.h"
#include "server/server.h"

namespace shoal {

struct ColocatedServerOptions {
  std::string scheduler;  // "host:port"
  std::string address;    // at which the other ranks reach this node; empty: found out (process/node_address.h)
  std::string node_name;
  std::string boot_id;  // as the rank's
  JobId job;
  uint32_t rank = 0;  // of the job
  std::string net_device;
  std::string transports;
  bool network_only = false;
  std::string flight_recorder;  // as the rank's
  CredentialFiles credentials;  // likewise
  uint64_t timeout_ms = 0;      // for registering
};

class ColocatedServer {
 public:
  // Registered when it returns. `notices` outlives it, and hears of long waits and of flight records. Errors: those of
  // OwnAddress and Server::Start, saying what was to be started.
  static absl::StatusOr<std::unique_ptr<ColocatedServer>> Start(const ColocatedServerOptions& options,
                                                                NoticeLog* notices);

  // Takes no new groups, waits until the other ranks have left those that are open, `wait_ms` at most (a rank may still
  // be taking its last results), and ends. Idempotent.
  void Leave(uint64_t wait_ms);

 private:
  ColocatedServer(std::unique_ptr<Server> server, NoticeLog* notices) : server_(std::move(server)), notices_(notices) {}

  const std::unique_ptr<Server> server_;
  NoticeLog* const notices_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_COLOCATED_COLOCATED_SERVER_H_
