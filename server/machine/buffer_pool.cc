#include "server/machine/buffer_pool.h"

#include <algorithm>
#include <iterator>

namespace shoal {

BufferPool::BufferPool(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {
  if (capacity_bytes > 0) free_[0] = capacity_bytes;
}

std::optional<uint64_t> BufferPool::Allocate(uint64_t bytes) {
  const uint64_t need = (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < need) continue;
    const uint64_t offset = it->first;
    const uint64_t rest = it->second - need;
    free_.erase(it);
    if (rest > 0) free_[offset + need] = rest;
    used_[offset] = need;
    used_bytes_ += need;
    return offset;
  }
  return std::nullopt;
}

void BufferPool::Free(uint64_t offset) {
  const auto region = used_.find(offset);
  uint64_t bytes = region->second;
  used_bytes_ -= bytes;
  used_.erase(region);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

uint64_t BufferPool::largest_free_bytes() const {
  uint64_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace shoal
