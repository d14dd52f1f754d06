// Memory where a shard's chunks lie on their way between a tensor and the network: one place for each chunk in flight,
// all of it set aside when the group opens, where there are devices in memory that they can reach. Contributions pass
// through it where they are encoded to something else than the tensor has. Results land here first, so that a server's
// death in the middle leaves the tensor as it was. Also used, with one place, for results that are kept for others.
//
// Its content is for the transport and the loop; the machine only hands out addresses. It is shared: an
// action that was not carried out yet and has to read a place holds it. The transport must be gone, or done with a
// place, before the last holder lets go.
#ifndef SHOAL_WORKER_MACHINE_STAGING_MEMORY_H_
#define SHOAL_WORKER_MACHINE_STAGING_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/machine/staging_arena.h"

namespace shoal {

class StagingMemory {
 public:
  // Of one shard of one group: a larger credit is not used.
  static constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

  // How many chunks of at most `max_chunk_bytes` may be in flight to a shard that gives credit for `credit` (1 or
  // more).
  static uint32_t Places(uint32_t credit, uint32_t max_chunk_bytes);

  // From the arena, if there is one and it has so much left. ResourceExhausted: no memory; the text says for what.
  static absl::StatusOr<std::shared_ptr<StagingMemory>> Allocate(uint32_t places, uint32_t max_chunk_bytes,
                                                                 const std::shared_ptr<StagingArena>& arena);
  ~StagingMemory();
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  std::byte* Place(uint32_t place) const { return start_ + place * stride_bytes_; }
  // Devices can reach it.
  bool is_in_arena() const { return arena_ != nullptr; }

 private:
  StagingMemory(std::byte* start, uint64_t bytes, uint64_t stride_bytes, std::shared_ptr<StagingArena> arena)
      : start_(start), bytes_(bytes), stride_bytes_(stride_bytes), arena_(std::move(arena)) {}

  std::byte* const start_;
  const uint64_t bytes_;
  const uint64_t stride_bytes_;
  const std::shared_ptr<StagingArena> arena_;  // null: of the heap
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_STAGING_MEMORY_H_
