#include "worker/membership/membership_machine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// The scheduler has just asked for it, so it is there; closing the worker must not wait longer.
constexpr uint64_t kLateServerTimeoutMs = 5000;

absl::Status Closed() { return absl::CancelledError("the worker is closed"); }

}  // namespace

MembershipMachine::MembershipMachine(MembershipOptions options)
    : options_(std::move(options)),
      jitter_(options_.jitter_seed),
      joining_(&options_.scheduler, &options_.member, options_.min_servers, &calls_, &jitter_),
      heartbeats_(&options_.scheduler, &calls_),
      watch_(&calls_, &jitter_),
      groups_(&options_.scheduler, &calls_, &jitter_),
      closed_groups_(&calls_, &jitter_),
      reports_(&options_.scheduler, &options_.member, &calls_, &jitter_),
      leaving_(&options_.scheduler, &calls_) {}

void MembershipMachine::OnEvent(const JoinCommand& command, Now now, MembershipActions* actions) {
  if (closed_ || left_) return EndJoining(Closed(), actions);
  joining_.Begin(command.deadline_ns, now, actions);
}

void MembershipMachine::FollowJoining(Now now, MembershipActions* actions) {
  if (join_ended_ || leaving_.under_way()) return;
  if (joining_.phase() == Joining::Phase::kJoined) {
    EndJoining(*joining_.joined(), actions);
    return OnColocationWanted(std::exchange(early_colocation_, {}), actions);
  }
  if (joining_.phase() != Joining::Phase::kFailed) return;
  StopWorking(actions);
  if (!joining_.is_to_leave()) {
    left_ = true;
    return EndJoining(joining_.failure(), actions);
  }
  leaving_.Begin({.member = Self(), .reason = std::string(joining_.failure().message()), .failed = true}, now, actions);
}

void MembershipMachine::EndJoining(absl::StatusOr<JoinedJob> joined, MembershipActions* actions) {
  join_ended_ = true;
  actions->emplace_back(JoinEnded{std::move(joined)});
}

void MembershipMachine::OnEvent(const JoinGroupCommand& command, Now now, MembershipActions* actions) {
  absl::Status refusal = heartbeats_.end();
  if (refusal.ok() && (closed_ || !is_member())) refusal = Closed();
  if (!refusal.ok()) {
    actions->emplace_back(GroupJoinEnded{command.ticket, refusal});
    return;
  }
  groups_.Add(Self(), command, now, actions);
}

void MembershipMachine::OnEvent(const GroupEnded& event, Now, MembershipActions*) {
  groups_.OnEnded(event.group);
  closed_groups_.Add(event.group, event.all_committed);
  reports_.OnEnded(event.group);
}

void MembershipMachine::OnEvent(const CloseCommand&, Now, MembershipActions* actions) { EndWaits(actions); }

void MembershipMachine::EndWaits(MembershipActions* actions) {
  closed_ = true;
  groups_.EndAll(Closed(), actions);
  if (!joining_.under_way()) return;
  joining_.GiveUp(actions);
  EndJoining(Closed(), actions);
}

void MembershipMachine::OnEvent(const LeaveCommand& command, Now now, MembershipActions* actions) {
  EndWaits(actions);
  if (!command.failed) groups_.GiveUpUnended();
  // A rank that is lost is lost from all of its groups, and some of them go on without it.
  std::vector<GivenUpRequest> given_up = groups_.TakeGivenUp();
  if (!command.failed) closed_groups_.AddGivenUp(std::move(given_up));
  LeaveJobCall call{.member = {},
                    .reason = command.reason,
                    .failed = command.failed,
                    .failures = closed_groups_.UntoldFailures(),
                    .given_up_requests = closed_groups_.UntoldGivenUp(),
                    .committed_groups = closed_groups_.UntoldCommitted(),
                    .load = command.counters};
  StopWorking(actions);
  leave_asked_ = true;
  if (leaving_.under_way()) return;
  if (!is_member()) return OnLeft(absl::OkStatus(), actions);
  call.member = Self();
  leaving_.Begin(std::move(call), now, actions);
}

void MembershipMachine::StopWorking(MembershipActions* actions) {
  heartbeats_.Stop(actions);
  watch_.Stop(actions);
  closed_groups_.Stop(actions);
  reports_.Stop(actions);
}

void MembershipMachine::OnLeft(const absl::Status& status, MembershipActions* actions) {
  left_ = true;
  // A join that failed leaves by itself: the caller of the join hears of that, and Left answers a LeaveCommand.
  const bool join_failed = !join_ended_ && joining_.phase() == Joining::Phase::kFailed;
  if (join_failed) EndJoining(joining_.failure(), actions);
  if (!join_failed || leave_asked_) actions->emplace_back(Left{status});
}

void MembershipMachine::OnEvent(const StatisticsRead& event, Now now, MembershipActions* actions) {
  heartbeats_.OnStatistics(event.counters, now, actions);
}

void MembershipMachine::OnEvent(const ServerTrouble& event, Now, MembershipActions*) { reports_.Add(event); }

void MembershipMachine::OnEvent(const GroupFailure& event, Now, MembershipActions*) {
  closed_groups_.AddFailure(event);
  reports_.OnEnded(event.group);
}

void MembershipMachine::OnEvent(const ColocatedServerStarted& event, Now now, MembershipActions* actions) {
  if (joining_.phase() == Joining::Phase::kStartingServer) {
    server_runs_ = event.status.ok();
    joining_.OnServerStarted(event.status, now, actions);
    return FollowJoining(now, actions);
  }
  if (!std::exchange(server_starts_, false)) return;
  server_runs_ = event.status.ok();
  const std::string cause = absl::StrCat("no reduction server is left (", server_wanted_because_, ")");
  actions->emplace_back(
      MembershipNotice{server_runs_ ? absl::StrCat(cause, ": this process runs a colocated server for its job now")
                                    : absl::StrCat(cause, ", and ", event.status.message())});
}

void MembershipMachine::OnEvent(const CallEnded& event, Now now, MembershipActions* actions) {
  const std::optional<CallBook::Ended> ended = calls_.End(event, actions);
  if (!ended.has_value()) return;
  switch (ended->owner) {
    case CallOwner::kJoining:
      joining_.OnAnswer(event.answer, now, actions);
      // A member from the first answer on, and each one renews the lease. The end of the stream is how the scheduler
      // learns at once that this process has ended.
      if (event.answer.ok() && joining_.joined().has_value()) {
        heartbeats_.Start(Self(), options_.member.job_name, joining_.joined()->lease_ttl_ms, now, actions);
        watch_.Start(Self(), actions);
        const ConnectionTicket& ticket = joining_.joined()->ticket;
        if (!ticket.bytes.empty()) actions->emplace_back(TicketCame{ticket});
      }
      FollowJoining(now, actions);
      break;
    case CallOwner::kHeartbeats:
      heartbeats_.OnAnswer(event.answer, now, actions);
      // A process that is still joining asks the scheduler again in any case.
      if (heartbeats_.end().ok() || joining_.under_way()) break;
      watch_.LetEnd();
      groups_.EndAll(heartbeats_.end(), actions);
      actions->emplace_back(MembershipEnded{heartbeats_.end()});
      break;
    case CallOwner::kGroups:
      groups_.OnAnswer(event, now, actions);
      if (absl::IsNotFound(event.answer.status())) heartbeats_.OnRefusal(now);
      break;
    case CallOwner::kClosedGroups:
      closed_groups_.OnAnswer(event.answer.status(), joining_.joined()->lease_ttl_ms, now);
      break;
    case CallOwner::kReports:
      reports_.OnAnswer(event.answer.status(), *joining_.joined(), now, actions);
      if (const auto* const answer = event.answer.ok() ? std::get_if<ReportAnswer>(&*event.answer) : nullptr) {
        OnGroupNews(answer->moved_groups, answer->given_up_groups, actions);
      }
      break;
    case CallOwner::kLeaving:
      if (const auto status = leaving_.OnAnswer(event.answer.status(), now, actions)) OnLeft(*status, actions);
      break;
  }
  if (!ended->gave_connections_up) return;
  heartbeats_.OnNewConnections(now, actions);
  groups_.OnNewConnections(now, actions);
  watch_.OnNewConnections(now, actions);
}

void MembershipMachine::OnEvent(const WatchNewsCame& event, Now, MembershipActions* actions) {
  if (!watch_.OnNews(event.watch)) return;
  if (event.news.map != nullptr) actions->emplace_back(MapPublished{event.news.map});
  // A rank of a job is lost once; a stream that was opened again repeats the losses.
  for (const RankLostCommand& lost : event.news.lost_ranks) {
    if (lost_ranks_told_.insert(lost.job_rank).second) actions->emplace_back(lost);
  }
  OnColocationWanted(event.news, actions);
  OnGroupNews(event.news.moved_groups, event.news.given_up_groups, actions);
}

void MembershipMachine::OnGroupNews(const std::vector<MoveGroupCommand>& moved,
                                    const std::vector<GiveGroupUpCommand>& given_up, MembershipActions* actions) {
  for (const MoveGroupCommand& move : moved) {
    reports_.OnMoved(move.group, move.map->epoch());
    actions->emplace_back(move);
  }
  for (const GiveGroupUpCommand& group : given_up) {
    reports_.OnEnded(group.group);
    actions->emplace_back(group);
  }
}

void MembershipMachine::OnColocationWanted(const WatchNews& news, MembershipActions* actions) {
  const uint32_t rank = options_.member.rank.value();  // an open job asks for no servers
  const bool is_wanted =
      std::find(news.colocation_wanted.begin(), news.colocation_wanted.end(), rank) != news.colocation_wanted.end();
  if (!is_wanted || !options_.member.colocates_without_servers) return;
  if (!join_ended_) {
    early_colocation_ = news;
    return;
  }
  if (closed_ || server_runs_ || server_starts_) return;
  server_starts_ = true;
  server_wanted_because_ = news.colocation_wanted_because;
  actions->emplace_back(RunColocatedServer{joining_.joined()->id, std::min(options_.timeout_ms, kLateServerTimeoutMs)});
}

void MembershipMachine::OnEvent(const WatchEnded& event, Now now, MembershipActions*) {
  watch_.OnEnded(event.watch, now);
}

void MembershipMachine::Tick(Now now, MembershipActions* actions) {
  if (left_) return;
  joining_.Tick(now, actions);
  FollowJoining(now, actions);
  heartbeats_.Tick(now, actions);
  watch_.Tick(now, actions);
  groups_.Tick(now, actions);
  leaving_.Tick(now, actions);
  closed_groups_.AddGivenUp(groups_.TakeGivenUp());
  if (!is_member() || leaving_.under_way()) return;
  closed_groups_.Tick(Self(), now, actions);
  reports_.Tick(Self(), now, actions);
}

uint64_t MembershipMachine::NextDeadlineNs() const {
  if (left_) return kNoDeadline;
  uint64_t next_ns = std::min({joining_.NextDeadlineNs(), heartbeats_.NextDeadlineNs(), watch_.NextDeadlineNs(),
                               groups_.NextDeadlineNs(), leaving_.NextDeadlineNs()});
  if (!is_member() || leaving_.under_way()) return next_ns;
  return std::min({next_ns, closed_groups_.NextDeadlineNs(), reports_.NextDeadlineNs()});
}

}  // namespace shoal
