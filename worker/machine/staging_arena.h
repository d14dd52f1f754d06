// Host memory that devices can reach: one region, set aside and locked when the worker starts, from which groups take
// what they need. Locking memory later would have to wait for a device, and a device that waits for the network must
// not keep the network waiting.
//
// One thread. Whoever made the arena owns the region, which outlives all that was taken from it.
#ifndef SHOAL_WORKER_MACHINE_STAGING_ARENA_H_
#define SHOAL_WORKER_MACHINE_STAGING_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/page_arena.h"

namespace shoal {

class StagingArena {
 public:
  static constexpr uint64_t kDefaultBytes = uint64_t{256} << 20;

  // In whole pages of PageArena; what is left over is not used.
  explicit StagingArena(std::span<std::byte> region) : region_(region), pages_(region.size()) {}

  // nullptr: there is no such piece left.
  std::byte* Take(uint64_t bytes);
  // Gives back what Take(bytes) gave.
  void GiveBack(std::byte* start, uint64_t bytes);

  std::span<std::byte> region() const { return region_; }
  uint64_t size_bytes() const { return pages_.capacity_bytes(); }
  // As they were asked for.
  uint64_t taken_bytes() const { return taken_bytes_; }
  uint64_t most_taken_bytes() const { return most_taken_bytes_; }

 private:
  const std::span<std::byte> region_;
  PageArena pages_;
  uint64_t taken_bytes_ = 0;
  uint64_t most_taken_bytes_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_STAGING_ARENA_H_
