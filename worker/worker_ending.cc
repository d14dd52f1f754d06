// The part of WorkerMachine that ends things: groups that failed, groups and workers that are closed, and what is said
// about what was missing.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/worker_machine.h"

namespace shoal {
namespace {

std::string Seconds(uint64_t ns) { return absl::StrCat(static_cast<double>(ns / 100'000'000) / 10.0, " s"); }

}  // namespace

void WorkerMachine::Shutdown(const ShutdownCommand& command, Now now, WorkerActions* actions,
                             WorkerOutcomes* outcomes) {
  shutting_down_ = true;
  shutdown_deadline_ns_ = command.deadline_ns;
  for (uint16_t handle = 0; handle < groups_.size(); ++handle) {
    WorkerGroup* group = groups_[handle].group.get();
    if (group == nullptr) continue;
    group->close_requested = true;
    group->leave_by_ns = std::min(group->leave_by_ns, command.deadline_ns);
    if (!group->ops.empty() || group->state == WorkerGroup::State::kOpening) {
      FailGroup(handle, absl::CancelledError("the worker is closing"), now, actions, outcomes);
    }
    CloseIfDone(handle, now, actions, outcomes);
  }
  TickShutdown(now, actions, outcomes);
}

void WorkerMachine::FailGroup(uint16_t handle, absl::Status why, Now now, WorkerActions* actions,
                              WorkerOutcomes* outcomes) {
  WorkerGroup& group = *groups_[handle].group;
  if (group.state == WorkerGroup::State::kFailed) return;
  const bool was_opening = group.state == WorkerGroup::State::kOpening;
  group.state = WorkerGroup::State::kFailed;
  group.failure = std::move(why);
  group.force_at_ns = now.monotonic_ns + options_.force_after_ns;
  const absl::string_view text = group.failure.message();
  const Note note = MakeTextNote(HeaderFor(group, FrameType::kGroupFailed), std::string_view(text.data(), text.size()));
  for (ShardLink& link : group.links) {
    const Connection& connection = connections_[link.connection];
    if (link.hello_sent && !link.lost && connection.state == Connection::State::kUp) {
      actions->push_back(WorkerSendNoteAction{connection.peer, note});
    }
    for (ChunkInFlight& cell : link.cells) {
      if (cell.open && cell.held_offer != OfferId(0)) {
        actions->push_back(WorkerDeclineAction{cell.held_offer});
        cell.held_offer = OfferId(0);
      }
    }
  }
  for (WorkerOp& op : group.ops) {
    if (op.busy == 0) ReportOp(handle, &op, group.failure, now, outcomes);
  }
  if (was_opening) {
    outcomes->push_back(GroupOpened{GroupHandle(handle), group.failure});
    group.close_requested = true;
  }
  CloseIfDone(handle, now, actions, outcomes);
}

// Whoever leaves can't hand a result over any more: not before every rank has all (invariant I3).
bool WorkerMachine::MayLeave(WorkerGroup* group, Now now, WorkerActions* actions) const {
  if (!options_.survive_server_loss || group->size() == 1 || group->commit_watermark >= group->landed_watermark()) {
    return true;
  }
  if (group->leave_by_ns == kNoDeadline) group->leave_by_ns = now.monotonic_ns + options_.leave_patience_ns;
  if (now.monotonic_ns >= group->leave_by_ns) return true;
  FrameHeader header = HeaderFor(*group, FrameType::kCommit);
  header.op = group->landed_watermark();
  for (ShardLink& link : group->links) {
    if (!link.welcomed || std::exchange(link.waits_for_commit, true)) continue;
    link.reported_watermark = group->landed_watermark();
    actions->push_back(WorkerSendNoteAction{connections_[link.connection].peer, MakeNote(header)});
  }
  return false;
}

void WorkerMachine::CloseIfDone(uint16_t handle, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  std::unique_ptr<WorkerGroup>& group = groups_[handle].group;
  if (group == nullptr || !group->close_requested) return;
  const bool failed = group->state == WorkerGroup::State::kFailed;
  if (!group->Idle() || (!failed && !(group->ops.empty() && MayLeave(group.get(), now, actions)))) return;
  if (!failed) SendCommitNotes(group.get(), actions);
  const bool say_closed = group->close_commanded || group->was_open;
  for (const ShardLink& link : group->links) {
    const Connection& connection = connections_[link.connection];
    if (!link.hello_sent || link.lost || connection.state != Connection::State::kUp) continue;
    actions->push_back(WorkerSendNoteAction{connection.peer, MakeNote(HeaderFor(*group, FrameType::kLeaveGroup))});
  }
  group.reset();
  if (say_closed) outcomes->push_back(GroupClosed{GroupHandle(handle)});
}

void WorkerMachine::TickShutdown(Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  if (shutdown_reported_) return;
  const bool groups_left =
      std::any_of(groups_.begin(), groups_.end(), [](const GroupCell& cell) { return cell.group != nullptr; });
  const bool late = now.monotonic_ns >= shutdown_deadline_ns_;
  if (groups_left && !late) return;
  bool open = false;
  for (Connection& connection : connections_) {
    if (connection.state != Connection::State::kUp && connection.state != Connection::State::kConnecting) continue;
    open = true;
    if (connection.bye_received || late || connection.state == Connection::State::kConnecting) {
      actions->push_back(WorkerClosePeerAction{connection.peer});
    } else if (!connection.bye_sent) {
      connection.bye_sent = true;
      actions->push_back(WorkerSendNoteAction{connection.peer, MakeNote({.type = FrameType::kBye})});
    }
  }
  if (late) shutdown_deadline_ns_ = now.monotonic_ns + options_.force_after_ns;
  if (open || groups_left) return;
  shutdown_reported_ = true;
  shutdown_deadline_ns_ = kNoDeadline;
  outcomes->push_back(ShutdownDone{});
}

absl::Status WorkerMachine::DescribeTimeout(const WorkerGroup& group, const WorkerOp& op, Now now) const {
  std::string text = absl::StrCat("all-reduce ", op.number.value(), " of group '", group.info().name, "' (",
                                  op.plan.element_count, " ", std::string(DataTypeName(op.dtype)),
                                  ") is not done after ", Seconds(now.monotonic_ns - op.submitted_ns), ": ");
  if (group.state == WorkerGroup::State::kOpening) {
    absl::StrAppend(&text, DescribeMissingServers(group));
  } else if (op.waiting.missing_count > 0) {
    absl::StrAppend(&text, DescribeServer(group.links[op.waiting_shard].connection), " waits for ");
    for (uint32_t i = 0; i < op.waiting.listed_count; ++i) {
      absl::StrAppend(&text, i > 0 ? ", " : "", group.DescribeRank(op.waiting.ranks[i]));
    }
    if (op.waiting.missing_count > op.waiting.listed_count) {
      absl::StrAppend(&text, " and ", op.waiting.missing_count - op.waiting.listed_count, " more");
    }
    absl::StrAppend(&text, ", which made fewer calls or stopped");
  } else {
    absl::StrAppend(&text, op.chunks_landed, " of ", op.plan.chunk_count, " chunks are back");
    if (group.map().empty()) absl::StrAppend(&text, "; no reduction server is left");
    for (const ShardLink& link : group.links) {
      if (!link.lost) continue;
      absl::StrAppend(&text, "; ", DescribeServer(link.connection), " was lost (", link.lost_because,
                      ") and the scheduler gave no new map");
    }
    const char* separator = "; no answer from ";
    for (const ShardLink& link : group.links) {
      if (link.lost) continue;
      const bool waits = std::any_of(link.cells.begin(), link.cells.end(),
                                     [&](const ChunkInFlight& cell) { return cell.open && cell.op == op.number; });
      if (!waits) continue;
      absl::StrAppend(&text, separator, DescribeServer(link.connection));
      separator = ", ";
    }
  }
  return absl::DeadlineExceededError(text);
}

std::string WorkerMachine::DescribeMissingServers(const WorkerGroup& group) const {
  std::string text = absl::StrCat("group '", group.info().name, "' is not open on");
  for (const ShardLink& link : group.links) {
    if (link.welcomed) continue;
    const Connection& connection = connections_[link.connection];
    absl::StrAppend(&text, " ", DescribeServer(link.connection));
    if (link.lost) {
      absl::StrAppend(&text, " (", link.lost_because, ")");
    } else if (link.hello_sent) {
      absl::StrAppend(&text, " (connected, but no welcome)");
    } else {
      absl::StrAppend(&text, " (", connection.last_error.empty() ? "no connection yet" : connection.last_error, ")");
    }
  }
  return text;
}

std::string WorkerMachine::DescribeServer(uint32_t index) const {
  return absl::StrCat("server ", connections_[index].server_name, " (", connections_[index].address, ")");
}

}  // namespace shoal
