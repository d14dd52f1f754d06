#include "core/page_arena.h"

#include <algorithm>

namespace shoal {

std::optional<uint64_t> PageArena::Take(uint64_t bytes) {
  const size_t pages = Pages(bytes);
  size_t run = 0;
  for (size_t page = lowest_free_; page < used_.size(); ++page) {
    run = used_[page] == 0 ? run + 1 : 0;
    if (run < pages) continue;
    const size_t first = page + 1 - pages;
    std::fill_n(used_.begin() + static_cast<ptrdiff_t>(first), pages, uint8_t{1});
    if (first == lowest_free_) lowest_free_ = first + pages;
    return first * kPageBytes;
  }
  return std::nullopt;
}

void PageArena::Give(uint64_t offset, uint64_t bytes) {
  const size_t first = static_cast<size_t>(offset / kPageBytes);
  std::fill_n(used_.begin() + static_cast<ptrdiff_t>(first), Pages(bytes), uint8_t{0});
  lowest_free_ = std::min(lowest_free_, first);
}

}  // namespace shoal
