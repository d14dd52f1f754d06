#include "scheduler/machine/group_rounds.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "scheduler/machine/group_plan.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

constexpr size_t kMissingShown = 8;
constexpr uint64_t kLongWaitNs = 10'000'000'000;

std::string Shape(JobRank rank, const std::vector<JobRank>& ranks, uint32_t max_chunk_bytes, WireFormat wire) {
  return absl::StrCat("rank ", rank.value(), " gave ranks [", RankList(ranks), "] with chunks of ",
                      max_chunk_bytes == 0 ? std::string("any size") : absl::StrCat(max_chunk_bytes, " bytes"),
                      " and wire ", std::string(WireFormatName(wire)));
}

std::string OnOrOff(bool value) { return value ? "on" : "off"; }

std::string ChoiceName(const NodeReduceRequest& request) {
  return std::string(NodeReduceChoiceName(*NodeReduceChoiceFromNumber(request.choice)));
}

// How the request differs from what another rank of the round has; "": it does not. Processes that are older than an
// option say nothing of it.
std::string DifferingOption(const GroupRound& round, const JoinGroup& request) {
  for (const auto& [rank, waiter] : round.waiters) {
    if (rank == request.rank) continue;
    const auto difference = [of_rank = rank, &request](const std::string& option, const std::string& of_waiter,
                                                       const std::string& of_request) {
      return absl::StrCat(option, " is ", of_waiter, " on rank ", of_rank.value(), " and ", of_request, " on rank ",
                          request.rank.value(), "; give every rank the same");
    };
    if (waiter.options.has_value() && request.options.has_value()) {
      const SharedOptions& its = *waiter.options;
      const SharedOptions& asked = *request.options;
      if (its.checksums != asked.checksums) {
        return difference("checksums", OnOrOff(its.checksums), OnOrOff(asked.checksums));
      }
      if (its.min_ranks != asked.min_ranks) {
        return difference("min_ranks", absl::StrCat(its.min_ranks), absl::StrCat(asked.min_ranks));
      }
      if (its.scales_sums != asked.scales_sums) {
        return difference("scale_sums", OnOrOff(its.scales_sums), OnOrOff(asked.scales_sums));
      }
      if (its.whole_op != asked.whole_op) {
        return difference("whole_op", OnOrOff(its.whole_op), OnOrOff(asked.whole_op));
      }
    }
    if (waiter.node_reduce.has_value() && request.node_reduce.has_value() &&
        waiter.node_reduce->choice != request.node_reduce->choice) {
      return difference("node_reduce", ChoiceName(*waiter.node_reduce), ChoiceName(*request.node_reduce));
    }
  }
  return "";
}

std::string MissingRank(const Job* job, JobRank rank) {
  const auto worker = job == nullptr ? std::map<JobRank, Worker>::const_iterator() : job->workers.find(rank);
  if (job == nullptr || worker == job->workers.end()) {
    return absl::StrCat("rank ", rank.value(), " (never joined the job)");
  }
  const RankState& state = worker->second.state;
  if (state.phase == MemberPhase::kLive) {
    return absl::StrCat("rank ", rank.value(), " (on node ", state.node,
                        ", joined the job, has not asked for the group)");
  }
  return absl::StrCat("rank ", rank.value(), " (on node ", state.node, ", ", std::string(MemberPhaseName(state.phase)),
                      ": ", state.reason, ")");
}

bool NeedsNoServers(const GroupRound& round, const Job* job) {
  return job != nullptr && round.NodeReduce(*job).mode == NodeReduceMode::kNodeAlone;
}

// All ranks of the round have asked.
bool AnyMayServe(const GroupRound& round, const ServerRegistry& servers, const Job* job) {
  const NodeNumbering nodes(job->PlacesOf(round.ranks));
  const std::vector<const ServerState*> of_job = servers.ServersOf(round.job);
  return std::any_of(of_job.begin(), of_job.end(), [&](const ServerState* server) { return MayServe(*server, nodes); });
}

std::string WhatIsMissing(const GroupRound& round, const ServerRegistry& servers, const Job* job) {
  const std::vector<JobRank> missing = round.MissingRanks();
  std::string text;
  for (size_t i = 0; i < std::min(missing.size(), kMissingShown); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", MissingRank(job, missing[i]));
  }
  if (missing.size() > kMissingShown) absl::StrAppend(&text, " and ", missing.size() - kMissingShown, " more");
  if (NeedsNoServers(round, job)) return text;
  const size_t server_count = servers.ServersOf(round.job).size();
  if (server_count < round.MinServers()) {
    absl::StrAppend(&text, text.empty() ? "servers (" : ", and for servers (", server_count, " of ", round.MinServers(),
                    " registered)");
  } else if (missing.empty() && !AnyMayServe(round, servers, job)) {
    absl::StrAppend(
        &text, "a server that may serve it (all ", server_count,
        " of the job are colocated with ranks on other nodes; start a dedicated one, or let its ranks run one)");
  }
  return text;
}

// The smaller of the two that is known; 0 means unknown.
uint64_t LeastKnown(uint64_t a, uint64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

NodeReduceDecision GroupRound::NodeReduce(const Job& its_job) const {
  std::vector<NodeReduceRank> members;
  members.reserve(waiters.size());
  for (const JobRank rank : ranks) {
    const auto waiter = waiters.find(rank);
    if (waiter == waiters.end()) continue;
    const std::optional<NodeReduceRequest>& request = waiter->second.node_reduce;
    members.push_back({rank, its_job.workers.at(rank).state.node, request.has_value() ? &*request : nullptr});
  }
  NodeReduceDecision decision = DecideNodeReduce(ranks.size(), members);
  // There a lost rank would take all others with it.
  if (MinRanks() > 0 && decision.mode == NodeReduceMode::kNodeAlone) {
    return {NodeReduceMode::kFlat, "its ranks are all on one node, and it goes on without those that are lost", {}};
  }
  return decision;
}

uint32_t GroupRound::MinServers() const {
  uint32_t most = 1;
  for (const auto& [rank, waiter] : waiters) most = std::max(most, waiter.min_servers);
  return most;
}

std::vector<JobRank> GroupRound::MissingRanks() const {
  std::vector<JobRank> missing;
  std::ranges::copy_if(ranks, std::back_inserter(missing), [this](JobRank rank) { return !waiters.contains(rank); });
  return missing;
}

LinkFacts GroupRound::Link() const {
  const bool within_node =
      std::ranges::all_of(waiters, [](const auto& entry) { return entry.second.link.within_node; });
  LinkFacts link{.within_node = within_node};
  for (const auto& [rank, waiter] : waiters) {
    if (waiter.link.within_node != within_node) continue;
    link.bytes_per_s = std::max(link.bytes_per_s, waiter.link.bytes_per_s);
    link.round_trip_ns = LeastKnown(link.round_trip_ns, waiter.link.round_trip_ns);
    link.message_ns = LeastKnown(link.message_ns, waiter.link.message_ns);
  }
  return link;
}

uint32_t GroupRound::NetworkCards() const {
  uint32_t cards = UINT32_MAX;
  for (const auto& [rank, waiter] : waiters) cards = std::min(cards, waiter.network_cards);
  return cards;
}

uint32_t GroupRound::MinRanks() const {
  const auto with_options =
      std::ranges::find_if(waiters, [](const auto& each) { return each.second.options.has_value(); });
  return with_options == waiters.end() ? 0 : with_options->second.options->min_ranks;
}

std::vector<GroupRounds::Failure> GroupRounds::Add(RequestHandle handle, const JoinGroup& request, Now now) {
  std::vector<Failure> failures;
  const uint32_t chunk_bytes = request.max_chunk_bytes;
  const WireFormat wire = *WireFormatFromNumber(request.wire);
  const std::pair<JobId, std::string> key(request.job, request.group_name);
  if (rounds_.size() >= kMaxRounds && !rounds_.contains(key)) {
    failures.push_back({handle,
                        absl::ResourceExhaustedError(
                            absl::StrCat(kMaxRounds, " groups are waiting for their ranks already; try again later")),
                        request.job, request.ranks});
    return failures;
  }
  GroupRound& round = rounds_[key];
  std::string difference = DifferingOption(round, request);
  if (round.waiters.empty()) {
    round.job = request.job;
    round.name = request.group_name;
    round.ranks = request.ranks;
    round.max_chunk_bytes = chunk_bytes;
    round.wire = wire;
  } else if (round.ranks != request.ranks || round.max_chunk_bytes != chunk_bytes || round.wire != wire) {
    difference = absl::StrCat(Shape(round.waiters.begin()->first, round.ranks, round.max_chunk_bytes, round.wire), ", ",
                              Shape(request.rank, request.ranks, chunk_bytes, wire),
                              "; give the same ranks, chunk size and wire on every rank");
  }
  if (!difference.empty()) {
    const absl::Status status = absl::InvalidArgumentError(
        absl::StrCat("the ranks differ on group \"", request.group_name, "\": ", difference));
    for (const auto& [rank, waiter] : round.waiters)
      failures.push_back({waiter.handle, status, request.job, request.ranks});
    failures.push_back({handle, status, request.job, request.ranks});
    rounds_.erase(key);
    return failures;
  }
  const auto earlier = round.waiters.find(request.rank);
  if (earlier != round.waiters.end()) {
    const std::string text = absl::StrCat("rank ", request.rank.value(), " asked again for group \"",
                                          request.group_name, "\"; the later request counts");
    // Two calls of one request may arrive in any order: the caller that still listens makes its call again.
    const bool same = request.request_number != 0 && earlier->second.request.number == request.request_number &&
                      earlier->second.request.incarnation == request.incarnation;
    failures.push_back({earlier->second.handle, same ? absl::UnavailableError(text) : absl::AbortedError(text)});
  }
  const uint64_t wait_ms = std::min(request.wait_ms, kMaxGroupWaitMs);
  round.waiters[request.rank] = {.handle = handle,
                                 .request = {request.incarnation, request.request_number},
                                 .min_servers = std::max(request.min_servers, 1u),
                                 .network_cards = std::max(request.network_cards, 1u),
                                 .wait_ms = wait_ms,
                                 .deadline_ns = now.monotonic_ns + wait_ms * 1'000'000,
                                 .link = request.link,
                                 .options = request.options,
                                 .node_reduce = request.node_reduce};
  return failures;
}

std::optional<GroupRound> GroupRounds::TakeComplete(const ServerRegistry& servers, const JobRegistry& jobs) {
  for (auto it = rounds_.begin(); it != rounds_.end(); ++it) {
    GroupRound& round = it->second;
    if (round.waiters.size() != round.ranks.size()) continue;
    const Job* const job = jobs.Find(round.job);
    const bool has_servers =
        servers.ServersOf(round.job).size() >= round.MinServers() && AnyMayServe(round, servers, job);
    if (!has_servers && !NeedsNoServers(round, job)) continue;
    GroupRound complete = std::move(round);
    rounds_.erase(it);
    return complete;
  }
  return std::nullopt;
}

std::vector<GroupRounds::Failure> GroupRounds::Expire(Now now, const ServerRegistry& servers, const JobRegistry& jobs) {
  std::vector<Failure> failures;
  for (auto it = rounds_.begin(); it != rounds_.end();) {
    GroupRound& round = it->second;
    std::string missing;  // as it is before the first of them gives up
    std::erase_if(round.waiters, [&](const auto& entry) {
      const GroupWaiter& waiter = entry.second;
      if (waiter.deadline_ns > now.monotonic_ns) return false;
      if (missing.empty()) missing = WhatIsMissing(round, servers, jobs.Find(round.job));
      failures.push_back({waiter.handle,
                          absl::DeadlineExceededError(absl::StrCat("rank ", entry.first.value(), " waited ",
                                                                   Seconds(waiter.wait_ms * 1'000'000), " in group \"",
                                                                   round.name, "\" for ", missing)),
                          round.job, round.ranks});
      return true;
    });
    it = round.waiters.empty() ? rounds_.erase(it) : std::next(it);
  }
  return failures;
}

std::vector<std::string> GroupRounds::LongWaits(const HeartbeatWorker& rank, const ServerRegistry& servers,
                                                const JobRegistry& jobs, Now now) const {
  std::vector<std::string> lines;
  for (auto it = rounds_.lower_bound({rank.job, ""}); it != rounds_.end() && it->first.first == rank.job; ++it) {
    const auto found = it->second.waiters.find(rank.rank);
    if (found == it->second.waiters.end() || found->second.deadline_ns <= now.monotonic_ns) continue;
    const uint64_t wait_ns = found->second.wait_ms * 1'000'000;
    const uint64_t left_ns = found->second.deadline_ns - now.monotonic_ns;
    const uint64_t waited_ns = wait_ns - std::min(wait_ns, left_ns);
    if (waited_ns < std::min(wait_ns / 4, kLongWaitNs)) continue;
    lines.push_back(absl::StrCat("group \"", it->second.name, "\": waited ", Seconds(waited_ns), " for ",
                                 WhatIsMissing(it->second, servers, jobs.Find(rank.job)), " (", Seconds(left_ns),
                                 " left)"));
  }
  return lines;
}

std::vector<GroupRounds::Failure> GroupRounds::FailJob(JobId job, const absl::Status& status) {
  std::vector<Failure> failures;
  auto it = rounds_.lower_bound({job, ""});
  while (it != rounds_.end() && it->first.first == job) {
    for (const auto& [rank, waiter] : it->second.waiters) failures.push_back({waiter.handle, status});
    it = rounds_.erase(it);
  }
  return failures;
}

std::vector<GroupRounds::Failure> GroupRounds::FailRank(JobId job, JobRank rank, const absl::Status& status) {
  std::vector<Failure> failures;
  auto it = rounds_.lower_bound({job, ""});
  while (it != rounds_.end() && it->first.first == job) {
    auto& waiters = it->second.waiters;
    const auto waiter = waiters.find(rank);
    if (waiter != waiters.end()) {
      failures.push_back({waiter->second.handle, status});
      waiters.erase(waiter);
    }
    it = waiters.empty() ? rounds_.erase(it) : std::next(it);
  }
  return failures;
}

std::vector<GroupRounds::Failure> GroupRounds::FailAllWith(JobId job, JobRank rank, const absl::Status& status) {
  std::vector<Failure> failures;
  auto it = rounds_.lower_bound({job, ""});
  while (it != rounds_.end() && it->first.first == job) {
    const bool has_it = std::ranges::find(it->second.ranks, rank) != it->second.ranks.end();
    for (const auto& [other, waiter] : it->second.waiters) {
      if (has_it) failures.push_back({waiter.handle, status});
    }
    it = has_it ? rounds_.erase(it) : std::next(it);
  }
  return failures;
}

std::vector<GroupRounds::Failure> GroupRounds::GiveUp(JobId job, JobRank rank, const GroupRequestId& request) {
  for (auto it = rounds_.lower_bound({job, ""}); it != rounds_.end() && it->first.first == job; ++it) {
    auto& waiters = it->second.waiters;
    const auto waiter = waiters.find(rank);
    if (waiter == waiters.end() || !(waiter->second.request == request)) continue;
    const Failure failure{waiter->second.handle, absl::CancelledError("the process gave this request up"), JobId(),
                          it->second.ranks};
    waiters.erase(waiter);
    if (waiters.empty()) rounds_.erase(it);
    return {failure};
  }
  return {};
}

void GroupRounds::Forget(RequestHandle handle) {
  for (auto it = rounds_.begin(); it != rounds_.end(); ++it) {
    auto& waiters = it->second.waiters;
    if (std::erase_if(waiters, [&](const auto& entry) { return entry.second.handle == handle; }) == 0) continue;
    if (waiters.empty()) rounds_.erase(it);
    return;
  }
}

uint64_t GroupRounds::next_deadline_ns() const {
  uint64_t deadline = kNoDeadline;
  for (const auto& [key, round] : rounds_) {
    for (const auto& [rank, waiter] : round.waiters) deadline = std::min(deadline, waiter.deadline_ns);
  }
  return deadline;
}

}  // namespace shoal::scheduler
