// Book-keeping of an arena from which memory is taken and given back: runs of pages, the lowest free ones first.
//
// Lowest first keeps what is in use small and in the processor's cache, however long the arena lives. Never touches
// the memory. One thread; no allocation after the constructor.
#ifndef SHOAL_CORE_PAGE_ARENA_H_
#define SHOAL_CORE_PAGE_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shoal {

class PageArena {
 public:
  static constexpr uint64_t kPageBytes = 16384;

  explicit PageArena(uint64_t bytes) : used_(bytes / kPageBytes) {}

  // Offset of a free run of at least `bytes`; nullopt: there is none now.
  std::optional<uint64_t> Take(uint64_t bytes);
  // Gives back what Take(bytes) gave.
  void Give(uint64_t offset, uint64_t bytes);

  uint64_t capacity_bytes() const { return used_.size() * kPageBytes; }

 private:
  static size_t Pages(uint64_t bytes) { return static_cast<size_t>((bytes + kPageBytes - 1) / kPageBytes); }

  std::vector<uint8_t> used_;
  size_t lowest_free_ = 0;  // no page below it is free
};

}  // namespace shoal

#endif  // SHOAL_CORE_PAGE_ARENA_H_
