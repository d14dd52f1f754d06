#include "scheduler/insight/stragglers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "scheduler/insight/told_windows.h"
#include "scheduler/machine/node_place.h"

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

void Stragglers::OnRankLate(const Job& job, const ServerState& server, const LateRankReport& late,
                            uint64_t heartbeat_ns, Now now) {
  const GroupState* const group = job.FindReported(late.group, late.epoch, late.rank);
  const auto is_of_server = [&](const Shard& shard) { return shard.server == server.id; };
  if (group == nullptr || group->epoch != late.epoch || !IsPossible(late) ||
      std::ranges::none_of(group->shards, is_of_server)) {
    return;
  }
  const auto comes_by_network = [&](JobRank rank) {
    return !AreOnOneNode(PlaceOf(job.workers.at(rank).state), PlaceOf(server));
  };
  ranks_.OnWindow({.group = late.group,
                   .epoch = late.epoch,
                   .rank = late.rank,
                   .server = server.id,
                   .io_thread = late.io_thread,
                   .number = late.window,
                   .times = {.end_ns = TimeOf(late, now), .length_ns = late.window_ns, .heartbeat_ns = heartbeat_ns},
                   .ops = late.ops,
                   .late_ops = late.late_ops,
                   .waited_ns = late.waited_ns,
                   .spacing_ns = late.spacing_ns,
                   .median_spacing_ns = late.median_spacing_ns,
                   .began_late_ns = late.began_late_ns,
                   .alone_by_network = comes_by_network(group->ranks[late.rank.value()]) &&
                                       std::ranges::count_if(group->ranks, comes_by_network) == 1});
}

void Stragglers::OnHeartbeat(const Job& job, const HeartbeatWorker& request, uint64_t heartbeat_ns, Now now) {
  ranks_.away().OnHeartbeat(request.rank, request.load.away_ns_total, request.load.counted_ns_total,
                            request.load.ops_completed, now);
  for (const ServerWaitReport& report : request.server_waits) {
    const JobGroup* const group = job.groups.Find(report.group);
    if (group == nullptr || group->state().epoch != report.epoch) continue;
    const std::vector<JobRank>& ranks = group->state().ranks;
    if (std::ranges::find(ranks, request.rank) == ranks.end()) continue;
    servers_.OnReport(request.rank, report, heartbeat_ns, now);
  }
}

void Stragglers::Forget(JobRank rank, bool is_last) {
  ranks_.Forget(rank);
  servers_.Forget(rank);
  if (is_last) servers_.Clear();
}

ServerComparison Stragglers::Compare(const Job& job, const ServerRegistry& servers, const GroupState& group,
                                     ServerId id) const {
  std::map<ServerId, uint64_t> weights;
  for (const Shard& shard : group.shards) weights[shard.server] += shard.weight;
  const ServerState* const server = servers.FindLive(id);
  if (server == nullptr || !weights.contains(id)) return {};
  // What is slow about its node is told as that of the rank.
  for (const SlowRank& slow : ranks_.slow()) {
    if (AreOnOneNode(PlaceOf(job.workers.at(slow.rank).state), PlaceOf(*server))) {
      return {.why_not = absl::StrCat("rank ", slow.rank.value(), " on its node is slow")};
    }
  }
  std::vector<NodePlace> alike;
  for (const auto& [each, weight] : weights) {
    const ServerState* const other = weight == weights[id] ? servers.FindLive(each) : nullptr;
    if (other != nullptr) alike.push_back(PlaceOf(*other));
  }
  const NodeNumbering nodes(alike);
  std::vector<size_t> alike_on_node(nodes.count());
  for (const NodePlace& place : alike) ++alike_on_node[*nodes.Find(place)];
  const std::optional<uint32_t> own = nodes.Find(PlaceOf(*server));
  // Results come sooner from servers on a rank's own node. If those are half of the servers, the others look slow to
  // it.
  ServerComparison comparison{.server = server};
  for (const JobRank rank : group.ranks) {
    const std::optional<uint32_t> node = nodes.Find(PlaceOf(job.workers.at(rank).state));
    if (node.has_value() && node != own && 2 * alike_on_node[*node] >= alike.size()) comparison.biased.insert(rank);
  }
  return comparison;
}

void Stragglers::Judge(const Job& job, const ServerRegistry& servers, uint64_t heartbeat_ns, Now now,
                       SchedulerActions* actions) {
  if (now.monotonic_ns < next_judge_ns_) return;
  next_judge_ns_ = now.monotonic_ns + kJudgePeriodNs;
  // By then all ranks have sent a heartbeat about the time in which they waited.
  const uint64_t settle_ns = heartbeat_ns;
  const auto find_group = [&](GroupId id) {
    const JobGroup* const open = job.groups.Find(id);
    return open == nullptr ? nullptr : &open->state();
  };
  for (const SlowRanks::Change& change : ranks_.Judge(find_group, RanksOnOneNode(job.groups), settle_ns, now)) {
    const SlowRank& slow = change.rank;
    const std::string who = job.Describe(slow.rank);
    const std::string what =
        change.is_over
            ? "nothing shows any more that the other ranks wait for it"
            : absl::StrFormat("the other ranks wait for it %.0f %% of the time, %.1f ms an op (%s): %s",
                              100 * slow.waited_share, static_cast<double>(slow.waited_ns_per_op) / kNsPerMs,
                              std::string(SlowCauseName(slow.cause)), std::string(SlowCauseText(slow.cause)));
    actions->push_back(Observed{change.is_over ? EventKind::kRankSlowNoMore : EventKind::kRankSlow,
                                who,
                                what,
                                {.job = job.id, .rank = slow.rank.value()}});
    AddNews(absl::StrCat(who, ": ", what));
  }
  const SlowServers::View view = {
      .find_group = find_group,
      .find_live = [&](ServerId id) { return servers.FindLive(id); },
      .compare = [&](const GroupState& group, ServerId id) { return Compare(job, servers, group, id); },
      .find_late_rank = [&](ServerId id,
                            double least_share) { return ranks_.FindLateAtOne(id, least_share, find_group); }};
  for (const SlowServers::Change& change : servers_.Judge(view, 2 * settle_ns, now)) {
    const SlowServer& slow = change.server;
    const bool is_over = !change.over.empty();
    const std::string who = absl::StrCat("server ", slow.name);
    const std::string of_job = absl::StrCat("job \"", job.name, "\"");
    const std::string what =
        is_over ? absl::StrCat(of_job, " does not count it as slow any more: ", change.over)
                : absl::StrFormat("the ranks of %s wait for it %.0f %% of the time (%s): %s", of_job,
                                  100 * slow.waited_share, std::string(slow.CauseName()), slow.Advice());
    actions->push_back(
        Observed{is_over ? EventKind::kServerSlowNoMore : EventKind::kServerSlow, who, what, {.job = job.id}});
    AddNews(absl::StrCat(who, " on node ", slow.node, ": ", what));
  }
}

void Stragglers::AddNews(std::string line) {
  if (news_.size() == kMaxNews) news_.pop_front();
  news_.push_back(std::move(line));
}

std::vector<std::string> Stragglers::TakeNews() {
  const std::deque<std::string> news = std::exchange(news_, {});
  return {news.begin(), news.end()};
}

}  // namespace shoal::scheduler
