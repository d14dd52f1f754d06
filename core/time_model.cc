#include "core/time_model.h"

#include <algorithm>
#include <vector>

namespace shoal {

DealSummary SummarizeDeal(const BucketPlan& plan, const ShardMap& map, GroupId group) {
  const std::vector<uint32_t>& table = map.deal_table();
  const uint32_t rotation = map.Rotation(group, 0);
  const auto rounds = static_cast<uint32_t>(plan.chunk_count / table.size());
  const auto rest = static_cast<uint32_t>(plan.chunk_count % table.size());
  std::vector<uint32_t> chunks(map.shards().size(), 0);
  for (uint32_t turn = 0; turn < table.size(); ++turn) {
    chunks[table[(uint64_t{rotation} + turn) % table.size()]] += rounds + (turn < rest ? 1 : 0);
  }
  DealSummary summary;
  for (const uint32_t count : chunks) {
    summary.shards_used += count > 0 ? 1 : 0;
    summary.largest_part_chunks = std::max(summary.largest_part_chunks, count);
  }
  return summary;
}

uint64_t PredictOpNs(const OpShape& shape, const LinkFacts& link) {
  if (link.bytes_per_s == 0 || shape.chunk_count == 0) return 0;
  const double ns_per_byte = 1e9 / static_cast<double>(link.bytes_per_s);
  const double largest_part_bytes =
      std::min(static_cast<double>(shape.bytes), static_cast<double>(shape.largest_part_chunks) * shape.chunk_bytes);
  const double links = static_cast<double>(shape.bytes) * shape.busiest_link * ns_per_byte;
  const double largest_part = shape.group_size * largest_part_bytes * ns_per_byte;
  const double messages = static_cast<double>(link.message_ns) *
                          std::max(uint64_t{shape.chunk_count}, uint64_t{shape.group_size} * shape.largest_part_chunks);
  const double alone = std::min<double>(shape.chunk_bytes, static_cast<double>(shape.bytes)) * ns_per_byte;
  return static_cast<uint64_t>(std::max({links, largest_part, messages}) + alone +
                               static_cast<double>(link.round_trip_ns));
}

}  // namespace shoal
