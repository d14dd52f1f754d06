// What is written down of an all-reduce of a group that goes on without lost ranks: which elements of its result have
// how many ranks' contributions. With the group's rosters its bits can be computed again (docs/numerics.md).
//
// Pure values.
#ifndef SHOAL_CORE_PARTIAL_OP_H_
#define SHOAL_CORE_PARTIAL_OP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace shoal {

// Of an op. Chunks that were under way at a loss may take turns; all before them and all after them are one range each.
inline constexpr size_t kMostContributedRanges = 64;
// That a rank tells with one heartbeat: its newest ones.
inline constexpr size_t kMostPartialOps = 16;

// Elements in a row whose results have so many contributions. (Of ranks; within a rail, of nodes.)
struct ContributedRange {
  uint64_t first = 0;
  uint64_t count = 0;
  uint32_t contributors = 0;

  friend bool operator==(const ContributedRange&, const ContributedRange&) = default;
};

// Adds a range that begins where the last one ends; two of them with as many contributions are one.
inline void AddContributed(ContributedRange added, std::vector<ContributedRange>* ranges) {
  if (added.count == 0) return;
  if (ranges->empty() || ranges->back().contributors != added.contributors) {
    ranges->push_back(added);
  } else {
    ranges->back().count += added.count;
  }
}

// The first op of a group whose result has other contributors than that of the op before, or an op some of whose chunks
// have other contributors than the rest.
struct PartialOp {
  uint64_t number = 0;  // 1, 2, ... of those that the process tells
  GroupId group;        // with rails the first one's, which names the whole group
  Epoch epoch;          // with rails of the own one, in which it ended at the rank that tells
  OpNumber op;
  std::vector<ContributedRange> ranges = {};  // from element 0 on without a gap
  bool is_cut = false;                        // there were more than kMostContributedRanges

  friend bool operator==(const PartialOp&, const PartialOp&) = default;
};

}  // namespace shoal

#endif  // SHOAL_CORE_PARTIAL_OP_H_
