// What a process lets its peers of this node read: an arena into which payloads are copied, and one extra region of the
// caller's. Payloads that lie in the region are read there. The arena begins with a page that says whether the process
// sleeps.
//
// The place of a payload is an offset. With kInRegionBit it counts from the start of the region, without it from the
// end of the arena's first page. One thread; peers read at any time.
#ifndef SHOAL_NET_SHM_LENT_MEMORY_H_
#define SHOAL_NET_SHM_LENT_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "core/page_arena.h"
#include "net/shm/shared_memory.h"

namespace shoal {

// First in every arena; all peers of its owner read it.
struct StatusPage {
  std::atomic<uint64_t> sleeps;  // odd: the owner sleeps, or is about to; ring its bell
};
inline constexpr size_t kStatusPageBytes = 4096;

inline constexpr uint64_t kInRegionBit = uint64_t{1} << 63;

class LentMemory {
 public:
  // `region` may be nullptr, and outlives this. The errors are those of OwnedMemory::Make.
  static absl::StatusOr<std::unique_ptr<LentMemory>> Make(uint64_t arena_bytes, OwnedMemory* region);

  // Finds where peers can read a payload. If it lies in the region, that is its place. Otherwise pages of the arena are
  // taken for it, and the caller fills them. nullopt: the arena has no room.
  std::optional<uint64_t> Find(std::span<const std::byte> payload);
  // Copies a payload into the pages that Find took for it.
  void Fill(uint64_t offset, std::span<const std::byte> payload);
  // Frees the pages that Find took, when no peer reads them any more. A place in the region needs nothing.
  void Give(uint64_t offset, uint64_t bytes);

  void SetAsleep(bool is_asleep);
  bool is_asleep() const { return sleeps_ % 2 == 1; }

  const OwnedMemory& arena() const { return *arena_memory_; }  // the first page included
  const OwnedMemory* region() const { return region_; }        // may be nullptr

 private:
  LentMemory(std::unique_ptr<OwnedMemory> arena_memory, uint64_t arena_bytes, OwnedMemory* region)
      : arena_memory_(std::move(arena_memory)), region_(region), arena_(arena_bytes) {}

  const std::unique_ptr<OwnedMemory> arena_memory_;
  OwnedMemory* const region_;
  PageArena arena_;
  uint64_t sleeps_ = 0;  // as in our page
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_LENT_MEMORY_H_
