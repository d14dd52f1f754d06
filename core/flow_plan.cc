#include "core/flow_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/bucket_plan.h"

namespace shoal {
namespace {

constexpr uint64_t kPortBufferBytes = 256 << 10;
constexpr uint64_t kPortBufferNs = 250'000;
// Where it was not measured: by the bench's runs of small chunks on loopback.
constexpr uint64_t kUnmeasuredMessageNs = 2'000;
// A measurement on a busy node must not decide alone.
constexpr uint64_t kMaxMessageNs = 20'000;
constexpr uint64_t kMessageCostShare = 4;
// A third chunk covers what handling the messages of so many ranks takes, between a chunk's arrival and its results.
constexpr uint64_t kCreditWhereMessagesDecide = 3;
constexpr uint64_t kSmallestToldChunkBytes = 4 << 10;  // where it is known what ports hold
constexpr uint64_t kLargestChunkBytes = 512 << 10;
// Where ports hold more, a larger chunk saves little more of what messages cost, and an op waits longer for its first
// result. Linux sends what is more than 64 KiB with its headers as two packets, between which those of others come:
// there chunks of 64 KiB gave two thirds of a link, and of 60 KiB all of it (docs/adr/0007).
constexpr uint64_t kOnePacketBytes = 60 << 10;
// What is under way to a server should stay in its processor's cache until it is summed.
constexpr uint64_t kCacheBytes = 4 << 20;
// 400 Gbit/s. Between processes of one node a measurement may have any value.
constexpr uint64_t kMaxBytesPerSecond = 50'000'000'000;
constexpr uint64_t kMaxLookAheadChunks = 1 << 20;
constexpr uint64_t kMaxRoundTripNs = 1'000'000;

uint64_t BytesIn(uint64_t ns, uint64_t bytes_per_s) {
  return static_cast<uint64_t>(static_cast<double>(bytes_per_s) * static_cast<double>(ns) * 1e-9);
}

// An eighth is for headers (7 % of a chunk of 7 KiB over TCP with segments of 1448 bytes) and for acknowledgements.
uint64_t PayloadIn(uint64_t port_bytes) { return port_bytes / 8 * 7; }

// To the nearest: a division may leave a whole number just below itself.
uint64_t WholeBytes(double bytes) { return static_cast<uint64_t>(std::llround(bytes)); }

}  // namespace

LinkFacts WithinOneNode() {
  // Two chunks of 256 KiB under way from each of 4 ranks to each of 2 servers.
  return {.bytes_per_s = 8'400'000'000, .round_trip_ns = 25'000, .message_ns = 1'900, .within_node = true};
}

PortLoad EvenPortLoad(uint32_t group_size, uint32_t shard_count) {
  const double busiest = std::max(1.0, static_cast<double>(group_size) / shard_count);
  return {
      .busiest_port = busiest, .busiest_link = busiest, .largest_share = 1.0 / shard_count, .shard_count = shard_count};
}

FlowPlan PlanFlow(const PortLoad& load, const LinkFacts& link, uint32_t asked_chunk_bytes, uint64_t port_bytes) {
  const uint64_t bytes_per_s = std::min(link.bytes_per_s, kMaxBytesPerSecond);
  const bool ports_are_known = port_bytes != 0 && !link.within_node;
  const uint64_t assumed = std::clamp(BytesIn(kPortBufferNs, bytes_per_s), kPortBufferBytes, kCacheBytes);
  const uint64_t in_buffer = ports_are_known ? std::min(PayloadIn(port_bytes), kCacheBytes) : assumed;
  const uint64_t on_the_way = BytesIn(std::min(link.round_trip_ns, kMaxRoundTripNs), bytes_per_s);
  // Of one rank: to all shards together, and to the one with the largest share.
  double window = static_cast<double>(std::min(in_buffer + on_the_way, kCacheBytes)) / load.busiest_port;
  uint64_t chunk = asked_chunk_bytes;
  bool messages_decide = false;
  if (chunk == 0) {
    const uint64_t message_ns = link.message_ns == 0 ? kUnmeasuredMessageNs : std::min(link.message_ns, kMaxMessageNs);
    const uint64_t worth_a_message = std::clamp<uint64_t>(BytesIn(kMessageCostShare * message_ns, bytes_per_s),
                                                          kSmallestChosenChunkBytes, kLargestChunkBytes);
    const double window_in_buffer = static_cast<double>(in_buffer) / load.busiest_port;
    const double half = window_in_buffer * load.largest_share / 2;
    if (ports_are_known) {
      // Of uneven shares the look-ahead is a whole number of chunks, and one more may meet at a port.
      const double fits = load.even ? half : window_in_buffer / (std::ceil(2 / load.largest_share) + 1);
      chunk = std::clamp(WholeBytes(fits), kSmallestToldChunkBytes, std::max(kOnePacketBytes, worth_a_message)) /
              kMinChunkBytes * kMinChunkBytes;
      // More than two chunks on top of what the way itself holds would only queue at the ports.
      window = std::min(window, 2 * static_cast<double>(chunk) / load.largest_share +
                                    static_cast<double>(on_the_way) / load.busiest_port);
    } else {
      messages_decide = WholeBytes(half) < worth_a_message && worth_a_message > kSmallestChosenChunkBytes;
      chunk =
          messages_decide
              ? std::bit_ceil(worth_a_message)
              : std::bit_floor(std::clamp<uint64_t>(WholeBytes(half), kSmallestChosenChunkBytes, kLargestChunkBytes));
    }
  }
  chunk = std::clamp<uint64_t>(chunk, kMinChunkBytes, kMaxChunkBytes);
  const uint64_t least_credit = messages_decide ? kCreditWhereMessagesDecide : 2;
  FlowPlan plan;
  plan.chunk_bytes = static_cast<uint32_t>(chunk);
  plan.credit_chunks = static_cast<uint32_t>(
      std::clamp<uint64_t>(WholeBytes(window * load.largest_share) / chunk, least_credit, kMaxCreditChunks));
  if (load.even) return plan;
  // Two chunks for the largest share at the least, as with equal shares.
  const auto least = static_cast<uint64_t>(std::ceil(2 / load.largest_share));
  const uint64_t look_ahead = std::clamp<uint64_t>(WholeBytes(window) / chunk, least, kMaxLookAheadChunks);
  plan.look_ahead_chunks = static_cast<uint32_t>(look_ahead);
  // The look-ahead is the bound: in a stretch of that length a shard may come up once more than its share.
  plan.credit_chunks = static_cast<uint32_t>(std::min<uint64_t>(
      static_cast<uint64_t>(std::ceil(static_cast<double>(look_ahead) * load.largest_share)) + 1, kMaxCreditChunks));
  return plan;
}

}  // namespace shoal
