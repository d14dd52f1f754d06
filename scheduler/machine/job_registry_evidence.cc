// The part of JobRegistry that takes what streams and servers tell of ranks: that a process has ended, or that it is
// slow.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/told_windows.h"

namespace shoal::scheduler {
namespace {

// Judging looks at all ranks of a group, and each rank's heartbeat asks for it.
constexpr uint64_t kJudgePeriodNs = 200 * kNsPerMs;

// Whether a server's numbers can be.
bool IsPossible(const LateRankReport& late) {
  return late.window_ns > 0 && late.window_ns <= kLongestWindowNs && late.waited_ns <= late.window_ns &&
         late.began_late_ns <= late.window_ns && late.late_ops <= late.ops;
}

// The ranks of each open group that is on one node and uses no servers, if all of them take part in the same groups: a
// rank that has other groups as well has ops under way while the others have none.
std::set<std::vector<JobRank>> RanksOnOneNode(const JobGroups& groups) {
  const auto is_on_one_node = [](const auto& entry) {
    const GroupState& group = entry.second.state();
    return !group.UsesServers() && group.failure.empty() && group.gone.empty() && group.ranks.size() > 1;
  };
  if (std::ranges::none_of(groups.all(), is_on_one_node)) return {};
  std::map<JobRank, std::vector<GroupId>> of_rank;
  for (const auto& [id, group] : groups.all()) {
    for (const JobRank rank : group.state().RanksOfWhole()) of_rank[rank].push_back(id);
  }
  std::set<std::vector<JobRank>> ranks_of_groups;
  for (const auto& entry : groups.all()) {
    if (!is_on_one_node(entry)) continue;
    const std::vector<JobRank>& ranks = entry.second.state().ranks;
    const std::vector<GroupId>& expected = of_rank[ranks.front()];
    if (std::ranges::all_of(ranks, [&](JobRank rank) { return of_rank[rank] == expected; })) {
      ranks_of_groups.insert(ranks);
    }
  }
  return ranks_of_groups;
}

}  // namespace

Worker* JobRegistry::FindLive(JobId id, JobRank rank, Incarnation incarnation) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return nullptr;
  const auto worker = job->second.workers.find(rank);
  const bool is_live = worker != job->second.workers.end() && worker->second.state.phase == MemberPhase::kLive &&
                       worker->second.state.incarnation == incarnation;
  return is_live ? &worker->second : nullptr;
}

void JobRegistry::OnStreamOpened(const WatchOpened& stream) {
  Worker* const worker = FindLive(stream.job, stream.rank, stream.incarnation);
  if (worker == nullptr) return;
  worker->signs.OnStreamOpened(stream.watcher);
  streams_[stream.watcher] = {stream.job, stream.rank, stream.incarnation};
}

void JobRegistry::OnStreamClosed(WatcherId watcher, Now now) {
  const auto stream = streams_.find(watcher);
  if (stream == streams_.end()) return;
  Worker* const worker = FindLive(stream->second.job, stream->second.rank, stream->second.incarnation);
  streams_.erase(stream);
  if (worker == nullptr) return;
  worker->signs.OnStreamClosed(watcher, worker->last_heartbeat_ns, now);
  next_expiry_ns_ = std::min(next_expiry_ns_, worker->signs.EndedAtNs());
}

template <typename Report>
const GroupState* JobRegistry::FindReported(const Report& report) const {
  const Job* const job = Find(report.job);
  const JobGroup* const group = job == nullptr ? nullptr : job->groups.Find(report.group);
  if (group == nullptr) return nullptr;
  const GroupState& state = group->state();
  if (state.epoch < report.epoch || report.rank.value() >= state.ranks.size()) return nullptr;
  const bool is_live = job->workers.at(state.ranks[report.rank.value()]).state.phase == MemberPhase::kLive;
  return is_live ? &state : nullptr;
}

void JobRegistry::OnRankAbsent(const AbsentRankReport& absent, Now now) {
  // Of an epoch that is over as well: the group moves at once if the process that ended ran one of its servers.
  const GroupState* const group = FindReported(absent);
  if (group == nullptr) return;
  Worker& worker = jobs_.at(absent.job).workers.at(group->ranks[absent.rank.value()]);
  worker.signs.OnConnectionLost(TimeOf(absent, now), CleanText(absent.because), now);
  next_expiry_ns_ = std::min(next_expiry_ns_, worker.signs.EndedAtNs());
}

void JobRegistry::OnRankLate(const ServerState& server, const LateRankReport& late, Now now) {
  const GroupState* const group = FindReported(late);
  const auto is_of_server = [&](const Shard& shard) { return shard.server == server.id; };
  if (group == nullptr || group->epoch != late.epoch || !IsPossible(late) ||
      std::ranges::none_of(group->shards, is_of_server)) {
    return;
  }
  Job& job = jobs_.at(late.job);
  const auto comes_by_network = [&](JobRank rank) {
    return !AreOnOneNode(PlaceOf(job.workers.at(rank).state), PlaceOf(server));
  };
  job.slow_ranks.OnWindow(
      {.group = late.group,
       .epoch = late.epoch,
       .rank = late.rank,
       .server = server.id,
       .io_thread = late.io_thread,
       .number = late.window,
       .times = {.end_ns = TimeOf(late, now), .length_ns = late.window_ns, .heartbeat_ns = HeartbeatNs()},
       .ops = late.ops,
       .late_ops = late.late_ops,
       .waited_ns = late.waited_ns,
       .spacing_ns = late.spacing_ns,
       .median_spacing_ns = late.median_spacing_ns,
       .began_late_ns = late.began_late_ns,
       .alone_by_network = comes_by_network(group->ranks[late.rank.value()]) &&
                           std::ranges::count_if(group->ranks, comes_by_network) == 1});
}

void JobRegistry::TakeServerWaits(Job* job, const HeartbeatWorker& request, Now now) {
  for (const ServerWaitReport& report : request.server_waits) {
    const JobGroup* const group = std::as_const(job->groups).Find(report.group);
    if (group == nullptr || group->state().epoch != report.epoch) continue;
    const std::vector<JobRank>& ranks = group->state().ranks;
    if (std::ranges::find(ranks, request.rank) == ranks.end()) continue;
    job->slow_servers.OnReport(request.rank, report, HeartbeatNs(), now);
  }
}

JobRegistry::SlowChanges JobRegistry::JudgeSlow(JobId id, const SlowServerFacts& facts, uint64_t settle_ns, Now now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return {};
  Job& job = found->second;
  if (now.monotonic_ns < job.next_judge_ns) return {};
  job.next_judge_ns = now.monotonic_ns + kJudgePeriodNs;
  const auto find_group = [&job](GroupId group) {
    const JobGroup* const open = std::as_const(job.groups).Find(group);
    return open == nullptr ? nullptr : &open->state();
  };
  const auto compare = [&](const GroupState& group, ServerId server) { return facts.compare(job, group, server); };
  const auto find_late_rank = [&](ServerId server, double least_share) {
    return job.slow_ranks.FindLateAtOne(server, least_share, find_group);
  };
  SlowChanges changes = {.ranks = job.slow_ranks.Judge(find_group, RanksOnOneNode(job.groups), settle_ns, now),
                         .servers = {}};
  changes.servers = job.slow_servers.Judge({find_group, facts.find_live, compare, find_late_rank}, 2 * settle_ns, now);
  return changes;
}

uint64_t JobRegistry::TakeOverAtNs(JobId id, JobRank rank) const {
  const Job* const job = Find(id);
  if (job == nullptr) return kNoDeadline;
  const Worker& worker = job->workers.at(rank);
  return worker.state.phase == MemberPhase::kLive ? worker.signs.TakeOverAtNs() : kNoDeadline;
}

bool JobRegistry::IsOfAnEarlierRun(const Job& job, JobRank rank, uint64_t ended_ns, Now now) {
  const auto came_after_it = [&](const auto& entry) {
    const Worker& worker = entry.second;
    return entry.first != rank && worker.state.phase == MemberPhase::kLive && worker.joined_ns > ended_ns;
  };
  if (std::ranges::none_of(job.workers, came_after_it)) return false;
  const auto lives = [&](JobRank other) {
    const Worker& worker = job.workers.at(other);
    const std::optional<uint64_t> other_closed_ns = worker.signs.stream_closed_ns();
    // One whose stream ended because a follower died opens another one within this time.
    const bool is_gone = other_closed_ns.has_value() && now.monotonic_ns >= *other_closed_ns + kProcessEndedPatienceNs;
    const bool is_heard =
        now.monotonic_ns < worker.lease_expires_ns;  // those that fell silent together expire together
    return worker.state.phase == MemberPhase::kLive && !is_gone && is_heard;
  };
  return std::ranges::none_of(job.groups.all(), [&](const auto& entry) {
    const GroupState& group = entry.second.state();
    if (!entry.second.HasRank(rank) || group.gone.contains(rank)) return false;
    return std::ranges::any_of(
        group.ranks, [&](JobRank other) { return other != rank && !group.gone.contains(other) && lives(other); });
  });
}

MemberPhase JobRegistry::PhaseOfEnded(Job* job, JobRank rank, uint64_t ended_ns, Now now) {
  if (!job->open() || !IsOfAnEarlierRun(*job, rank, ended_ns, now)) return MemberPhase::kLost;
  // What failed in the earlier run is not the next one's.
  job->failure.clear();
  job->failure_ranks.clear();
  return MemberPhase::kLeft;
}

MemberPhase JobRegistry::PhaseOfExpired(Job* job, JobRank rank, bool is_awaited, Now now) {
  const Worker& worker = job->workers.at(rank);
  const std::optional<uint64_t> closed_ns = worker.signs.stream_closed_ns();
  // Its place is taken at once, so nobody waits for this rank. If its node fell silent, or its process ended before its
  // stream was known here, that was at some time after it was last heard.
  if (is_awaited) return PhaseOfEnded(job, rank, closed_ns.value_or(worker.last_heartbeat_ns), now);
  if (!closed_ns.has_value()) return MemberPhase::kLost;
  const uint64_t ended_ns = *closed_ns;
  // Only the place of a whole run that is over is free without anybody who asks for it: who came before and lives must
  // not wait for this rank.
  const bool is_missed = std::ranges::any_of(job->workers, [&](const auto& entry) {
    const Worker& other = entry.second;
    return entry.first != rank && other.state.phase == MemberPhase::kLive && other.joined_ns <= ended_ns &&
           !other.signs.stream_closed_ns().has_value();
  });
  return is_missed ? MemberPhase::kLost : PhaseOfEnded(job, rank, ended_ns, now);
}

JobRegistry::Gone JobRegistry::TakeOver(JobId id, const JoinJob& request, Now now) {
  Job& job = jobs_.at(id);
  const uint64_t ended_ns = job.workers.at(request.rank).signs.stream_closed_ns().value_or(now.monotonic_ns);
  return MarkGone(&job, request.rank, PhaseOfEnded(&job, request.rank, ended_ns, now),
                  absl::StrCat("its process ended: it closed its stream to the scheduler, and process ", request.pid,
                               " on node ", CleanText(request.node), " joined as this rank"),
                  now);
}

}  // namespace shoal::scheduler
