// Values that the messages of workers and of the scheduler have in common, as plain structs and back. Pure; any thread.
#ifndef SHOAL_PROTO_SHARED_MESSAGES_H_
#define SHOAL_PROTO_SHARED_MESSAGES_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "core/connection_ticket.h"
#include "core/flow_plan.h"
#include "core/shard_map.h"
#include "core/trace_request.h"
#include "shoal/v1/scheduler.pb.h"

namespace shoal {

Shard FromMessage(const v1::Shard& message);
LinkFacts FromMessage(const v1::LinkFacts& message);
// Internal: the scheduler sent a map that ShardMap::Make refuses; the text says why.
absl::StatusOr<std::shared_ptr<const ShardMap>> FromMessage(const v1::ShardMap& message);

// Of the answer to a heartbeat; nullopt: no trace is asked for, or one of a kind that is not known here.
template <typename Response>
std::optional<TraceRequest> TraceOf(const Response& message) {
  if (message.trace().trace_id() == 0 || message.trace().kind() >= kTraceKinds) return std::nullopt;
  return TraceRequest{.id = message.trace().trace_id(),
                      .kind = static_cast<TraceKind>(message.trace().kind()),
                      .left_ms = message.trace().left_ms(),
                      .most_bytes = message.trace().most_bytes()};
}

// One without a ticket, or with a key of another size, is none.
ConnectionTicket FromMessage(const v1::ConnectionTicket& message);

void ToMessage(const ConnectionTicket& ticket, v1::ConnectionTicket* message);
void ToMessage(const TraceRequest& trace, v1::TraceRequest* message);
void ToMessage(const Shard& shard, v1::Shard* message);
void ToMessage(const LinkFacts& link, v1::LinkFacts* message);
void ToMessage(const ShardMap& map, v1::ShardMap* message);

}  // namespace shoal

#endif  // SHOAL_PROTO_SHARED_MESSAGES_H_
