// The newest ops of all groups of a worker whose results have fewer ranks' contributions than the op before, or not the
// same everywhere: what it tells the scheduler. Pure; one thread.
#ifndef SHOAL_WORKER_MACHINE_PARTIAL_OP_BOOK_H_
#define SHOAL_WORKER_MACHINE_PARTIAL_OP_BOOK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "core/partial_op.h"

namespace shoal {

class PartialOpBook {
 public:
  // Gives it the next number.
  void Put(PartialOp op) {
    op.number = ++count_;
    if (newest_.size() == kMostPartialOps) newest_.erase(newest_.begin());
    newest_.push_back(std::move(op));
  }
  // In the order of their numbers. They are told with every heartbeat, since one may be lost.
  const std::vector<PartialOp>& newest() const { return newest_; }

 private:
  uint64_t count_ = 0;
  std::vector<PartialOp> newest_;
};

// What one group has told there: the ops whose results have other contributors than that of the op before, or not the
// same everywhere. One thread; the book outlives it.
class GroupPartialOps {
 public:
  // `size`: ranks of the group, whose contributions its first op is taken to have.
  GroupPartialOps(PartialOpBook* book, GroupId group, uint32_t size) : book_(*book), group_(group), told_(size) {}

  // To be asked of each op that has elements, in their order: whether it is to be told.
  bool Differs(uint32_t least, uint32_t most) const { return least != most || least != told_; }
  void Tell(Epoch epoch, OpNumber op, std::vector<ContributedRange> ranges) {
    told_ = ranges.size() == 1 ? ranges.front().contributors : 0;
    const bool is_cut = ranges.size() > kMostContributedRanges;
    if (is_cut) ranges.resize(kMostContributedRanges);
    book_.Put({.group = group_, .epoch = epoch, .op = op, .ranges = std::move(ranges), .is_cut = is_cut});
  }

 private:
  PartialOpBook& book_;
  const GroupId group_;
  uint32_t told_;  // of all elements of the op that was told last; 0: they differed
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_PARTIAL_OP_BOOK_H_
