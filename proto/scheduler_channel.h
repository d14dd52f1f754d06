// How members and tools of a cluster reach its scheduler. Any thread.
#ifndef SHOAL_PROTO_SCHEDULER_CHANNEL_H_
#define SHOAL_PROTO_SCHEDULER_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "proto/credentials.h"

namespace shoal {

// A channel with connections of its own. A new channel is the way to leave a connection to a node that has disappeared
// without closing it, which gRPC would keep for many minutes. `target` is from SchedulerTarget. With several addresses
// it connects to all, and calls go to those that answer: one that accepts connections and stays silent delays no call.
std::shared_ptr<grpc::Channel> OpenSchedulerChannel(const std::string& target, const Credentials& credentials = {});

// gRPC gives the whole history of a failed connection; only its end is useful in a message ("Connection refused").
std::string ShortReason(const std::string& message);

}  // namespace shoal

#endif  // SHOAL_PROTO_SCHEDULER_CHANNEL_H_
