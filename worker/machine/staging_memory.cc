#include "worker/machine/staging_memory.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t StrideBytes(uint32_t max_chunk_bytes) {
  return (uint64_t{max_chunk_bytes} + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

uint32_t StagingMemory::Places(uint32_t credit, uint32_t max_chunk_bytes) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(kMaxBytes / StrideBytes(max_chunk_bytes), 1, credit));
}

absl::StatusOr<std::shared_ptr<StagingMemory>> StagingMemory::Allocate(uint32_t places, uint32_t max_chunk_bytes,
                                                                       const std::shared_ptr<StagingArena>& arena) {
  const uint64_t stride_bytes = StrideBytes(max_chunk_bytes);
  if (arena != nullptr) {
    std::byte* const in_arena = arena->Take(places * stride_bytes);
    if (in_arena != nullptr) {
      return std::shared_ptr<StagingMemory>(new StagingMemory(in_arena, places * stride_bytes, stride_bytes, arena));
    }
  }
  // Not touched until it is used: where nothing lands in pieces it costs addresses only.
  auto* start = static_cast<std::byte*>(std::aligned_alloc(kPageBytes, places * stride_bytes));
  if (start == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", places, " chunks of ", max_chunk_bytes,
                                                     " bytes on their way to or from one shard; use smaller chunks"));
  }
  return std::shared_ptr<StagingMemory>(new StagingMemory(start, places * stride_bytes, stride_bytes, nullptr));
}

StagingMemory::~StagingMemory() {
  if (arena_ == nullptr) {
    std::free(start_);
  } else {
    arena_->GiveBack(start_, bytes_);
  }
}

}  // namespace shoal
