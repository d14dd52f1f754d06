// How a tensor is shared out among the ranks of one node: one part for each, in the order of the tensor.
//
// Pure. A part's place depends on the tensor's length and the number of ranks alone, because it decides which server
// sums which elements with whom.
#ifndef SHOAL_CORE_NODE_PARTS_H_
#define SHOAL_CORE_NODE_PARTS_H_

#include <algorithm>
#include <cstdint>

namespace shoal {

// Every part but the last begins and ends at a multiple of this, so that no two ranks write to one cache line.
inline constexpr uint64_t kPartAlignmentElements = 64;

struct ElementRange {
  uint64_t first = 0;
  uint64_t count = 0;

  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// Part `part` of `parts` of a tensor. Empty parts are at the end, where there are fewer elements than parts need.
inline ElementRange NodePart(uint64_t element_count, uint32_t parts, uint32_t part) {
  const uint64_t even = (element_count + parts - 1) / parts;
  const uint64_t each = (even + kPartAlignmentElements - 1) / kPartAlignmentElements * kPartAlignmentElements;
  const uint64_t first = std::min(element_count, each * part);
  return {.first = first, .count = std::min(each, element_count - first)};
}

}  // namespace shoal

#endif  // SHOAL_CORE_NODE_PARTS_H_
