// Who is in an epoch of a group: all of its ranks, but for those that had closed it when it moved there, and those that
// were lost while it was to go on without them.
//
// Ranks keep their numbers. With rails each rail has a roster, whose ranks are the group's nodes. A value; any thread.
#ifndef SHOAL_CORE_ROSTER_H_
#define SHOAL_CORE_ROSTER_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace shoal {

class Roster {
 public:
  // A group does not go on without more: what a hello says of them has to fit one note.
  static constexpr uint32_t kMaxLost = 64;

  // `size`: of the group. `lost`: in ascending order, each once, of these ranks, and not all.
  explicit Roster(uint32_t size = 0, std::vector<Rank> lost = {}) : size_(size), lost_(std::move(lost)) {}

  uint32_t size() const { return size_; }
  uint32_t count() const { return size_ - static_cast<uint32_t>(lost_.size()); }
  bool IsWhole() const { return lost_.empty(); }
  bool Has(Rank rank) const { return rank.value() < size_ && !std::ranges::binary_search(lost_, rank); }
  // How many of those that are in it have smaller numbers.
  uint32_t PlaceOf(Rank rank) const {
    return rank.value() - static_cast<uint32_t>(std::ranges::lower_bound(lost_, rank) - lost_.begin());
  }
  const std::vector<Rank>& lost() const { return lost_; }

  friend bool operator==(const Roster&, const Roster&) = default;

 private:
  uint32_t size_;
  std::vector<Rank> lost_;
};

// Of a group that goes on with so many ranks at least, whose nodes have so many each: how many nodes that takes.
inline uint32_t MinNodes(uint32_t min_ranks, uint32_t ranks_per_node) {
  return min_ranks / ranks_per_node + (min_ranks % ranks_per_node != 0 ? 1 : 0);
}

}  // namespace shoal

#endif  // SHOAL_CORE_ROSTER_H_
