// How members and tools of a cluster reach its scheduler. Any thread.
#ifndef SHOAL_PROTO_SCHEDULER_CHANNEL_H_
#define SHOAL_PROTO_SCHEDULER_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace shoal {

// A channel of its own connections: a new one is the way to leave a connection to a node that is gone without a word,
// which gRPC would keep for many minutes. `target` is from SchedulerTarget. With several addresses it connects to all,
// and calls go to those that answered: one that takes connections and says nothing holds up nobody.
std::shared_ptr<grpc::Channel> OpenSchedulerChannel(const std::string& target);

// gRPC tells the whole story of a failed connection; people want its end ("Connection refused").
std::string ShortReason(const std::string& message);

}  // namespace shoal

#endif  // SHOAL_PROTO_SCHEDULER_CHANNEL_H_
