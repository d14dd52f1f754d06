#include "worker/machine/op_queue.h"

#include <algorithm>
#include <utility>

namespace shoal {

uint32_t OpQueue::RotationFor(const ShardMap& map, uint64_t first_position) const {
  return map.empty() ? 0 : map.Rotation(group_, first_position);
}

WorkerOp& OpQueue::Add(const SubmitCommand& command, const ShardMap& map) {
  const uint32_t rotation = command.layout.chunk_count() == 0 ? 0 : RotationFor(map, next_position_);
  WorkerOp& op = ops_.emplace_back(OpNumber(first_ + ops_.size()), command, next_position_, rotation);
  next_position_ += op.chunk_count();
  next_deadline_ns_ = std::min(next_deadline_ns_, command.deadline_ns);
  return op;
}

void OpQueue::Deal(const ShardMap& map) {
  for (WorkerOp& op : ops_) op.Deal(RotationFor(map, op.first_position()));
}

const WorkerOp* OpQueue::FindOverdue(uint64_t now_ns) {
  if (now_ns < next_deadline_ns_) return nullptr;
  next_deadline_ns_ = kNoDeadline;
  for (const WorkerOp& op : ops_) {
    if (op.reported()) continue;
    if (op.command().deadline_ns <= now_ns) return &op;
    next_deadline_ns_ = std::min(next_deadline_ns_, op.command().deadline_ns);
  }
  return nullptr;
}

WorkerOp* OpQueue::Find(OpNumber number) { return Holds(number) ? &ops_[number.value() - first_] : nullptr; }

const WorkerOp* OpQueue::Find(OpNumber number) const {
  return Holds(number) ? &ops_[number.value() - first_] : nullptr;
}

WorkerOp* OpQueue::FindOpen(uint64_t ticket) {
  const auto op = std::find_if(ops_.begin(), ops_.end(), [ticket](const WorkerOp& candidate) {
    return !candidate.reported() && candidate.command().ticket == ticket;
  });
  return op == ops_.end() ? nullptr : &*op;
}

WorkerOp* OpQueue::OldestOpen() { return const_cast<WorkerOp*>(std::as_const(*this).OldestOpen()); }

const WorkerOp* OpQueue::OldestOpen() const {
  const auto found = std::find_if(ops_.begin(), ops_.end(), [](const WorkerOp& op) { return !op.reported(); });
  return found == ops_.end() ? nullptr : &*found;
}

bool OpQueue::Idle() const {
  return std::none_of(ops_.begin(), ops_.end(), [](const WorkerOp& op) { return op.busy(); });
}

}  // namespace shoal
