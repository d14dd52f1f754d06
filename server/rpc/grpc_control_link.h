// The ControlLink over gRPC.
#ifndef SHOAL_SERVER_RPC_GRPC_CONTROL_LINK_H_
#define SHOAL_SERVER_RPC_GRPC_CONTROL_LINK_H_

#include <memory>
#include <string>

#include "proto/credentials.h"
#include "server/lease/control_link.h"

namespace shoal {

// `scheduler` is "host:port" as SchedulerTarget takes it. Connects with the first call.
std::unique_ptr<ControlLink> MakeGrpcControlLink(const std::string& scheduler, const Credentials& credentials = {});

}  // namespace shoal

#endif  // SHOAL_SERVER_RPC_GRPC_CONTROL_LINK_H_
