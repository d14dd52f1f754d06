// The ops of a group in call order, from the oldest that is not done on.
//
// An op's number follows from the order of calls, so it is the same on all ranks. One thread.
#ifndef SHOAL_WORKER_MACHINE_OP_QUEUE_H_
#define SHOAL_WORKER_MACHINE_OP_QUEUE_H_

#include <cstdint>
#include <deque>

#include "core/ids.h"
#include "core/now.h"
#include "core/shard_map.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_op.h"

namespace shoal {

class OpQueue {
 public:
  explicit OpQueue(GroupId group) : group_(group) {}

  // Takes an op in; the map deals its chunks.
  WorkerOp& Add(const SubmitCommand& command, const ShardMap& map);
  // Another map deals the chunks of all ops.
  void Deal(const ShardMap& map);
  // Drops ops at the front that were reported, in the order of their numbers, each after visit(op). True if the landed
  // watermark moved.
  template <typename Visit>
  bool DropReported(Visit visit) {
    const uint64_t before = first_;
    while (!ops_.empty() && ops_.front().reported()) {
      visit(ops_.front());
      ops_.pop_front();
      ++first_;
    }
    return first_ != before;
  }
  // The first op whose deadline has come and that was not reported; nullptr: none, and next_deadline_ns() is a new one.
  const WorkerOp* FindOverdue(uint64_t now_ns);

  // nullptr: not known (any more). What they point to stays until the op is dropped.
  WorkerOp* Find(OpNumber number);
  const WorkerOp* Find(OpNumber number) const;
  // The op with that ticket, if it was not reported; nullptr: none.
  WorkerOp* FindOpen(uint64_t ticket);
  // The oldest op that was not reported; nullptr: none.
  WorkerOp* OldestOpen();
  const WorkerOp* OldestOpen() const;

  bool empty() const { return ops_.empty(); }
  // The transport uses memory of none of them.
  bool Idle() const;
  OpNumber first() const { return OpNumber(first_); }
  OpNumber landed_watermark() const { return OpNumber(first_ - 1); }
  OpNumber next() const { return OpNumber(first_ + ops_.size()); }  // of the next one that is added
  // When to call FindOverdue at the latest.
  uint64_t next_deadline_ns() const { return next_deadline_ns_; }
  std::deque<WorkerOp>::iterator begin() { return ops_.begin(); }
  std::deque<WorkerOp>::iterator end() { return ops_.end(); }

 private:
  bool Holds(OpNumber number) const { return number.value() >= first_ && number.value() - first_ < ops_.size(); }
  uint32_t RotationFor(const ShardMap& map, uint64_t first_position) const;

  const GroupId group_;
  std::deque<WorkerOp> ops_;
  uint64_t first_ = 1;          // number of ops_.front()
  uint64_t next_position_ = 0;  // of the first chunk of the next op
  uint64_t next_deadline_ns_ = kNoDeadline;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_OP_QUEUE_H_
