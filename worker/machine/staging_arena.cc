#include "worker/machine/staging_arena.h"

#include <algorithm>
#include <optional>

namespace shoal {

std::byte* StagingArena::Take(uint64_t bytes) {
  const std::optional<uint64_t> offset = pages_.Take(bytes);
  if (!offset.has_value()) return nullptr;
  taken_bytes_ += bytes;
  most_taken_bytes_ = std::max(most_taken_bytes_, taken_bytes_);
  return region_.data() + *offset;
}

void StagingArena::GiveBack(std::byte* start, uint64_t bytes) {
  taken_bytes_ -= bytes;
  pages_.Give(static_cast<uint64_t>(start - region_.data()), bytes);
}

}  // namespace shoal
