// How large the chunks of a group are and how many of them may be under way: a model of the link, filled with what was
// measured on it.
//
// A server's port receives from all n ranks of a job at once, and a rank's port the results of all k shards. What may
// be under way to a port in all has to keep it busy (its bandwidth times the round trip) and must fit the buffer before
// it, or packets are lost, and a retransmission timeout costs more than everything else (incast; receiver-driven
// credits are the known remedy). So a rank and a shard have the max(n, k)-th part of what a port is sure to hold under
// way between them, in two chunks: one arrives while the other's sum goes back. On shaped links that law gave 0.97 to
// 0.99 of the link wherever it held, and 0.5 to 0.8 where it did not (docs/adr/0007). Where a port also carries the
// traffic of a server on a rank's node, or shares differ, PortLoad says what meets there (docs/adr/0010).
//
// Shards with different shares need pacing: left to their credit, all of them would go at one speed, the small ones be
// done early, and the links of the large ones be busy alone at the end. So no rank pushes a chunk that is more than
// `look_ahead_chunks` behind its oldest unfinished one in the order that all ranks share. The chunks of any stretch of
// that order are dealt in the shards' proportion, so what is under way is too.
//
// What a port holds can't be measured. Unless an operator says it, 256 KiB are assumed, and of faster ports a quarter
// of a millisecond of their bandwidth. More than 4 MiB are never under way to a server: they would leave its cache
// before they are summed. A chunk is not so small that the cost of a message, as measured, is more than a quarter of
// its time on the link; so a tensor is never spread over more servers than its bytes are worth messages. Where this
// limit applies, many ranks on fast links fill the buffer of any port: the network must be lossless, or slow its
// senders down. What an operator says of the ports comes first: chunks are then as small as it takes, down to 4 KiB.
//
// Pure; all ranks and servers must use the same answer, so the scheduler asks once for a group.
#ifndef SHOAL_CORE_FLOW_PLAN_H_
#define SHOAL_CORE_FLOW_PLAN_H_

#include <cstdint>

namespace shoal {

// Of the way from a worker to a server. 0: not known.
struct LinkFacts {
  uint64_t bytes_per_s = 0;
  uint64_t round_trip_ns = 0;
  uint64_t message_ns = 0;  // what a message costs beyond its bytes: how fast small ones are handled, one after another
  bool within_node = false;  // the server is on the rank's own node: says nothing about links between nodes

  friend bool operator==(const LinkFacts&, const LinkFacts&) = default;
};

// For a server on the rank's own node. A measurement there says how busy the processors were at that moment, and may
// have any value. So these are fixed figures, which gave chunks of the best size (docs/adr/0017).
LinkFacts WithinOneNode();

// What meets at ports and shards. The unit of busiest_port is what one rank has in flight in all.
struct PortLoad {
  double busiest_port = 1;   // of all servers' and ranks' nodes; at least 1: a rank takes all results
  double busiest_link = 1;   // what a node's link carries each way, in units of the bucket: there both ways add up
  double largest_share = 0;  // of a shard in every bucket
  uint32_t shard_count = 0;
  bool even = true;  // all shards have the same share
};

// Each shard has a port of its own and an equal share. The arguments are at least 1.
PortLoad EvenPortLoad(uint32_t group_size, uint32_t shard_count);

struct FlowPlan {
  uint32_t chunk_bytes = 0;        // largest chunk
  uint32_t credit_chunks = 0;      // in flight from one rank to one shard
  uint32_t look_ahead_chunks = 0;  // from a rank's oldest unfinished chunk on; 0: credit alone bounds

  friend bool operator==(const FlowPlan&, const FlowPlan&) = default;
};

inline constexpr uint32_t kMaxCreditChunks = 64;
inline constexpr uint64_t kMaxPortBufferBytes = uint64_t{1} << 30;  // of one that an operator tells of

// `asked_chunk_bytes` 0: choose one; otherwise it is kept, and only the rest is chosen. `port_bytes`: what every port
// between nodes holds at the least, headers included; 0: not known.
FlowPlan PlanFlow(const PortLoad& load, const LinkFacts& link, uint32_t asked_chunk_bytes, uint64_t port_bytes = 0);

}  // namespace shoal

#endif  // SHOAL_CORE_FLOW_PLAN_H_
