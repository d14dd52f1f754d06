#include "worker/machine/worker_group.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/token.h"
#include "worker/machine/group_words.h"
#include "worker/machine/refusal_error.h"

namespace shoal {
namespace {

Roster RosterOf(const GroupInfo& info) {
  return DecodeRoster(info.size(), info.sealed_roster).value_or(Roster(info.size()));
}

// The others go on without this rank. Of a rail they do so without its node, whatever rank of that was lost.
absl::Status LeftOut(const GroupInfo& info) {
  if (info.is_rail()) {
    return absl::AbortedError(absl::StrCat(RankOnNode(info, info.rank),
                                           " is left out, since a rank of its node was lost or gave the group up"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(RankOnNode(info, info.rank), " was taken for lost; the others go on"));
}

}  // namespace

WorkerGroup::WorkerGroup(const OpenGroupCommand& command, uint16_t generation, const SharedByGroups& shared, Now now)
    : handle_(command.group),
      open_deadline_ns_(command.deadline_ns),
      options_(*shared.options),
      connections_(*shared.connections),
      tally_(*shared.tally),
      flow_(command, generation, shared),
      roster_(RosterOf(*command.info)),
      waits_(command.info->is_rail() ? GroupWaits() : GroupWaits(now.monotonic_ns, command.deadline_ns)) {}

// ---- opening, and moving from map to map ----

void WorkerGroup::Open(Now now, WorkerActions* actions) {
  epoch_began_ns_ = now.monotonic_ns;
  for (uint32_t shard = 0; shard < flow_.links().size(); ++shard) {
    const uint32_t connection = flow_.links()[shard].connection();
    if (connections_.IsUp(connection)) {
      flow_.Greet(shard, actions);
    } else {
      connections_.Hasten(connection, now);
    }
  }
  reach_check_ns_ = flow_.links().AllGreeted() ? kNoDeadline : now.monotonic_ns + options_.reach_patience_ns;
}

void WorkerGroup::OnUp(uint32_t connection, WorkerActions* actions) {
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (!shard.has_value() || failed()) return;
  flow_.Greet(*shard, actions);
  if (flow_.links().AllGreeted()) reach_check_ns_ = kNoDeadline;
}

void WorkerGroup::OnWelcome(uint32_t connection, const FrameHeader& header, const Welcome& welcome, Now now,
                            WorkerActions* actions) {
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (failed() || header.epoch != epoch() || !shard.has_value()) return;
  const ShardLink& link = flow_.links()[*shard];
  if (!link.in_use() || link.welcomed()) return;
  const absl::Status taken = flow_.Welcome(*shard, welcome.credit_chunks);
  if (!taken.ok()) return Fail(taken, now, actions);
  if (state_ == State::kOpen || !flow_.links().AllWelcomed()) return;
  state_ = State::kOpen;
  was_open_ = true;
  waits_.NoteOpened();
  WatchOps();
  Tell(GroupOpened{handle_, absl::OkStatus()}, actions);
}

void WorkerGroup::MoveTo(const MoveGroupCommand& next, Now now, WorkerActions* actions) {
  const Epoch newest = next_.has_value() ? next_->map->epoch() : epoch();
  if (failed() || next.map->epoch() <= newest) return;
  const absl::StatusOr<Roster> roster = DecodeRoster(info().size(), next.sealed_roster);
  if (!roster.ok() || !roster->Has(info().rank)) {
    return GiveUp(roster.ok() ? LeftOut(info()) : roster.status(), now, actions);
  }
  next_ = next;
  next_roster_ = *roster;
  MoveIfDue(now, actions);
}

void WorkerGroup::MoveIfDue(Now now, WorkerActions* actions) {
  if (!next_.has_value() || failed() || flow_.ResultMayBeInTensor()) return;
  // What a rank knew that has left was of its own ops: those that are done without it are to be waited for.
  if (info().min_ranks > 0 && next_roster_ != roster_) {
    told_all_committed_ = next_->all_committed;
  }
  closed_ = next_->closed;
  missed_closed_ = false;
  flow_.MoveTo(*std::exchange(next_, std::nullopt), static_cast<uint16_t>(generation() + 1), now, actions);
  waits_.NoteMissingRanks({});
  roster_ = next_roster_;
  Open(now, actions);
  FailIfTooFew(now, actions);
  MissClosed(now, actions);
}

// The scheduler fails a group that has lost too many. Where too many have closed it, the others may be about to.
void WorkerGroup::FailIfTooFew(Now now, WorkerActions* actions) {
  const uint32_t needed = info().min_ranks > 0 ? info().min_ranks : info().size();
  if (failed() || roster_.count() >= needed || flow_.ops().OldestOpen() == nullptr) return;
  const std::vector<Rank>& closed = roster_.lost();
  const std::span<const Rank> listed = std::span(closed).first(std::min(closed.size(), kMaxMissingRanks));
  const std::string what = info().min_ranks > 0 ? " closed the group or were lost" : " closed the group";
  Fail(absl::AbortedError(absl::StrCat(RanksOnNodes(info(), listed, static_cast<uint32_t>(closed.size())), what,
                                       "; it has ", roster_.count(), info().is_rail() ? " nodes" : " ranks",
                                       " left, and needs ", needed)),
       now, actions);
}

void WorkerGroup::OnAllCommitted(Now now, WorkerActions* actions) {
  if (failed()) return;
  told_all_committed_ = true;
  CloseIfDone(now, actions);
}

// ---- losing servers ----

void WorkerGroup::OnDown(uint32_t connection, WorkerActions* actions) {
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (failed() || !shard.has_value() || !flow_.links()[*shard].in_use()) return;
  const std::string& why = connections_.last_error(connection);
  LoseLink(*shard, why.empty() ? "connection closed" : why, /*refused=*/false, actions);
}

void WorkerGroup::LoseUnreached(Now now, WorkerActions* actions) {
  reach_check_ns_ = kNoDeadline;
  if (failed()) return;
  // While an attempt has not failed, the server may only be slow.
  const uint64_t slow_until_ns = epoch_began_ns_ + 3 * options_.reach_patience_ns;
  for (uint32_t shard = 0; shard < flow_.links().size(); ++shard) {
    const ShardLink& link = flow_.links()[shard];
    if (link.greeted()) continue;
    const std::string& error = connections_.last_error(link.connection());
    if (error.empty() && now.monotonic_ns < slow_until_ns) {
      reach_check_ns_ = std::min(now.monotonic_ns + options_.connect_retry_ns, slow_until_ns);
      continue;
    }
    flow_.LoseLink(shard, error.empty() ? "no connection was made in time" : error);
    if (flow_.TakeReport(shard, /*reachable=*/false)) {
      ReportTrouble(shard, {.reachable = false}, actions);
    }
  }
}

void WorkerGroup::LoseLink(uint32_t shard, const std::string& why, bool refused, WorkerActions* actions) {
  const ShardLink& link = flow_.links()[shard];
  if (link.lost()) return;
  flow_.LoseLink(shard, why);
  // Down: what the next attempt to connect comes to is reported.
  if (connections_.IsUp(link.connection())) ReportTrouble(shard, {.reachable = false, .refused = refused}, actions);
}

void WorkerGroup::ReportLostLink(uint32_t connection, bool reachable, WorkerActions* actions) {
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (failed() || !shard.has_value() || !flow_.TakeReport(*shard, reachable)) return;
  ReportTrouble(*shard, {.reachable = reachable}, actions);
}

void WorkerGroup::ReportTrouble(uint32_t shard, ServerTrouble trouble, WorkerActions* actions) {
  const Shard& entry = flow_.links().map().shards()[shard];
  trouble.group = info().id;
  trouble.epoch = epoch();
  trouble.server = entry.server;
  trouble.incarnation = entry.incarnation;
  if (!trouble.left.has_value()) trouble.reason = flow_.links()[shard].lost_because();
  actions->push_back(std::move(trouble));
}

void WorkerGroup::OnRefused(uint32_t connection, const FrameHeader& header, const std::string& text, Now now,
                            WorkerActions* actions) {
  // What was said in an epoch that is over has no consequence.
  if (header.epoch != epoch()) return;
  // The server is in a newer epoch already, or the others have left it in one: that map is on its way here.
  const bool behind = header.refusal == Refusal::kStaleEpoch || header.refusal == Refusal::kUnknownGroup;
  const bool map_may_come = no_more_maps_.ok() || next_.has_value();
  if (behind && map_may_come) return;
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (header.refusal == Refusal::kPreempted) {
    if (!shard.has_value() || state_ != State::kOpen) return;
    return FailOrGoOn(flow_.OnPreempted(*shard, header, actions), now, actions);
  }
  const absl::Status error =
      RefusalError(connections_.Describe(connection), absl::StrCat("group \"", info().name, "\""), header.refusal,
                   WithRanksNamed(info(), text));
  // Neither the scheduler nor the servers would take it from this rank that the group has failed.
  if (behind) {
    const absl::Status why = absl::FailedPreconditionError(absl::StrCat(
        RankOnNode(info(), info().rank), " gets no newer map (", error.message(), "): ", no_more_maps_.message()));
    // Of a rail the ranks of its node have to know that the other nodes go on.
    return info().is_rail() && info().min_ranks > 0 ? GiveUp(why, now, actions) : FailAsOthers(why, now, actions);
  }
  if (MayMove(header.refusal) && shard.has_value()) {
    return LoseLink(*shard, std::string(error.message()), header.refusal == Refusal::kNoSlotMemory, actions);
  }
  if (header.refusal == Refusal::kGroupFailedBefore || header.refusal == Refusal::kGroupLackedMemory) {
    return FailAsOthers(error, now, actions);
  }
  Fail(error, now, actions);
}

// (With no memory for a new group it is its end: those who start a job should hear of that.)
bool WorkerGroup::MayMove(Refusal refusal) const {
  return refusal == Refusal::kDraining || (refusal == Refusal::kNoSlotMemory && state_ == State::kOpen);
}

// ---- ops and chunks ----

absl::Status WorkerGroup::Submit(const SubmitCommand& command, Now now, WorkerActions* actions) {
  if (failed()) return flow_.failure();
  if (command.on_device && options_.staging_arena == nullptr) return NoDevicesError();
  if (command.on_device) {
    if (absl::Status reachable = flow_.MakeReachableByDevices(); !reachable.ok()) {
      Fail(reachable, now, actions);  // the other ranks would wait for this one
      return reachable;
    }
  }
  if (absl::Status layout = CheckLayout(info(), command); !layout.ok()) return layout;
  flow_.Submit(command, now, actions);
  WatchOps();
  FailIfTooFew(now, actions);
  MissClosed(now, actions);
  return absl::OkStatus();
}

void WorkerGroup::WatchOps() {
  const WorkerOp* const oldest = flow_.ops().OldestOpen();
  if (flow_.ops().empty()) {
    waits_.NoteOpsEnded();
  } else if (oldest != nullptr && !info().is_rail()) {
    waits_.Watch(*oldest);
  }
}

void WorkerGroup::OnTensorReady(const TensorReadyCommand& command, Now now, WorkerActions* actions) {
  // A stream may come to an op long after that has ended.
  if (failed() || !flow_.NoteTensorReady(command.ticket)) return;
  if (!command.status.ok()) Fail(command.status, now, actions);
}

void WorkerGroup::OnWaiting(uint32_t connection, const FrameHeader& header, const Waiting& missing) {
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (header.epoch != epoch() || !shard.has_value()) return;
  if (header.op <= flow_.landed_watermark()) {
    // Late, unless it is the answer to this rank's wish to leave.
    if (waits_.leaving()) waits_.NoteMissingRanks(missing);
    return;
  }
  flow_.NoteMissingRanks(*shard, header, missing);
}

void WorkerGroup::OnAsk(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions) {
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (state_ != State::kOpen || header.epoch != epoch() || !shard.has_value()) return;
  FailOrGoOn(flow_.OnAsk(*shard, header, actions), now, actions);
}

void WorkerGroup::OnRankLeft(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions) {
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (state_ != State::kOpen || !shard.has_value() || header.rank.value() >= info().size()) return;
  MissRank(header.rank, header.op, *shard, now, actions);
}

void WorkerGroup::MissRank(Rank rank, OpNumber op, uint32_t shard, Now now, WorkerActions* actions) {
  std::string what = absl::StrCat(RankOnNode(info(), rank), " has left the group, and does not call op ", op.value(),
                                  ", which this rank has called");
  if (info().min_ranks == 0) return Fail(absl::AbortedError(what), now, actions);
  ReportTrouble(shard, {.reachable = true, .reason = std::move(what), .left = rank}, actions);
}

void WorkerGroup::NoteClosed(const MoveGroupCommand& news, Now now, WorkerActions* actions) {
  if (failed()) return;
  if (next_.has_value() && news.map->epoch() == next_->map->epoch()) {
    next_->all_committed = next_->all_committed || news.all_committed;
    next_->closed = news.closed;
  }
  if (news.map->epoch() != epoch()) return;
  closed_ = news.closed;
  MissClosed(now, actions);
}

void WorkerGroup::MissClosed(Now now, WorkerActions* actions) {
  const WorkerOp* const oldest = flow_.ops().OldestOpen();
  if (failed() || missed_closed_ || oldest == nullptr || flow_.links().size() == 0) return;
  if (!closed_.has_value() || closed_->value() >= info().size()) return;
  // Otherwise it may have left without waiting for this rank's result, which others may have.
  if (info().min_ranks == 0 && !told_all_committed_) return;
  missed_closed_ = true;
  MissRank(*closed_, oldest->number(), /*shard=*/0, now, actions);
}

void WorkerGroup::OnBroken(uint32_t connection, const FrameHeader& header, const std::string& said, Now now,
                           WorkerActions* actions) {
  // Of an epoch that is over: a server that was left behind sees connections end.
  if (header.epoch != epoch()) return;
  if (header.type == FrameType::kGroupFailed && header.op != OpNumber(0)) {
    return OnRankLeft(connection, header, now, actions);
  }
  const std::string text = WithRanksNamed(info(), said);
  const bool was_lost = header.type == FrameType::kRankLost;
  const bool lacked_memory = header.refusal == Refusal::kGroupLackedMemory;
  const std::string who = RankOnNode(info(), header.rank);
  // A rank that was told of a loss passes it on in the same words: it is the lost one who has to be named.
  const std::string what = was_lost                        ? absl::StrCat(who, " was lost: ", text)
                           : BeginsWithARank(info(), text) ? text
                                                           : absl::StrCat(who, ": ", text);
  const absl::Status why(lacked_memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kAborted, what);
  // A server found that it differs from the others, which may not all hear that server.
  if (!was_lost && header.rank == info().rank && !failed()) {
    actions->push_back(GroupFailure{.group = info().id, .reason = text, .lacks_memory = lacked_memory});
  }
  FailAsOthers(why, now, actions);
}

bool WorkerGroup::OnOffered(uint32_t connection, const FrameHeader& header, const TransportEvent& event, Now now,
                            WorkerActions* actions) {
  const std::optional<uint32_t> shard = flow_.links().FindShard(connection);
  if (state_ != State::kOpen || !shard.has_value()) return false;
  const absl::Status taken = flow_.OnOffered(*shard, header, event, actions);
  if (!taken.ok()) Fail(taken, now, actions);
  return true;
}

void WorkerGroup::OnSent(OperationToken token, const absl::Status& status, Now now, WorkerActions* actions) {
  FailOrGoOn(flow_.OnSent(token, status, now, actions), now, actions);
}

void WorkerGroup::OnLanded(OperationToken token, const absl::Status& status, Now now, WorkerActions* actions) {
  const absl::Status landed = flow_.OnLanded(token, status, now, actions);
  if (landed.ok()) MoveIfDue(now, actions);  // it may have waited for that
  FailOrGoOn(landed, now, actions);
}

void WorkerGroup::OnDeviceCopyEnded(const DeviceCopyEnded& ended, Now now, WorkerActions* actions) {
  const absl::Status status = flow_.OnDeviceCopyEnded(ended, now, actions);
  if (status.ok()) MoveIfDue(now, actions);  // it may have waited for that
  FailOrGoOn(status, now, actions);
}

void WorkerGroup::FailOrGoOn(const absl::Status& status, Now now, WorkerActions* actions) {
  if (!status.ok()) return Fail(status, now, actions);
  if (!failed()) WatchOps();
  CloseIfDone(now, actions);
}

// ---- time ----

void WorkerGroup::Tick(Now now, WorkerActions* actions) {
  if (opening() && now.monotonic_ns >= open_deadline_ns_) {
    return Fail(absl::DeadlineExceededError(Description().MissingServers()), now, actions);
  }
  if (!failed()) {
    if (state_ == State::kOpen) flow_.Push(now, actions);
    if (now.monotonic_ns >= EpochCheckNs()) {
      epoch_check_ns_ = now.monotonic_ns + options_.reach_patience_ns;
      flow_.AskWhoHasGoneOn(actions);
    }
    if (const WorkerOp* overdue = flow_.FindOverdue(now.monotonic_ns); overdue != nullptr) {
      return Fail(Description().Timeout(*overdue, opening(), now), now, actions);
    }
  }
  std::optional<std::string> line = waits_.TakeLine(&flow_, Description(), now);
  if (line.has_value()) ReportWait(*std::move(line), actions);
  if (failed() && now.monotonic_ns >= force_at_ns_) {
    force_at_ns_ = kNoDeadline;
    flow_.CutWhatHoldsMemory(actions);
  }
  if (now.monotonic_ns >= reach_check_ns_) LoseUnreached(now, actions);
  MoveIfDue(now, actions);
  flow_.TickRetired(now, actions);
  CloseIfDone(now, actions);
}

// What a server had taken when the others went on it does not refuse any more: without a question this rank would wait
// for the result until its deadline.
uint64_t WorkerGroup::EpochCheckNs() const {
  const bool waits = opening() || (state_ == State::kOpen && !flow_.ops().empty());
  return waits && !no_more_maps_.ok() ? epoch_check_ns_ : kNoDeadline;
}

uint64_t WorkerGroup::NextDeadlineNs() const {
  if (next_.has_value() && !flow_.ResultMayBeInTensor()) return 0;
  const uint64_t deadline_ns = std::min({waits_.next_line_ns(), flow_.NextForceNs(), reach_check_ns_, EpochCheckNs()});
  switch (state_) {
    case State::kOpening:
      return std::min({deadline_ns, open_deadline_ns_, flow_.ops().next_deadline_ns()});
    case State::kOpen:
      return std::min({deadline_ns, flow_.ops().next_deadline_ns(), flow_.commit_note_at_ns(),
                       waits_.leaving() && flow_.Idle() ? waits_.leave_by_ns() : kNoDeadline});
    default:
      return std::min(deadline_ns, force_at_ns_);
  }
}

void WorkerGroup::ReportWait(std::string line, WorkerActions* actions) {
  tally_.CountWait();
  actions->push_back(WaitReported{std::move(line)});
}

void WorkerGroup::Tell(WorkerAction outcome, WorkerActions* actions) const {
  if (!info().is_rail()) actions->push_back(std::move(outcome));
}

// ---- the end ----

void WorkerGroup::Fail(absl::Status why, Now now, WorkerActions* actions) {
  if (failed() || closed()) return;
  if (info().size() > 1) actions->push_back(FailureToTell(info().id, why));
  FailAsOthers(std::move(why), now, actions);
}

void WorkerGroup::FailAsOthers(absl::Status why, Now now, WorkerActions* actions) {
  if (failed() || closed()) return;
  flow_.TellFailure(why, actions);
  End(std::move(why), now, actions);
}

// A server would fail the group for all ranks, if it heard before the ones that go on have greeted it.
void WorkerGroup::GiveUp(absl::Status why, Now now, WorkerActions* actions) {
  if (info().min_ranks == 0) return Fail(std::move(why), now, actions);
  if (failed() || closed()) return;
  gave_up_ = true;
  End(std::move(why), now, actions);
}

void WorkerGroup::End(absl::Status why, Now now, WorkerActions* actions) {
  const bool was_opening = opening();
  state_ = State::kFailed;
  force_at_ns_ = now.monotonic_ns + options_.force_after_ns;
  reach_check_ns_ = kNoDeadline;
  next_.reset();
  waits_.Silence();
  flow_.Fail(std::move(why), now, actions);
  if (was_opening) {
    Tell(GroupOpened{handle_, flow_.failure()}, actions);
    close_requested_ = true;
  } else {
    Tell(GroupBroken{handle_, flow_.failure()}, actions);
  }
  CloseIfDone(now, actions);
}

void WorkerGroup::Close(Now now, WorkerActions* actions) {
  close_requested_ = true;
  close_commanded_ = true;
  if (opening() && flow_.ops().empty()) {
    return Fail(absl::CancelledError("the group was closed before it was open"), now, actions);
  }
  CloseIfDone(now, actions);
}

void WorkerGroup::Shutdown(uint64_t deadline_ns, Now now, WorkerActions* actions) {
  close_requested_ = true;
  if (state_ == State::kOpen) waits_.Leave(now.monotonic_ns, deadline_ns);
  if (!flow_.ops().empty() || opening()) GiveUp(absl::CancelledError("the worker is closing"), now, actions);
  CloseIfDone(now, actions);
}

// A rank that has left can't hand a result over any more: it stays until every rank has all of them (invariant I3).
bool WorkerGroup::MayLeave(Now now, WorkerActions* actions) {
  if (info().size() == 1 || AllCommitted()) return true;
  waits_.Leave(now.monotonic_ns, now.monotonic_ns + options_.leave_patience_ns);
  if (now.monotonic_ns >= waits_.leave_by_ns()) {
    ReportWait(waits_.LeftWithoutTheOthers(Description(), now), actions);
    return true;
  }
  flow_.AskAboutCommit(actions);
  return false;
}

void WorkerGroup::CloseIfDone(Now now, WorkerActions* actions) {
  if (!close_requested_ || closed() || !flow_.Idle()) return;
  if (!failed() && !(flow_.ops().empty() && MayLeave(now, actions))) return;
  if (!failed()) flow_.SendCommitNotes(actions);
  const OpNumber calls_none_from = failed() ? OpNumber(0) : flow_.ops().next();
  for (const ShardLink& link : flow_.links()) flow_.TellLeaving(link, calls_none_from, actions);
  closed_all_committed_ = !failed() && flow_.newest_result() > OpNumber(0) && AllCommitted();
  state_ = State::kClosed;
  if (close_commanded_ || was_open_) Tell(GroupClosed{handle_, closed_all_committed_}, actions);
}

}  // namespace shoal
