// The part of WorkerMachine that ends things: groups that failed, groups and workers that are closed.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/machine/worker_machine.h"

namespace shoal {
void WorkerMachine::Shutdown(const ShutdownCommand& command, Now now, WorkerActions* actions,
                             WorkerOutcomes* outcomes) {
  shutting_down_ = true;
  shutdown_deadline_ns_ = command.deadline_ns;
  for (const uint16_t handle : Handles(open_groups_)) {
    WorkerGroup* group = groups_[handle].group.get();
    group->close_requested = true;
    if (group->state == WorkerGroup::State::kOpen) group->WaitForOthers(now.monotonic_ns, command.deadline_ns);
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
  group.next_wait_report_ns = kNoDeadline;
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
    if (op.busy == 0) ReportOp(handle, &op, FailureOf(group, op), now, outcomes);
  }
  if (was_opening) {
    outcomes->push_back(GroupOpened{GroupHandle(handle), group.failure});
    group.close_requested = true;
  }
  CloseIfDone(handle, now, actions, outcomes);
}

// Whoever leaves can't hand a result over any more: not before every rank has all (invariant I3).
bool WorkerMachine::MayLeave(WorkerGroup* group, Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  if (!options_.survive_server_loss || group->size() == 1 || group->commit_watermark >= group->landed_watermark()) {
    return true;
  }
  group->WaitForOthers(now.monotonic_ns, now.monotonic_ns + options_.leave_patience_ns);
  if (now.monotonic_ns >= group->leave_by_ns) {
    SayWait(DescribeLeavingAllTheSame(*group, now), outcomes);
    return true;
  }
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
  if (!group->Idle() || (!failed && !(group->ops.empty() && MayLeave(group.get(), now, actions, outcomes)))) return;
  if (!failed) SendCommitNotes(group.get(), actions);
  const bool say_closed = group->close_commanded || group->was_open;
  for (const ShardLink& link : group->links) {
    const Connection& connection = connections_[link.connection];
    if (!link.hello_sent || link.lost || connection.state != Connection::State::kUp) continue;
    actions->push_back(WorkerSendNoteAction{connection.peer, MakeNote(HeaderFor(*group, FrameType::kLeaveGroup))});
  }
  group.reset();
  open_groups_.erase(std::lower_bound(open_groups_.begin(), open_groups_.end(), handle));
  if (say_closed) outcomes->push_back(GroupClosed{GroupHandle(handle)});
}

void WorkerMachine::TickShutdown(Now now, WorkerActions* actions, WorkerOutcomes* outcomes) {
  if (shutdown_reported_) return;
  const bool groups_left = !open_groups_.empty();
  const bool late = now.monotonic_ns >= shutdown_deadline_ns_;
  if (groups_left && !late) return;
  if (late && !std::exchange(goodbyes_given_up_, true)) SayMissingGoodbyes(outcomes);
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

}  // namespace shoal
