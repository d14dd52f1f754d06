#include "scheduler/machine/job.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "core/failure_detection.h"
#include "scheduler/machine/node_reduce_decision.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

constexpr size_t kRosterShown = 64;
constexpr size_t kMostGone = 64;  // ranks of an open job, still listed

}  // namespace

Job Job::Restored(const JobState& state) {
  Job job{.id = state.id,
          .name = state.name,
          .world_size = state.world_size,
          .min_ranks = state.min_ranks,
          .tenant = state.tenant,
          .phase = state.phase,
          .failure = state.failure,
          .started_at_unix_ms = state.started_at_unix_ms};
  for (uint32_t rank = 0; rank < state.world_size; ++rank) job.failure_ranks.push_back(JobRank(rank));
  job.groups.Restore(state.groups);
  for (const auto& [rank, rank_state] : state.ranks) {
    Worker& worker = job.workers[rank];
    worker.state = rank_state;
    worker.signs = ProcessSigns(job.PatienceNs());
    if (rank_state.phase == MemberPhase::kLive) {
      ++job.live_count;
      continue;
    }
    job.groups.CloseAllOf(rank);
    // States that were saved before they had the failure.
    if (rank_state.phase == MemberPhase::kLost && job.failure.empty() && job.is_fixed()) {
      job.failure = job.WhyLost(rank, rank_state.reason);
    }
  }
  return job;
}

JobState Job::State() const {
  JobState state{.id = id,
                 .name = name,
                 .world_size = world_size,
                 .min_ranks = min_ranks,
                 .phase = phase,
                 .failure = failure,
                 .started_at_unix_ms = started_at_unix_ms,
                 .ranks = {},
                 .groups = groups.States(),
                 .tenant = tenant};
  for (const auto& [rank, worker] : workers) state.ranks.emplace(rank, worker.state);
  return state;
}

std::string Job::Describe(JobRank rank) const {
  const auto worker = workers.find(rank);
  const std::string where = worker == workers.end() ? "" : absl::StrCat(" on node ", worker->second.state.node);
  return absl::StrCat("rank ", rank.value(), " of job \"", name, "\"", where);
}

bool Job::IsLive(JobRank rank) const {
  const auto worker = workers.find(rank);
  return worker != workers.end() && worker->second.state.phase == MemberPhase::kLive;
}

std::string Job::DescribeGone(JobRank rank) const {
  const RankState& state = workers.at(rank).state;
  return absl::StrCat(Describe(rank), " is ", std::string(MemberPhaseName(state.phase)), " (", state.reason, ")");
}

std::optional<JobRank> Job::RankOf(Incarnation incarnation) const {
  for (const auto& [rank, worker] : workers) {
    if (worker.state.incarnation == incarnation && IsLive(rank)) return rank;
  }
  return std::nullopt;
}

std::string Job::DescribeRoster() const {
  std::string text = absl::StrCat(live_count, live_count == 1 ? " rank" : " ranks");
  size_t shown = 0;
  for (const auto& [rank, worker] : workers) {
    if (!IsLive(rank)) continue;
    if (shown == kRosterShown) return absl::StrCat(text, " and ", live_count - shown, " more");
    absl::StrAppend(&text, shown++ == 0 ? ": " : ", ", rank.value());
    if (!worker.state.identity.empty()) absl::StrAppend(&text, " (\"", worker.state.identity, "\")");
  }
  return text;
}

std::string Job::DescribeGroup(const std::string& group_name) const {
  return absl::StrCat("group \"", group_name, "\" of job \"", name, "\"");
}

std::string Job::Describe(const GroupState& group) const {
  const std::string rail = group.rail.has_value() ? absl::StrCat("rail ", group.rail->index, " of ") : "";
  return absl::StrCat(rail, DescribeGroup(group.name));
}

uint32_t Job::AwaitedServers() const {
  uint32_t most = 0;
  for (const auto& [rank, worker] : workers) {
    if (worker.state.phase == MemberPhase::kLive) most = std::max(most, worker.awaited_servers);
  }
  return most;
}

std::vector<std::string> Job::NodesOf(const std::vector<JobRank>& ranks) const {
  std::vector<std::string> nodes;
  nodes.reserve(ranks.size());
  for (const JobRank rank : ranks) nodes.push_back(workers.at(rank).state.node);
  return nodes;
}

std::vector<NodePlace> Job::PlacesOf(const std::vector<JobRank>& ranks) const {
  std::vector<NodePlace> places;
  places.reserve(ranks.size());
  for (const JobRank rank : ranks) places.push_back(PlaceOf(workers.at(rank).state));
  return places;
}

std::vector<NodePlace> Job::LivePlaces() const {
  std::vector<NodePlace> places;
  places.reserve(workers.size());
  for (const auto& [rank, worker] : workers) {
    if (worker.state.phase == MemberPhase::kLive) places.push_back(PlaceOf(worker.state));
  }
  return places;
}

std::optional<std::pair<JobRank, JobRank>> Job::FindSharedNodeName() const {
  std::map<std::string_view, JobRank> first_of_name;
  for (const auto& [rank, worker] : workers) {
    const auto [first, added] = first_of_name.try_emplace(worker.state.node, rank);
    if (added || AreOnOneNode(PlaceOf(workers.at(first->second).state), PlaceOf(worker.state))) continue;
    return std::pair(first->second, rank);
  }
  return std::nullopt;
}

std::vector<RankLost> Job::LostRanks() const {
  std::vector<RankLost> lost;
  for (const auto& [rank, worker] : workers) {
    if (worker.state.phase != MemberPhase::kLost) continue;
    lost.push_back({.job = id,
                    .rank = rank,
                    .node = worker.state.node,
                    .reason = worker.state.reason,
                    .incarnation = worker.state.incarnation});
  }
  std::ranges::stable_partition(lost,
                                [this](const RankLost& each) { return failure == WhyLost(each.rank, each.reason); });
  return lost;
}

std::string Job::WhyLost(JobRank rank, const std::string& reason) const {
  return absl::StrCat(Describe(rank), " was lost: ", reason);
}

absl::Status Job::HolderError(const JoinJob& request, Now now) const {
  const Worker& worker = workers.at(request.rank);
  return absl::AlreadyExistsError(absl::StrCat(
      "rank ", request.rank.value(), " of job \"", request.job_name, "\" is held by process ", worker.state.pid,
      " on node ", worker.state.node, ", which was heard ", Seconds(now.monotonic_ns - worker.last_heartbeat_ns),
      " ago; end that process (a launcher that was killed leaves its ranks running), or give process ", request.pid,
      " on node ", CleanText(request.node), " another rank or job name"));
}

absl::Status Job::CheckMember(JobRank rank, Incarnation incarnation) const {
  const auto worker = workers.find(rank);
  if (worker == workers.end() || worker->second.state.incarnation != incarnation) {
    return absl::NotFoundError(absl::StrCat("this process is not ", Describe(rank), "; join the job first"));
  }
  return IsLive(rank) ? absl::OkStatus() : absl::NotFoundError(DescribeGone(rank));
}

uint64_t Job::TakeOverAtNs(JobRank rank) const {
  const Worker& worker = workers.at(rank);
  return worker.state.phase == MemberPhase::kLive ? worker.signs.TakeOverAtNs() : kNoDeadline;
}

const GroupState* Job::FindReported(GroupId of, Epoch epoch, Rank rank) const {
  const JobGroup* const group = groups.Find(of);
  if (group == nullptr) return nullptr;
  const GroupState& state = group->state();
  if (state.epoch < epoch || rank.value() >= state.ranks.size()) return nullptr;
  return IsLive(state.ranks[rank.value()]) ? &state : nullptr;
}

bool Job::AssignServer(JobRank rank, bool wanted) {
  Worker& worker = workers.at(rank);
  if (!wanted || worker.has_colocated_server) return worker.has_colocated_server;
  worker.has_colocated_server = std::none_of(workers.begin(), workers.end(), [&](const auto& entry) {
    const Worker& other = entry.second;
    return other.has_colocated_server && other.state.phase == MemberPhase::kLive &&
           AreOnOneNode(PlaceOf(other.state), PlaceOf(worker.state));
  });
  return worker.has_colocated_server;
}

bool Job::NeedsNoServers() {
  if (workers.size() != world_size || live_count != world_size) return false;
  if (needs_no_servers.has_value()) return *needs_no_servers;
  std::vector<NodeReduceRank> members;
  members.reserve(workers.size());
  for (const auto& [rank, worker] : workers) {
    const std::optional<NodeReduceRequest>& request = worker.state.node_reduce;
    members.push_back({rank, worker.state.node, request.has_value() ? &*request : nullptr});
  }
  needs_no_servers = DecideNodeReduce(world_size, members).mode == NodeReduceMode::kNodeAlone;
  return *needs_no_servers;
}

void Job::ForgetGone() {
  std::set<JobRank> of_groups;
  for (const auto& [group_id, group] : groups.all()) {
    const std::vector<JobRank>& ranks = group.state().RanksOfWhole();
    of_groups.insert(ranks.begin(), ranks.end());
  }
  size_t gone = workers.size() - live_count;
  for (auto worker = workers.begin(); worker != workers.end() && gone > kMostGone;) {
    const bool is_gone = worker->second.state.phase != MemberPhase::kLive;
    gone -= is_gone ? 1 : 0;
    worker = is_gone && !of_groups.contains(worker->first) ? workers.erase(worker) : std::next(worker);
  }
}

void Job::Abort(const std::string& reason) {
  phase = JobPhase::kFailed;
  failure = absl::StrCat("an operator aborted job \"", name, "\"", reason.empty() ? "" : ": ", CleanText(reason));
}

bool Job::NoteGroupFailed(std::vector<JobRank> ranks, const std::string& why) {
  if (!open() || !failure.empty()) return false;
  std::ranges::sort(ranks);
  failure = why;
  failure_ranks = std::move(ranks);
  return true;
}

bool Job::NoteGroupWorks(std::vector<JobRank> ranks) {
  std::ranges::sort(ranks);
  // Those that an open job has lost are in no group any more.
  if (!is_fixed()) std::erase_if(failure_ranks, [this](JobRank rank) { return !IsLive(rank); });
  if (!open() || failure.empty() || !std::ranges::includes(ranks, failure_ranks)) return false;
  failure.clear();
  return true;
}

bool Job::IsOfAnEarlierRun(JobRank rank, uint64_t process_end_ns, Now now) const {
  const auto came_after_it = [&](const auto& entry) {
    const Worker& worker = entry.second;
    return entry.first != rank && worker.state.phase == MemberPhase::kLive && worker.joined_ns > process_end_ns;
  };
  if (std::ranges::none_of(workers, came_after_it)) return false;
  const auto lives = [&](JobRank other) {
    const Worker& worker = workers.at(other);
    const std::optional<uint64_t> other_closed_ns = worker.signs.stream_closed_ns();
    // One whose stream ended because a follower died opens another one within this time.
    const bool is_gone = other_closed_ns.has_value() && now.monotonic_ns >= *other_closed_ns + kProcessEndedPatienceNs;
    const bool is_heard =
        now.monotonic_ns < worker.lease_expires_ns;  // those that fell silent together expire together
    return worker.state.phase == MemberPhase::kLive && !is_gone && is_heard;
  };
  return std::ranges::none_of(groups.all(), [&](const auto& entry) {
    const GroupState& group = entry.second.state();
    if (!entry.second.HasRank(rank) || group.gone.contains(rank)) return false;
    return std::ranges::any_of(
        group.ranks, [&](JobRank other) { return other != rank && !group.gone.contains(other) && lives(other); });
  });
}

MemberPhase Job::PhaseOfEnded(JobRank rank, uint64_t process_end_ns, Now now) {
  if (!is_fixed() || !open() || !IsOfAnEarlierRun(rank, process_end_ns, now)) return MemberPhase::kLost;
  // What failed in the earlier run is not the next one's.
  failure.clear();
  failure_ranks.clear();
  return MemberPhase::kLeft;
}

MemberPhase Job::PhaseOfExpired(JobRank rank, bool is_awaited, Now now) {
  const Worker& worker = workers.at(rank);
  const std::optional<uint64_t> closed_ns = worker.signs.stream_closed_ns();
  // Its place is taken at once, so nobody waits for this rank. If its node fell silent, or its process ended before its
  // stream was known here, that was at some time after it was last heard.
  if (is_awaited) return PhaseOfEnded(rank, closed_ns.value_or(worker.last_heartbeat_ns), now);
  if (!closed_ns.has_value()) return MemberPhase::kLost;
  const uint64_t process_end_ns = *closed_ns;
  // Only the place of a whole run that is over is free without anybody who asks for it: who came before and lives must
  // not wait for this rank.
  const bool is_missed = std::ranges::any_of(workers, [&](const auto& entry) {
    const Worker& other = entry.second;
    return entry.first != rank && other.state.phase == MemberPhase::kLive && other.joined_ns <= process_end_ns &&
           !other.signs.stream_closed_ns().has_value();
  });
  return is_missed ? MemberPhase::kLost : PhaseOfEnded(rank, process_end_ns, now);
}

}  // namespace shoal::scheduler
