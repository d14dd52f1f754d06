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

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_PARTIAL_OP_BOOK_H_
