#include "worker/worker_group.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {

WorkerGroup::WorkerGroup(std::shared_ptr<const GroupInfo> info, uint64_t deadline_ns)
    : open_deadline_ns(deadline_ns), links(info->map->shards().size()), info_(std::move(info)) {
  for (ShardLink& link : links) link.next_op = OpNumber(1);
}

absl::Status WorkerGroup::Submit(const SubmitCommand& command) {
  WorkerOp op;
  op.number = OpNumber(first_op_ + ops.size());
  op.ticket = command.ticket;
  op.data = command.data;
  op.dtype = command.dtype;
  op.type_on_wire = TypeOnWire(info_->wire, command.dtype);
  op.reduce_op = command.reduce_op;
  op.premul_factor = command.premul_factor;
  op.submitted_ns = command.submitted_ns;
  op.deadline_ns = command.deadline_ns;
  if (command.element_count > 0) {
    const absl::StatusOr<BucketPlan> plan =
        MakeBucketPlan(command.element_count, op.type_on_wire, info_->max_chunk_bytes);
    if (!plan.ok()) return plan.status();
    op.plan = *plan;
    op.rotation = info_->map->Rotation(info_->id, op.number);
  }
  op.first_position = next_position_;
  next_position_ += op.plan.chunk_count;
  next_op_deadline_ns = std::min(next_op_deadline_ns, op.deadline_ns);
  ops.push_back(op);
  return absl::OkStatus();
}

WorkerOp* WorkerGroup::FindOp(OpNumber number) {
  if (number.value() < first_op_ || number.value() - first_op_ >= ops.size()) return nullptr;
  return &ops[number.value() - first_op_];
}

bool WorkerGroup::FindNext(uint32_t shard) {
  ShardLink& link = links[shard];
  if (link.next_known) return true;
  if (link.next_op.value() < first_op_) {
    link.next_op = OpNumber(first_op_);
    link.next_chunk = 0;
  }
  const std::vector<uint32_t>& table = info_->map->deal_table();
  while (MayPushOp(link.next_op, commit_watermark)) {
    const WorkerOp* op = FindOp(link.next_op);
    if (op == nullptr) return false;
    for (; link.next_chunk < op->plan.chunk_count; ++link.next_chunk) {
      if (table[(uint64_t{op->rotation} + link.next_chunk) % table.size()] != shard) continue;
      link.next_known = true;
      return true;
    }
    link.next_op = OpNumber(link.next_op.value() + 1);
    link.next_chunk = 0;
  }
  return false;
}

uint64_t WorkerGroup::NextPosition(const ShardLink& link) {
  return FindOp(link.next_op)->first_position + link.next_chunk;
}

uint64_t WorkerGroup::OldestUnfinished() {
  uint64_t oldest = UINT64_MAX;
  for (uint32_t shard = 0; shard < links.size(); ++shard) {
    const ShardLink& link = links[shard];
    if (!link.window.Empty()) {
      const ChunkInFlight& cell = link.cells[link.window.oldest() % link.window.credit()];
      oldest = std::min(oldest, FindOp(cell.op)->first_position + cell.chunk.value());
    } else if (FindNext(shard)) {
      oldest = std::min(oldest, NextPosition(link));
    }
  }
  return oldest;
}

int WorkerGroup::NextLink() {
  int best = -1;
  for (uint32_t shard = 0; shard < links.size(); ++shard) {
    const ShardLink& link = links[shard];
    if (!link.window.CanPush() || !FindNext(shard)) continue;
    if (best < 0) {
      best = static_cast<int>(shard);
      continue;
    }
    const ShardLink& first = links[static_cast<size_t>(best)];
    if (link.next_op < first.next_op || (link.next_op == first.next_op && link.next_chunk < first.next_chunk)) {
      best = static_cast<int>(shard);
    }
  }
  // The rest of the links are further ahead.
  const uint32_t look_ahead = info_->look_ahead_chunks;
  if (best < 0 || look_ahead == 0) return best;
  return NextPosition(links[static_cast<size_t>(best)]) - OldestUnfinished() < look_ahead ? best : -1;
}

bool WorkerGroup::AdvanceWatermark() {
  const uint64_t before = first_op_;
  while (!ops.empty() && ops.front().reported) {
    ops.pop_front();
    ++first_op_;
  }
  return first_op_ != before;
}

bool WorkerGroup::AllWelcomed() const {
  return std::all_of(links.begin(), links.end(), [](const ShardLink& link) { return link.welcomed; });
}

bool WorkerGroup::Idle() const {
  return std::all_of(ops.begin(), ops.end(), [](const WorkerOp& op) { return op.busy == 0; });
}

std::string WorkerGroup::DescribeRank(Rank rank) const {
  if (rank.value() >= size()) return absl::StrCat("rank ", rank.value());
  std::string text = absl::StrCat("rank ", rank.value());
  if (info_->job_ranks[rank.value()] != rank.value()) {
    absl::StrAppend(&text, " (rank ", info_->job_ranks[rank.value()], " of the job)");
  }
  if (rank.value() < info_->hosts.size()) absl::StrAppend(&text, " on ", info_->hosts[rank.value()]);
  return text;
}

}  // namespace shoal
