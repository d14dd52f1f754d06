#include "proto/shared_messages.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace shoal {

Shard FromMessage(const v1::Shard& message) {
  return {.server = ServerId(message.server_id()),
          .incarnation = Incarnation(message.incarnation()),
          .server_name = message.server_name(),
          .address = message.address(),
          .weight = message.weight()};
}

LinkFacts FromMessage(const v1::LinkFacts& message) {
  return {.bytes_per_s = message.bytes_per_s(),
          .round_trip_ns = message.round_trip_ns(),
          .message_ns = message.message_ns(),
          .within_node = message.within_node()};
}

void ToMessage(const Shard& shard, v1::Shard* message) {
  message->set_server_id(shard.server.value());
  message->set_incarnation(shard.incarnation.value());
  message->set_server_name(shard.server_name);
  message->set_address(shard.address);
  message->set_weight(shard.weight);
}

void ToMessage(const LinkFacts& link, v1::LinkFacts* message) {
  message->set_bytes_per_s(link.bytes_per_s);
  message->set_round_trip_ns(link.round_trip_ns);
  message->set_message_ns(link.message_ns);
  message->set_within_node(link.within_node);
}

absl::StatusOr<std::shared_ptr<const ShardMap>> FromMessage(const v1::ShardMap& message) {
  std::vector<Shard> shards;
  shards.reserve(static_cast<size_t>(message.shards_size()));
  for (const v1::Shard& shard : message.shards()) shards.push_back(FromMessage(shard));
  absl::StatusOr<ShardMap> map = ShardMap::Make(Epoch(message.epoch()), std::move(shards));
  if (!map.ok()) return absl::InternalError(absl::StrCat("the scheduler's shard map: ", map.status().message()));
  return std::make_shared<const ShardMap>(*std::move(map));
}

ConnectionTicket FromMessage(const v1::ConnectionTicket& message) {
  ConnectionTicket ticket;
  if (message.key().size() != ticket.key.size() || message.ticket().size() > kMaxTicketBytes) return ticket;
  const auto bytes = std::as_bytes(std::span(message.ticket()));
  ticket.bytes.assign(bytes.begin(), bytes.end());
  std::memcpy(ticket.key.data(), message.key().data(), ticket.key.size());
  ticket.seals = message.seals();
  return ticket;
}

void ToMessage(const ConnectionTicket& ticket, v1::ConnectionTicket* message) {
  message->set_ticket(ticket.bytes.data(), ticket.bytes.size());
  message->set_key(ticket.key.data(), ticket.key.size());
  message->set_seals(ticket.seals);
}

void ToMessage(const TraceRequest& trace, v1::TraceRequest* message) {
  message->set_trace_id(trace.id);
  message->set_left_ms(trace.left_ms);
  message->set_most_bytes(trace.most_bytes);
  message->set_kind(static_cast<uint32_t>(trace.kind));
}

void ToMessage(const ShardMap& map, v1::ShardMap* message) {
  message->set_epoch(map.epoch().value());
  for (const Shard& shard : map.shards()) ToMessage(shard, message->add_shards());
}

}  // namespace shoal
