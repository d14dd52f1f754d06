#include "worker/machine/node_group.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/frame.h"
#include "worker/machine/group_words.h"

namespace shoal {

NodeGroup::NodeGroup(const OpenGroupCommand& command, WorkerTally* tally, Now now)
    : handle_(command.group),
      info_(command.info),
      open_deadline_ns_(command.deadline_ns),
      tally_(*tally),
      ops_(info_->id),
      open_wait_(now.monotonic_ns, command.deadline_ns),
      next_line_ns_(open_wait_.due_ns()) {}

// ---- commands ----

void NodeGroup::Open(Now /*now*/, WorkerActions* actions) {
  actions->push_back(LocalOpenAction{{.group = handle_,
                                      .meeting_name = info_->meeting_name,
                                      .rank = LocalRank(info_->rank.value()),
                                      .size = info_->size()}});
}

absl::Status NodeGroup::Submit(const SubmitCommand& command, Now now, WorkerActions* actions) {
  if (failed()) return failure_;
  if (absl::Status layout = CheckLayout(*info_, command); !layout.ok()) return layout;
  WorkerOp& op = ops_.Add(command, *info_->map);
  if (op.layout().element_count() == 0) {
    EndOp(&op, absl::OkStatus(), now, actions);
    return absl::OkStatus();
  }
  if (!opening()) next_line_ns_ = std::min(next_line_ns_, op.wait().due_ns());
  actions->push_back(LocalStartAction{{.group = handle_,
                                       .ticket = command.ticket,
                                       .data = command.data,
                                       .element_count = op.layout().element_count(),
                                       .dtype = op.layout().dtype(),
                                       .reduce_op = command.reduce_op,
                                       .premul_factor = command.premul_factor,
                                       .wire = info_->wire}});
  return absl::OkStatus();
}

void NodeGroup::Fail(absl::Status why, Now now, WorkerActions* actions) {
  if (failed() || closed()) return;
  // By way of the scheduler too: a rank that has not met this one hears it from nobody else.
  if (info_->size() > 1) actions->push_back(GroupFailure{info_->id, std::string(why.message())});
  FailAsOthers(std::move(why), now, actions);
}

void NodeGroup::FailAsOthers(absl::Status why, Now /*now*/, WorkerActions* actions) {
  if (failed() || closed()) return;
  actions->push_back(LocalFailAction{handle_, why});
  BreakOff(std::move(why), actions);
}

void NodeGroup::Close(Now now, WorkerActions* actions) {
  close_requested_ = true;
  close_commanded_ = true;
  if (opening() && ops_.empty()) {
    return Fail(absl::CancelledError("the group was closed before it was open"), now, actions);
  }
  CloseIfDone(actions);
}

void NodeGroup::Shutdown(uint64_t /*deadline_ns*/, Now now, WorkerActions* actions) {
  close_requested_ = true;
  if (!ops_.empty() || opening()) Fail(absl::CancelledError("the worker is closing"), now, actions);
  CloseIfDone(actions);
}

// ---- what happened on the node ----

void NodeGroup::OnMet(WorkerActions* actions) {
  if (!opening()) return;
  state_ = State::kOpen;
  was_open_ = true;
  SetNextLine();
  actions->push_back(GroupOpened{handle_, absl::OkStatus()});
}

void NodeGroup::OnOpEnded(const LocalOpEnded& ended, Now now, WorkerActions* actions) {
  const auto op = std::find_if(ops_.begin(), ops_.end(), [&](const WorkerOp& candidate) {
    return !candidate.reported() && candidate.command().ticket == ended.ticket;
  });
  if (op == ops_.end()) return;
  if (ended.status.ok()) {
    tally_.CountOnNode(op->layout().element_count() * DataTypeSize(op->layout().dtype()));
    EndOp(&*op, absl::OkStatus(), now, actions);
  } else {
    EndOp(&*op, FailureOfOp(failed() ? failure_ : ended.status, OpOfGroup(*info_, *op)), now, actions);
  }
  CloseIfDone(actions);
}

void NodeGroup::OnFailed(const LocalGroupFailed& event, WorkerActions* actions) {
  if (failed() || closed()) return;
  const absl::string_view why = event.status.message();
  if (!event.culprit.has_value() || event.culprit->value() >= info_->size()) return BreakOff(event.status, actions);
  const JobRank rank = info_->job_ranks[event.culprit->value()];
  const std::string& node = info_->nodes[event.culprit->value()];
  if (absl::IsUnavailable(event.status)) return BreakOff(RankLostError(rank, node, why), actions);
  // What ranks disagree on is the caller's to mend; with all else it is enough to know that the group has ended.
  const absl::StatusCode code =
      absl::IsInvalidArgument(event.status) ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kAborted;
  BreakOff(absl::Status(code, absl::StrCat(JobRankOnNode(rank, node), ": ", why)), actions);
}

void NodeGroup::OnMissing(std::span<const LocalRank> missing, Now now, WorkerActions* actions) {
  asked_ = false;
  if (failed() || closed()) return;
  if (opening() && now.monotonic_ns >= open_deadline_ns_) {
    return Fail(absl::DeadlineExceededError(NotOpen(missing)), now, actions);
  }
  if (const WorkerOp* overdue = ops_.FindOverdue(now.monotonic_ns); overdue != nullptr) {
    return Fail(absl::DeadlineExceededError(NotDone(*overdue, missing, now)), now, actions);
  }
  if (now.monotonic_ns >= next_line_ns_) TakeLine(missing, now, actions);
}

// ---- time ----

void NodeGroup::Tick(Now now, WorkerActions* actions) {
  if (asked_ || now.monotonic_ns < NextDeadlineNs()) return;
  asked_ = true;
  actions->push_back(LocalMissingAction{handle_});
}

uint64_t NodeGroup::NextDeadlineNs() const {
  switch (state_) {
    case State::kOpening:
      return std::min({open_deadline_ns_, next_line_ns_, ops_.next_deadline_ns()});
    case State::kOpen:
      return std::min(next_line_ns_, ops_.next_deadline_ns());
    default:
      return kNoDeadline;
  }
}

void NodeGroup::TakeLine(std::span<const LocalRank> missing, Now now, WorkerActions* actions) {
  // The oldest op stands for all that wait behind it.
  WorkerOp* const oldest = ops_.OldestOpen();
  const std::string whom = missing.empty() ? "processor time" : Ranks(missing);
  std::optional<std::string> line;
  if (opening()) {
    if (open_wait_.TakeDue(now.monotonic_ns)) {
      line = absl::StrCat(open_wait_.WaitedFor(whom, now.monotonic_ns), ": group '", info_->name,
                          "' opens when all its ranks have met on their node");
    }
  } else if (oldest != nullptr && oldest->wait().TakeDue(now.monotonic_ns)) {
    line = absl::StrCat(oldest->wait().WaitedFor(whom, now.monotonic_ns), ": ", OpOfGroup(*info_, *oldest));
  }
  SetNextLine();
  if (!line.has_value()) return;
  tally_.CountWait();
  actions->push_back(WaitReported{*std::move(line)});
}

void NodeGroup::SetNextLine() {
  WorkerOp* const oldest = ops_.OldestOpen();
  next_line_ns_ = opening() ? open_wait_.due_ns() : oldest == nullptr ? kNoDeadline : oldest->wait().due_ns();
}

// ---- words ----

std::string NodeGroup::Ranks(std::span<const LocalRank> ranks) const {
  std::vector<Rank> listed;
  for (const LocalRank rank : ranks.first(std::min(ranks.size(), kMaxMissingRanks))) listed.emplace_back(rank.value());
  return RanksOnNodes(*info_, listed, static_cast<uint32_t>(ranks.size()));
}

std::string NodeGroup::NotOpen(std::span<const LocalRank> missing) const {
  const std::string text = absl::StrCat("group '", info_->name, "' is not open: ");
  if (missing.empty()) return absl::StrCat(text, "its ranks have not met on their node in time");
  return absl::StrCat(text, "its ranks meet on their node, and ", Ranks(missing), " did not come");
}

std::string NodeGroup::NotDone(const WorkerOp& op, std::span<const LocalRank> missing, Now now) const {
  const std::string text = absl::StrCat(OpNotDone(*info_, op, now), ": ");
  if (opening()) return absl::StrCat(text, NotOpen(missing));
  if (missing.empty()) return absl::StrCat(text, "no rank is missing, but the node is too slow for its timeout");
  return absl::StrCat(text, "it waits for ", Ranks(missing), ", which made fewer calls, or stopped");
}

// ---- the end ----

void NodeGroup::BreakOff(absl::Status why, WorkerActions* actions) {
  if (opening()) close_requested_ = true;
  state_ = State::kFailed;
  failure_ = std::move(why);
  CloseIfDone(actions);
}

void NodeGroup::EndOp(WorkerOp* op, const absl::Status& status, Now now, WorkerActions* actions) {
  op->Report();
  actions->push_back(tally_.CountOp(op->command(), status, now));
  ops_.DropReported();
  if (ops_.empty() && !opening()) next_line_ns_ = kNoDeadline;
}

void NodeGroup::CloseIfDone(WorkerActions* actions) {
  if (!close_requested_ || closed() || !ops_.empty()) return;
  actions->push_back(LocalCloseAction{handle_});
  state_ = State::kClosed;
  if (!was_open_) actions->push_back(GroupOpened{handle_, failure_});
  if (close_commanded_ || was_open_) actions->push_back(GroupClosed{handle_});
}

}  // namespace shoal
