#include "worker/machine/node_group.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/frame.h"
#include "worker/machine/group_words.h"

namespace shoal {

NodeGroup::NodeGroup(const OpenGroupCommand& command, uint16_t generation, const SharedByGroups& shared, Now now)
    : handle_(command.group),
      info_(command.info),
      open_deadline_ns_(command.deadline_ns),
      own_devices_(command.devices),
      tally_(*shared.tally),
      ops_(info_->id),
      partial_ops_(shared.partial_ops, info_->whole_group, info_->size()),
      open_wait_(now.monotonic_ns, command.deadline_ns),
      next_line_ns_(open_wait_.due_ns()) {
  if (info_->rail == nullptr) return;
  // Deadlines are those of the whole group, which knows what else they may wait for.
  const OpenGroupCommand of_rail = {.group = handle_, .info = info_->rail, .deadline_ns = kNoDeadline};
  rail_ = std::make_unique<WorkerGroup>(of_rail, generation, shared, now);
}

// ---- commands ----

void NodeGroup::Open(Now now, WorkerActions* actions) {
  actions->push_back(LocalOpenAction{{.group = handle_,
                                      .meeting_name = info_->meeting_name,
                                      .rank = LocalRank(info_->local_rank()),
                                      .size = info_->local_size(),
                                      .id = info_->id,
                                      .devices = own_devices_,
                                      .counts_nodes = goes_on()}});
  if (rail_ != nullptr) rail_->Open(now, actions);
}

absl::Status NodeGroup::Submit(const SubmitCommand& command, Now now, WorkerActions* actions) {
  FollowRail(now, actions);
  if (failed()) return failure_;
  if (command.on_device) {
    if (absl::Status takes = CheckTakesDevices(*info_, devices_.has_value()); !takes.ok()) return takes;
  }
  if (absl::Status layout = CheckLayout(*info_, command); !layout.ok()) return layout;
  if (rail_ != nullptr) {
    if (absl::Status taken = SubmitToRail(command, now, actions); !taken.ok()) return taken;
  }
  WorkerOp& op = ops_.Add(command, /*map=*/ShardMap());
  // A device says by itself when it has the node's sum.
  if (rail_ != nullptr && !op.on_device()) rail_->SetReadyElements(op.number(), 0);
  if (op.layout().element_count() == 0) {
    EndOp(&op, absl::OkStatus(), now, actions);
    return absl::OkStatus();
  }
  if (!opening()) next_line_ns_ = std::min(next_line_ns_, op.wait().due_ns());
  if (op.on_device()) return absl::OkStatus();
  actions->push_back(LocalStartAction{{.group = handle_,
                                       .ticket = command.ticket,
                                       .number = op.number(),
                                       .data = command.data,
                                       .element_count = op.layout().element_count(),
                                       .codec = op.layout().codec(),
                                       .reduce_op = command.reduce_op,
                                       .premul_factor = command.premul_factor,
                                       .other_nodes = rail_ != nullptr}});
  return absl::OkStatus();
}

void NodeGroup::Fail(absl::Status why, Now now, WorkerActions* actions) {
  if (failed() || closed()) return;
  // By way of the scheduler too: a rank that has not met this one hears it from nobody else.
  if (rail_ != nullptr) {
    rail_->Fail(why, now, actions);
  } else if (info_->size() > 1) {
    actions->push_back(FailureToTell(info_->id, why));
  }
  FailAsOthers(std::move(why), now, actions);
}

void NodeGroup::FailAsOthers(absl::Status why, Now now, WorkerActions* actions) {
  if (failed() || closed()) return;
  // Unavailable would say to the others that this rank is gone.
  const bool lacks_server = absl::IsUnavailable(why);
  actions->push_back(LocalFailAction{handle_, lacks_server ? absl::AbortedError(why.message()) : why});
  BreakOff(std::move(why), now, actions);
}

void NodeGroup::GiveUp(absl::Status why, Now now, WorkerActions* actions) {
  if (!goes_on()) return Fail(std::move(why), now, actions);
  if (failed() || closed()) return;
  // To the ranks of this node it says that this one is gone.
  actions->push_back(LocalFailAction{handle_, absl::UnavailableError(why.message())});
  const std::string cause(why.message());
  LeaveRail(cause, std::move(why), now, actions);
}

// The scheduler has to know: no server misses a rank that is there. It has told what made the rail give up by itself.
void NodeGroup::LeaveRail(const std::string& cause, absl::Status why, Now now, WorkerActions* actions) {
  if (!rail_->gave_up()) {
    actions->push_back(GroupFailure{.group = info_->id, .reason = cause, .others_go_on = true});
    rail_->GiveUp(why, now, actions);
  }
  BreakOff(std::move(why), now, actions);
}

absl::Status NodeGroup::NodeIsOut(const std::string& cause) const {
  return absl::AbortedError(absl::StrCat(cause, "; this rank is on that node, which is out of group \"", info_->name,
                                         "\": the other nodes go on without it"));
}

void NodeGroup::NoteLost(const RankLostCommand& lost) {
  const auto is_lost = [&](Rank rank) { return info_->job_ranks[rank.value()] == lost.job_rank; };
  if (!lost_of_node_.ok() || std::ranges::none_of(info_->local_ranks, is_lost)) return;
  lost_of_node_ = RankLostError(lost.job_rank, lost.node, lost.reason);
}

void NodeGroup::Close(Now now, WorkerActions* actions) {
  close_requested_ = true;
  close_commanded_ = true;
  if (opening() && ops_.empty()) {
    return Fail(absl::CancelledError("the group was closed before it was open"), now, actions);
  }
  CloseIfDone(now, actions);
}

void NodeGroup::Shutdown(uint64_t deadline_ns, Now now, WorkerActions* actions) {
  close_requested_ = true;
  if (!ops_.empty() || opening()) GiveUp(absl::CancelledError("the worker is closing"), now, actions);
  if (rail_ != nullptr) rail_->Shutdown(deadline_ns, now, actions);
  CloseIfDone(now, actions);
}

// ---- what happened on the node ----

void NodeGroup::OnMet(const LocalGroupMet& met, WorkerActions* actions) {
  met_ = true;
  devices_ = met.devices;
  failures_ = met.failures;
  OpenIfReady(actions);
}

void NodeGroup::OpenIfReady(WorkerActions* actions) {
  if (!opening() || !met_ || (rail_ != nullptr && !rail_->open())) return;
  state_ = State::kOpen;
  was_open_ = true;
  SetNextLine();
  actions->push_back(GroupOpened{handle_, absl::OkStatus(), devices_, failures_});
}

void NodeGroup::OnPartReduced(const LocalPartReduced& reduced) {
  const WorkerOp* const op = ops_.FindOpen(reduced.ticket);
  if (op == nullptr) return;
  const uint64_t end = reduced.first_element + reduced.element_count;
  rail_->SetReadyElements(op->number(), end - PartOf(op->number()).elements.first);
}

void NodeGroup::OnOpEnded(const LocalOpEnded& ended, Now now, WorkerActions* actions) {
  WorkerOp* const op = ops_.FindOpen(ended.ticket);
  if (op == nullptr) return;
  if (rail_ != nullptr) {
    PartOf(op->number()).node_ended = ended.status;
    PartOf(op->number()).contributed = ended.contributed;
    return FollowRail(now, actions);
  }
  EndOp(op, ended.status, now, actions);
  CloseIfDone(now, actions);
}

void NodeGroup::OnDeviceDone(const DeviceDoneCommand& command, Now now, WorkerActions* actions) {
  WorkerOp* const op = ops_.FindOpen(command.ticket);
  if (op == nullptr || failed()) return;
  if (!command.status.ok()) return Fail(command.status, now, actions);
  if (rail_ != nullptr) {
    PartOf(op->number()).node_ended = absl::OkStatus();
    return FollowRail(now, actions);
  }
  EndOp(op, absl::OkStatus(), now, actions);
  CloseIfDone(now, actions);
}

void NodeGroup::OnFailed(const LocalGroupFailed& event, Now now, WorkerActions* actions) {
  if (failed() || closed()) return;
  const absl::Status why = WhatFailed(event);
  // The rail's ranks on other nodes hear it from this one. What is no other rank's fault, ranks of the node that have
  // not met this one do not know.
  const LocalRank own(info_->local_rank());
  // A rank of this node that is gone takes the node out of the group, and nothing else.
  if (goes_on() && absl::IsUnavailable(event.status)) {
    const std::string cause(why.message());
    return LeaveRail(cause, NodeIsOut(cause), now, actions);
  }
  // Whoever hears it is told by whom: this rank's own words do without its name.
  const absl::Status told = event.culprit == own ? absl::Status(why.code(), event.status.message()) : why;
  if (rail_ != nullptr) {
    rail_->Fail(told, now, actions);
  } else if (event.culprit.value_or(own) == own && info_->size() > 1) {
    actions->push_back(FailureToTell(info_->id, told));
  }
  BreakOff(why, now, actions);
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

// ---- the rail ----

const WorkerOp* NodeGroup::OpenInRail(OpNumber op) const {
  const WorkerOp* const in_rail = rail_->FindOp(op);
  return in_rail == nullptr || in_rail->reported() ? nullptr : in_rail;
}

const WorkerOp* NodeGroup::UnderWayInRail(OpNumber op) const {
  const WorkerOp* const in_rail = rail_ == nullptr ? nullptr : OpenInRail(op);
  return in_rail != nullptr && in_rail->HasAllElements() ? in_rail : nullptr;
}

absl::Status NodeGroup::SubmitToRail(const SubmitCommand& whole, Now now, WorkerActions* actions) {
  const ElementRange elements = NodePart(whole.layout.element_count(), info_->local_size(), info_->local_rank());
  const absl::StatusOr<OpLayout> layout = OpLayout::Make(rail_->info(), elements.count, whole.layout.dtype());
  if (!layout.ok()) return layout.status();
  SubmitCommand command = whole;
  command.data = whole.data + whole.layout.codec().TensorBytes(elements.first);
  command.layout = *layout;
  command.deadline_ns = kNoDeadline;
  if (absl::Status taken = rail_->Submit(command, now, actions); !taken.ok()) return taken;
  parts_.push_back({.elements = elements});
  return absl::OkStatus();
}

uint64_t NodeGroup::ResultsToPublish(const WorkerOp& op) {
  const Part& part = PartOf(op.number());
  const WorkerOp* const in_rail = OpenInRail(op.number());
  if (in_rail == nullptr) return part.elements.count;
  if (op.on_device()) return part.published;  // its device is told once, when the copies there are over as well
  const uint32_t missing = in_rail->FirstMissing();
  if (missing == in_rail->chunk_count()) return part.elements.count;
  return in_rail->layout().plan().FirstElement(ChunkNumber(missing));
}

void NodeGroup::PublishResults(WorkerActions* actions) {
  first_unpublished_ = std::max(first_unpublished_, ops_.first());
  const uint64_t end = std::min(ops_.first().value() + parts_.size(), rail_->newest_result().value() + 1);
  for (uint64_t number = first_unpublished_.value(); number < end; ++number) {
    const WorkerOp& op = *ops_.Find(OpNumber(number));
    Part& part = PartOf(op.number());
    const uint64_t landed = ResultsToPublish(op);
    if (landed > part.published && op.on_device()) {
      actions->push_back(DeviceCopiesOverAction{op.command().ticket});
    } else if (landed > part.published) {
      Publish(op, {.first = part.published, .count = landed - part.published}, actions);
    }
    part.published = landed;
    const bool is_whole = landed == part.elements.count;
    if (is_whole) rail_->ForgetContributed(op.number());
    if (op.number() == first_unpublished_ && is_whole) first_unpublished_ = OpNumber(number + 1);
  }
}

void NodeGroup::Publish(const WorkerOp& op, ElementRange of_part, WorkerActions* actions) {
  const uint64_t first = PartOf(op.number()).elements.first;
  const auto publish = [&](ElementRange elements, uint32_t contributors) {
    actions->push_back(LocalPublishAction{.group = handle_,
                                          .ticket = op.command().ticket,
                                          .elements = {.first = first + elements.first, .count = elements.count},
                                          .contributors = contributors});
  };
  if (!goes_on()) return publish(of_part, 0);
  for (const ContributedRange& range : rail_->ContributedRanges(op.number(), of_part)) {
    publish({.first = range.first, .count = range.count}, range.contributors);
  }
}

void NodeGroup::FollowRail(Now now, WorkerActions* actions) {
  if (rail_ == nullptr || closed()) return;
  if (rail_->gave_up() && !failed()) {
    const std::string cause((lost_of_node_.ok() ? rail_->failure() : lost_of_node_).message());
    actions->push_back(LocalFailAction{handle_, absl::UnavailableError(cause)});
    LeaveRail(cause, NodeIsOut(cause), now, actions);
  } else if (!rail_->failure().ok()) {
    FailAsOthers(rail_->failure(), now, actions);
  }
  if (!failed()) {
    OpenIfReady(actions);
    PublishResults(actions);
  }
  for (WorkerOp* op = ops_.OldestOpen(); op != nullptr; op = ops_.OldestOpen()) {
    const std::optional<absl::Status> node_ended = PartOf(op->number()).node_ended;
    if (!node_ended.has_value() || OpenInRail(op->number()) != nullptr) break;
    EndOp(op, *node_ended, now, actions);
  }
  CloseIfDone(now, actions);
}

// ---- time ----

void NodeGroup::Tick(Now now, WorkerActions* actions) {
  if (rail_ != nullptr) {
    rail_->Tick(now, actions);
    FollowRail(now, actions);
  }
  if (asked_ || now.monotonic_ns < OwnDeadlineNs()) return;
  asked_ = true;
  actions->push_back(LocalMissingAction{handle_});
}

uint64_t NodeGroup::NextDeadlineNs() const {
  return rail_ == nullptr ? OwnDeadlineNs() : std::min(OwnDeadlineNs(), rail_->NextDeadlineNs());
}

uint64_t NodeGroup::OwnDeadlineNs() const {
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
  const WorkerOp* const in_rail = oldest == nullptr || rail_ == nullptr ? nullptr : OpenInRail(oldest->number());
  if (in_rail != nullptr) oldest->NoteProgress(in_rail->wait().since_ns());
  std::optional<std::string> line;
  if (opening()) {
    if (open_wait_.TakeDue(now.monotonic_ns)) line = WaitForOpening(missing, now);
  } else if (oldest != nullptr && oldest->TakeWaitDue(now.monotonic_ns)) {
    line = WaitForOp(oldest, missing, now);
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
  if (ranks.empty()) return "processor time";
  std::vector<Rank> listed;
  for (const LocalRank rank : ranks.first(std::min(ranks.size(), kMaxMissingRanks))) {
    listed.push_back(info_->RankOfLocal(rank.value()));
  }
  return RanksOnNodes(*info_, listed, static_cast<uint32_t>(ranks.size()));
}

std::string NodeGroup::WaitForOpening(std::span<const LocalRank> missing, Now now) const {
  if (rail_ != nullptr && met_) {
    return absl::StrCat(open_wait_.WaitedFor("servers", now.monotonic_ns), ": ", NotOpen(missing));
  }
  return absl::StrCat(open_wait_.WaitedFor(Ranks(missing), now.monotonic_ns), ": group \"", info_->name,
                      "\" opens when all its ranks have met on their node");
}

std::string NodeGroup::WaitForOp(WorkerOp* op, std::span<const LocalRank> missing, Now now) const {
  if (const WorkerOp* const in_rail = UnderWayInRail(op->number()); in_rail != nullptr) {
    const std::string whom = rail_->Description().WaitedFor(in_rail, in_rail->missing_ranks());
    return absl::StrCat(op->wait().WaitedFor(whom, now.monotonic_ns), ": ", OpOfGroup(*info_, *op), ", ",
                        GroupDescription::Progress(*in_rail));
  }
  const std::string what = op->on_device() ? "the devices of the node's ranks" : Ranks(missing);
  return absl::StrCat(op->wait().WaitedFor(what, now.monotonic_ns), ": ", OpOfGroup(*info_, *op));
}

absl::Status NodeGroup::WhatFailed(const LocalGroupFailed& event) const {
  const bool is_known = event.culprit.has_value() && event.culprit->value() < info_->local_size();
  // As through servers: ranks that disagree have broken their group.
  if (!is_known && absl::IsInvalidArgument(event.status)) return absl::AbortedError(event.status.message());
  // What a rank passes on after it was told names whom it was about.
  if (!is_known || absl::IsAborted(event.status)) return event.status;
  const Rank culprit = info_->RankOfLocal(event.culprit->value());
  const JobRank rank = info_->job_ranks[culprit.value()];
  const std::string& node = info_->nodes[culprit.value()];
  const absl::string_view why = event.status.message();
  // It tells of another rank that is gone.
  if (goes_on() && absl::IsUnavailable(event.status) && BeginsWithARank(*info_, why)) return absl::AbortedError(why);
  if (absl::IsUnavailable(event.status)) return RankLostError(rank, node, why);
  const absl::StatusCode code = LacksMemory(event.status) ? event.status.code() : absl::StatusCode::kAborted;
  if (BeginsWithARank(*info_, why)) return absl::Status(code, why);
  return absl::Status(code, absl::StrCat(JobRankOnNode(rank, node), ": ", why));
}

std::string NodeGroup::NotOpen(std::span<const LocalRank> missing) const {
  if (rail_ != nullptr && met_) return rail_->Description().MissingServers();
  const std::string text = absl::StrCat("group \"", info_->name, "\" is not open: ");
  if (missing.empty()) return absl::StrCat(text, "its ranks have not met on their node in time");
  return absl::StrCat(text, "its ranks meet on their node, and ", Ranks(missing),
                      " did not come (ranks that run and can't meet can use servers: SHOAL_NODE_REDUCE=off)");
}

std::string NodeGroup::NotDone(const WorkerOp& op, std::span<const LocalRank> missing, Now now) const {
  const std::string text = absl::StrCat(OpNotDone(*info_, op, now), ": ");
  if (opening()) return absl::StrCat(text, NotOpen(missing));
  if (const WorkerOp* const in_rail = UnderWayInRail(op.number()); in_rail != nullptr) {
    return absl::StrCat(text, rail_->Description().WhyNotDone(*in_rail, rail_->opening()));
  }
  if (op.on_device()) return absl::StrCat(text, "it waits for the devices of the node's ranks");
  if (missing.empty()) return absl::StrCat(text, "no rank is missing, but the node is too slow for its timeout");
  const char* const why = rail_ == nullptr ? ", which made fewer calls, or stopped"
                                           : ", which made fewer calls, stopped, or waits for a server itself";
  return absl::StrCat(text, "it waits for ", Ranks(missing), why);
}

// ---- the end ----

void NodeGroup::BreakOff(absl::Status why, Now now, WorkerActions* actions) {
  if (opening()) close_requested_ = true;
  state_ = State::kFailed;
  failure_ = std::move(why);
  if (rail_ != nullptr) rail_->FailAsOthers(failure_, now, actions);
  EndOpsOnDevices(now, actions);
  if (was_open_) actions->push_back(GroupBroken{handle_, failure_});
  CloseIfDone(now, actions);
}

// What their streams still do needs nothing of this process, and may never end.
void NodeGroup::EndOpsOnDevices(Now now, WorkerActions* actions) {
  std::vector<uint64_t> tickets;
  for (const WorkerOp& op : ops_) {
    if (op.on_device() && !op.reported()) tickets.push_back(op.command().ticket);
  }
  for (const uint64_t ticket : tickets) {
    WorkerOp* const op = ops_.FindOpen(ticket);
    if (rail_ != nullptr) {
      PartOf(op->number()).node_ended = failure_;
    } else {
      EndOp(op, failure_, now, actions);
    }
  }
}

void NodeGroup::EndOp(WorkerOp* op, const absl::Status& status, Now now, WorkerActions* actions) {
  absl::Status told;
  if (status.ok()) {
    tally_.CountOnNode(op->layout().TensorBytes());
  } else {
    told = FailureOfOp(failed() ? failure_ : status, OpOfGroup(*info_, *op));
  }
  op->Report();
  OpDone done = tally_.CountOp(op->command(), told, now);
  if (told.ok() && goes_on() && op->layout().element_count() > 0) done.contributors = TakeContributors(*op);
  actions->push_back(std::move(done));
  const uint64_t first = ops_.first().value();
  ops_.DropReported([](const WorkerOp&) {});
  if (rail_ != nullptr) parts_.erase(parts_.begin(), parts_.begin() + (ops_.first().value() - first));
  if (ops_.empty() && !opening()) next_line_ns_ = kNoDeadline;
}

// A node's sum has the contributions of all its ranks.
Contributors NodeGroup::TakeContributors(const WorkerOp& op) {
  Contributors contributors = {.least = info_->size(), .most = 0};
  std::vector<ContributedRange> ranges;
  for (ContributedRange range : PartOf(op.number()).contributed) {
    // It comes out of memory that other processes write to.
    range.contributors = std::clamp(range.contributors, 1u, rail_->info().size()) * info_->local_size();
    contributors.least = std::min(contributors.least, range.contributors);
    contributors.most = std::max(contributors.most, range.contributors);
    AddContributed(range, &ranges);
  }
  if (partial_ops_.Differs(contributors.least, contributors.most)) {
    partial_ops_.Tell(rail_->epoch(), op.number(), std::move(ranges));
  }
  return contributors;
}

void NodeGroup::CloseIfDone(Now now, WorkerActions* actions) {
  if (!close_requested_ || closed() || !ops_.empty()) return;
  if (rail_ != nullptr) {
    if (!std::exchange(rail_closes_, true)) rail_->Close(now, actions);
    if (!rail_->closed()) return;
  }
  actions->push_back(LocalCloseAction{handle_});
  state_ = State::kClosed;
  if (!was_open_) actions->push_back(GroupOpened{handle_, failure_});
  const bool all_committed = rail_ != nullptr && rail_->closed_all_committed();
  if (close_commanded_ || was_open_) actions->push_back(GroupClosed{handle_, all_committed});
}

}  // namespace shoal
