#include "worker/machine/worker_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {

bool ShardLink::HoldsMemory() const {
  return std::any_of(cells.begin(), cells.end(),
                     [](const ChunkInFlight& cell) { return cell.open && (!cell.sent || cell.landing); });
}

WorkerGroup::WorkerGroup(std::shared_ptr<const GroupInfo> info, uint64_t now_ns, uint64_t deadline_ns)
    : open_deadline_ns(deadline_ns),
      open_wait(now_ns, deadline_ns),
      next_wait_report_ns(open_wait.due_ns()),
      links(info->map->shards().size()),
      retained(info->max_chunk_bytes),
      info_(std::move(info)),
      map_(info_->map) {
  for (ShardLink& link : links) link.next_op = OpNumber(1);
}

std::vector<ShardLink> WorkerGroup::MoveTo(std::shared_ptr<const ShardMap> map) {
  for (const ShardLink& link : links) {
    for (const ChunkPlace& place : link.last_landed) {
      const WorkerOp* op = FindOp(place.op);
      if (op != nullptr && !op->reported) unproven_.push_back(place);
    }
  }
  settle_until_ = newest_pushed;
  map_ = std::move(map);
  std::vector<ShardLink> fresh(map_->shards().size());
  for (ShardLink& link : fresh) link.next_op = OpNumber(first_op_);
  for (WorkerOp& op : ops) {
    op.rotation = map_->empty() ? 0 : map_->Rotation(info_->id, op.first_position);
    op.waiting = {};
  }
  leave_waiting = {};
  return std::exchange(links, std::move(fresh));
}

void WorkerGroup::NoteLanded(ShardLink* link, size_t place, WorkerOp* op, ChunkNumber chunk) {
  op->landed[chunk.value()] = true;
  ++op->chunks_landed;
  newest_result = std::max(newest_result, op->number);
  const ChunkPlace landed{op->number, chunk};
  if (landed <= settle_until_) {
    unproven_.push_back(landed);
  } else {
    link->last_landed[place] = landed;
  }
}

std::vector<ChunkNumber> WorkerGroup::TakeUnproven(OpNumber op) {
  std::vector<ChunkNumber> chunks;
  std::erase_if(unproven_, [&](const ChunkPlace& place) {
    if (place.op != op) return false;
    chunks.push_back(place.chunk);
    return true;
  });
  for (ShardLink& link : links) {
    for (const ChunkPlace& place : link.last_landed) {
      if (place.op == op) chunks.push_back(place.chunk);
    }
  }
  return chunks;
}

void WorkerGroup::NoteCommitted(OpNumber watermark) {
  if (watermark <= commit_watermark) return;
  commit_watermark = watermark;
  retained.Commit(watermark);
}

bool WorkerGroup::OldPushIsRead(const WorkerOp& op, ChunkNumber chunk) const {
  if (op.narrowed()) return false;  // it was sent from staging memory of its own
  return std::any_of(retired.begin(), retired.end(), [&](const RetiredLinks& old) {
    return std::any_of(old.links.begin(), old.links.end(), [&](const ShardLink& link) {
      return std::any_of(link.cells.begin(), link.cells.end(), [&](const ChunkInFlight& cell) {
        return cell.open && !cell.sent && cell.op == op.number && cell.chunk == chunk;
      });
    });
  });
}

bool WorkerGroup::ResultIsBeingTaken() const {
  return std::any_of(links.begin(), links.end(), [](const ShardLink& link) {
    return std::any_of(link.cells.begin(), link.cells.end(), [](const ChunkInFlight& cell) {
      return cell.open && cell.landing && cell.taking != ChunkInFlight::Taking::kBeside;
    });
  });
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
    op.rotation = map_->empty() ? 0 : map_->Rotation(info_->id, next_position_);
    op.landed.assign(plan->chunk_count, false);
  }
  op.first_position = next_position_;
  next_position_ += op.plan.chunk_count;
  next_op_deadline_ns = std::min(next_op_deadline_ns, op.deadline_ns);
  op.wait = WaitReport(op.submitted_ns, op.deadline_ns);
  next_wait_report_ns = std::min(next_wait_report_ns, op.wait.due_ns());
  ops.push_back(std::move(op));
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
  const std::vector<uint32_t>& table = map_->deal_table();
  while (MayPushOp(link.next_op, commit_watermark)) {
    const WorkerOp* op = FindOp(link.next_op);
    if (op == nullptr) return false;
    for (; link.next_chunk < op->plan.chunk_count; ++link.next_chunk) {
      if (table[(uint64_t{op->rotation} + link.next_chunk) % table.size()] != shard || op->landed[link.next_chunk]) {
        continue;
      }
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
    if (!link.welcomed || !link.window.CanPush() || !FindNext(shard)) continue;
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
  if (ops.empty()) next_wait_report_ns = leave_wait.due_ns();
  return first_op_ != before;
}

void WorkerGroup::WaitForOthers(uint64_t now_ns, uint64_t until_ns) {
  if (leave_by_ns <= until_ns) return;
  leave_by_ns = until_ns;
  leave_wait = WaitReport(now_ns, until_ns);
  next_wait_report_ns = leave_wait.due_ns();
}

bool WorkerGroup::AllWelcomed() const {
  return std::all_of(links.begin(), links.end(), [](const ShardLink& link) { return link.welcomed; });
}

bool WorkerGroup::Idle() const {
  return std::all_of(ops.begin(), ops.end(), [](const WorkerOp& op) { return op.busy == 0; }) &&
         std::all_of(hand_overs.begin(), hand_overs.end(), [](const HandOver& each) { return each.memory == nullptr; });
}

std::string WorkerGroup::DescribeRank(Rank rank) const {
  if (rank.value() >= size()) return absl::StrCat("rank ", rank.value());
  std::string text = absl::StrCat("rank ", rank.value());
  if (info_->job_ranks[rank.value()] != rank.value()) {
    absl::StrAppend(&text, " (rank ", info_->job_ranks[rank.value()], " of the job)");
  }
  if (rank.value() < info_->nodes.size()) absl::StrAppend(&text, " on ", info_->nodes[rank.value()]);
  return text;
}

}  // namespace shoal
