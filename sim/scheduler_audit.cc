#include "sim/scheduler_audit.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/now.h"
#include "sim/checkers.h"

namespace shoal::sim {
namespace {

// Moves of a group: for each process that came, and for each fault (its ranks and its servers' leases each have their
// say).
constexpr uint64_t kMovesForEach = 8;
// Beyond one for each fault that has begun meanwhile, and for each server that comes or goes with a rank.
constexpr uint64_t kMovesInASecond = 10;
constexpr uint64_t kSavesForEach = 40;
constexpr uint64_t kEventsForEach = 60;

// JOB of `group "GROUP" of job "JOB"`.
std::string JobOf(const std::string& subject) {
  const size_t end = subject.rfind('"');
  const size_t begin = end == std::string::npos ? end : subject.rfind('"', end - 1);
  return begin == std::string::npos ? "" : subject.substr(begin + 1, end - begin - 1);
}

// SERVER of "... rank 1 lost server SERVER: ..." or "... SERVER and reached it again: ..."; empty: no rank asked.
std::string ServerThatARankLost(const std::string& reason) {
  constexpr std::string_view kLost = " lost server ";
  const size_t at = reason.find(kLost);
  if (at == std::string::npos) return "";
  const size_t begin = at + kLost.size();
  return reason.substr(begin, reason.find_first_of(": ", begin) - begin);
}

// A group goes on without a rank that is lost, or has left: RosterChecks knows whether one may be.
bool IsOfARank(const std::string& reason) {
  return absl::StrContains(reason, " of its ") &&
         (absl::StrContains(reason, " was lost: ") || absl::StrContains(reason, " has closed it, and others go on"));
}

bool IsServerChange(EventKind kind) {
  switch (kind) {
    case EventKind::kServerRegistered:
    case EventKind::kServerReturned:
    case EventKind::kServerReplaced:
    case EventKind::kServerDraining:
    case EventKind::kServerUndrained:
    case EventKind::kServerEvicted:
    case EventKind::kServerLeft:
    case EventKind::kServerLost:
    case EventKind::kSchedulerStarted:
      return true;
    default:
      return false;
  }
}

}  // namespace

void SchedulerAudit::RankStarted(uint32_t run, const std::string& job, const std::string& process,
                                 const std::string& node, bool colocates) {
  ProcessStarted();
  places_[job].insert({process, node});
  runs_[job].insert(run);
  if (colocates) jobs_with_servers_.insert(job);
}

void SchedulerAudit::OnEvent(const scheduler::EventRecord& event, uint64_t now_ns) {
  if (event.call == nullptr) ++events_;  // those of calls have a bound of their own (core/call_pace.h)
  if (IsServerChange(event.kind)) ++server_changes_;
  if (event.kind == EventKind::kGroupOpened) {
    moves_of_[{event.ids.job, event.ids.group}].server_changes = server_changes_;
  }
  if (event.kind == EventKind::kServerLost) {
    OnServerLost(event.subject.substr(std::string_view("server ").size()), now_ns);
  }
  if (event.kind == EventKind::kGroupMoved) OnMove(event, now_ns);
}

bool SchedulerAudit::IsConcerned(const std::string& server, uint64_t now_ns) const {
  if (faults_->Concerns({server}, now_ns) || ended_unheard_.contains(server)) return true;
  return std::ranges::any_of(places_, [&](const auto& job_and_places) {
    const auto& [job, places] = job_and_places;
    const bool is_its_own =
        std::ranges::any_of(places, [&](const std::string& place) { return server == absl::StrCat(place, "-server"); });
    return is_its_own && faults_->Concerns(places, now_ns);
  });
}

void SchedulerAudit::OnServerLost(const std::string& server, uint64_t now_ns) {
  if (IsConcerned(server, now_ns)) return;
  if (!faults_->MisleadSchedulers()) {
    return fail_(absl::StrCat("server ", server, " was lost, and no fault concerned it (untouched)"));
  }
  for (const auto& [job, runs] : runs_) std::ranges::for_each(runs, look_away_);
}

bool SchedulerAudit::HasCause(const scheduler::EventRecord& event, const std::string& job, const Moves& moves,
                              uint64_t now_ns) const {
  if (IsOfARank(event.reason)) return true;
  const std::string lost = ServerThatARankLost(event.reason);
  if (lost.empty()) return server_changes_ > moves.server_changes;
  if (absl::StrContains(event.reason, Checkers::kNoMemory)) return true;
  // The other end hears that its peer closed the connection.
  const bool is_of_payload = absl::StrContains(event.reason, "was changed on its way") ||
                             absl::StrContains(event.reason, "connection reset by peer");
  if (is_of_payload && faults_->Concerns({kPayloads}, now_ns)) return true;
  const auto places = places_.find(job);
  return IsConcerned(lost, now_ns) || (places != places_.end() && faults_->Concerns(places->second, now_ns));
}

void SchedulerAudit::OnMove(const scheduler::EventRecord& event, uint64_t now_ns) {
  ++moves_;
  Moves& moves = moves_of_[{event.ids.job, event.ids.group}];
  moves.subject = event.subject;
  ++moves.count;
  moves.newest_ns.push_back(now_ns);
  while (moves.newest_ns.front() + kNsPerS <= now_ns) moves.newest_ns.pop_front();
  const std::string job = JobOf(event.subject);
  const uint64_t servers_of_ranks = jobs_with_servers_.contains(job) ? places_[job].size() : 0;
  const uint64_t reasons = faults_->BegunSince(moves.newest_ns.front() - kNsPerS) + servers_of_ranks + kMovesInASecond;
  if (moves.newest_ns.size() == reasons + 1) {
    fail_(absl::StrCat(event.subject, " moved ", moves.newest_ns.size(), " times in a second (pace): ", event.reason));
  }
  const bool has_cause = HasCause(event, job, moves, now_ns);
  moves.server_changes = server_changes_;
  if (has_cause) return;
  if (!faults_->MisleadSchedulers()) {
    return fail_(absl::StrCat(event.subject, " moved, and no fault concerned it (untouched): ", event.reason));
  }
  std::ranges::for_each(runs_[job], look_away_);
}

void SchedulerAudit::CheckRetained(const scheduler::PersistedState& state, const std::map<std::string, size_t>& most) {
  for (const scheduler::JobState& job : state.jobs) {
    const auto found = most.find(job.name);
    if (found == most.end() || job.groups.size() <= found->second) continue;
    fail_(absl::StrCat("job ", job.name, " has ", found->second, " groups at most, and the scheduler keeps ",
                       job.groups.size(), " (retained)"));
  }
}

void SchedulerAudit::CheckEnd() {
  const uint64_t reasons = processes_ + faults_->begun();
  for (const auto& [group, moves] : moves_of_) {
    if (moves.count <= kMovesForEach * reasons) continue;
    fail_(absl::StrCat(moves.subject, " moved ", moves.count, " times for ", reasons, " faults and processes (pace)"));
  }
  const auto check = [&](const char* what, uint64_t count, uint64_t for_each) {
    if (count <= for_each * reasons) return;
    fail_(absl::StrCat(count, " ", what, " for ", reasons, " faults and processes (pace)"));
  };
  check("saves", saves_, kSavesForEach);
  check("events", events_, kEventsForEach);
}

}  // namespace shoal::sim
