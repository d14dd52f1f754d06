#include "worker/machine/staging_arena.h"

#include <algorithm>
#include <iterator>

namespace shoal {

StagingArena::StagingArena(std::span<std::byte> region) : region_(region) {
  if (!region.empty()) free_[region.data()] = region.size();
}

std::byte* StagingArena::Take(uint64_t bytes) {
  // The first piece that is large enough: what lives long comes to lie in front.
  const auto piece =
      std::find_if(free_.begin(), free_.end(), [bytes](const auto& each) { return each.second >= bytes; });
  if (piece == free_.end()) return nullptr;
  const auto [start, size] = *piece;
  free_.erase(piece);
  if (size > bytes) free_[start + bytes] = size - bytes;
  taken_[start] = bytes;
  taken_bytes_ += bytes;
  most_taken_bytes_ = std::max(most_taken_bytes_, taken_bytes_);
  return start;
}

void StagingArena::GiveBack(std::byte* start) {
  const auto taken = taken_.find(start);
  uint64_t size = taken->second;
  taken_bytes_ -= size;
  taken_.erase(taken);
  const auto next = free_.lower_bound(start);
  if (next != free_.end() && start + size == next->first) size += next->second;
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == start) {
      start = before->first;
      size += before->second;
    }
  }
  if (next != free_.end() && next->first < start + size) free_.erase(next);
  free_[start] = size;
}

}  // namespace shoal
