// Host memory that devices can reach: one region, set aside and locked when the worker starts, from which groups take
// what they need. Locking memory later would have to wait for a device, and a device that waits for the network must
// not keep the network waiting.
//
// One thread. Whoever made the arena owns the region, which outlives all that was taken from it.
#ifndef SHOAL_WORKER_MACHINE_STAGING_ARENA_H_
#define SHOAL_WORKER_MACHINE_STAGING_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

namespace shoal {

class StagingArena {
 public:
  // In whole pages.
  explicit StagingArena(std::span<std::byte> region);

  // nullptr: there is no such piece left. `bytes`: whole pages.
  std::byte* Take(uint64_t bytes);
  void GiveBack(std::byte* start);

  uint64_t size_bytes() const { return region_.size(); }
  uint64_t taken_bytes() const { return taken_bytes_; }
  uint64_t most_taken_bytes() const { return most_taken_bytes_; }

 private:
  const std::span<std::byte> region_;
  std::map<std::byte*, uint64_t> free_;   // by start: bytes; no two touch each other
  std::map<std::byte*, uint64_t> taken_;  // likewise
  uint64_t taken_bytes_ = 0;
  uint64_t most_taken_bytes_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_STAGING_ARENA_H_
