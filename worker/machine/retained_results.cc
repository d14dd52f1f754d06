#include "worker/machine/retained_results.h"

#include <algorithm>
#include <utility>

namespace shoal {

absl::StatusOr<std::shared_ptr<StagingMemory>> RetainedResults::Keep(const FrameHeader& header) {
  absl::StatusOr<std::shared_ptr<StagingMemory>> memory = TakeMemory();
  if (memory.ok()) results_.push_back({header, *memory});
  return memory;
}

const RetainedResults::Result* RetainedResults::Find(OpNumber op, ChunkNumber chunk) const {
  const auto found = std::find_if(results_.begin(), results_.end(), [&](const Result& result) {
    return result.header.op == op && result.header.chunk == chunk;
  });
  return found == results_.end() ? nullptr : &*found;
}

void RetainedResults::Commit(OpNumber watermark) {
  std::erase_if(results_, [&](Result& result) {
    if (result.header.op > watermark) return false;
    GiveMemory(std::move(result.memory));
    return true;
  });
}

absl::StatusOr<std::shared_ptr<StagingMemory>> RetainedResults::TakeMemory() {
  if (free_.empty()) return StagingMemory::Allocate(1, max_chunk_bytes_, arena_);
  std::shared_ptr<StagingMemory> memory = std::move(free_.back());
  free_.pop_back();
  return memory;
}

// Not what an action still has to fill, and nothing that devices can't reach where it may be for one.
void RetainedResults::GiveMemory(std::shared_ptr<StagingMemory> memory) {
  const bool is_usable = arena_ == nullptr || memory->is_in_arena();
  if (memory.use_count() == 1 && is_usable) free_.push_back(std::move(memory));
}

}  // namespace shoal
