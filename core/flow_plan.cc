#include "core/flow_plan.h"

#include <algorithm>
#include <bit>

#include "core/bucket_plan.h"

namespace shoal {
namespace {

constexpr uint64_t kPortBufferBytes = 256 << 10;
constexpr uint64_t kPortBufferNs = 250'000;
// Of one message, both ends together; by the bench's runs of small chunks on loopback.
constexpr uint64_t kMessageCostNs = 2'000;
constexpr uint64_t kMessageCostShare = 4;
constexpr uint64_t kSmallestChunkBytes = 8 << 10;
constexpr uint64_t kLargestChunkBytes = 512 << 10;
// What is under way to a server should stay in its processor's cache until it is summed.
constexpr uint64_t kCacheBytes = 4 << 20;
// 400 Gbit/s. Between processes of one host the measurement says anything up to infinity.
constexpr uint64_t kMaxBytesPerSecond = 50'000'000'000;
constexpr uint64_t kMaxRoundTripNs = 1'000'000;

uint64_t BytesIn(uint64_t ns, uint64_t bytes_per_s) {
  return static_cast<uint64_t>(static_cast<double>(bytes_per_s) * static_cast<double>(ns) * 1e-9);
}

}  // namespace

FlowPlan PlanFlow(uint32_t group_size, uint32_t shard_count, const LinkFacts& link, uint32_t asked_chunk_bytes) {
  const uint64_t meet_at_a_port = std::max(group_size, shard_count);
  const uint64_t bytes_per_s = std::min(link.bytes_per_s, kMaxBytesPerSecond);
  const uint64_t in_buffer = std::clamp(BytesIn(kPortBufferNs, bytes_per_s), kPortBufferBytes, kCacheBytes);
  const uint64_t on_the_way = BytesIn(std::min(link.round_trip_ns, kMaxRoundTripNs), bytes_per_s);
  const uint64_t window = std::min(in_buffer + on_the_way, kCacheBytes) / meet_at_a_port;
  uint64_t chunk = asked_chunk_bytes;
  if (chunk == 0) {
    const uint64_t worth_a_message =
        std::max(kSmallestChunkBytes, BytesIn(kMessageCostShare * kMessageCostNs, bytes_per_s));
    chunk = std::bit_floor(std::clamp(in_buffer / meet_at_a_port / 2, worth_a_message, kLargestChunkBytes));
  }
  chunk = std::clamp<uint64_t>(chunk, kMinChunkBytes, kMaxChunkBytes);
  return {.chunk_bytes = static_cast<uint32_t>(chunk),
          .credit_chunks = static_cast<uint32_t>(std::clamp<uint64_t>(window / chunk, 2, kMaxCreditChunks))};
}

}  // namespace shoal
