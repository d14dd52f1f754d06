#include "sim/checkers.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/frame.h"
#include "core/hash.h"

namespace shoal::sim {
namespace {

constexpr std::byte kGrave{0x5c};
constexpr size_t kFailuresKept = 20;

bool IsUntouched(const std::vector<std::byte>& memory) {
  return memory.empty() ||
         (memory[0] == kGrave && std::memcmp(memory.data(), memory.data() + 1, memory.size() - 1) == 0);
}

// The law of docs/adr/0007: what a port is sure to hold, and what is planned however little that is.
constexpr uint64_t kPortHoldsBytes = 256 << 10;
constexpr uint64_t kPortHoldsPerSecond = 4000;  // the part of a second whose bandwidth a fast port holds
constexpr uint64_t kLeastPlannedCredit = 3;
constexpr uint64_t kLeastCreditOfKnownPort = 2;
constexpr uint64_t kLeastToldChunkBytes = 4096;  // of a port that the scheduler was told of

// The scheduler plans once, for the servers of the first map. A move keeps chunks and credit, whatever servers there
// are then, and a rank whose first answer was lost is told of the map that the group has by then (F12).
bool HasMapOfPlan(const GroupInfo& group) {
  const absl::StatusOr<GroupToken> token = DecodeToken(group.token);
  return token.ok() && token->epoch == group.map->epoch();
}

bool FitsPort(const GroupInfo& group, const PlanFacts& facts) {
  const auto shards = static_cast<uint32_t>(group.map->shards().size());
  const uint64_t under_way = group.look_ahead_chunks > 0 ? group.look_ahead_chunks : group.credit_chunks * shards;
  const bool is_told = facts.port_buffer_bytes > 0;
  // A chunk that is chosen for a port of known size is as small as it takes.
  const bool is_smallest = !is_told || facts.asked_chunk_bytes > 0 || group.max_chunk_bytes <= kLeastToldChunkBytes;
  // Below that shards would wait for each other's results, whatever the port holds.
  const uint64_t least = (is_told ? kLeastCreditOfKnownPort : kLeastPlannedCredit) * shards;
  // Of a port whose size is known, an eighth is for headers.
  const uint64_t port_bytes = is_told ? facts.port_buffer_bytes / 8 * 7
                                      : std::max(kPortHoldsBytes, facts.link.bytes_per_s / kPortHoldsPerSecond);
  const uint64_t bound_bytes = port_bytes + facts.link.bytes_per_s * facts.link.round_trip_ns / kNsPerS;
  const double to_port = static_cast<double>(under_way * group.max_chunk_bytes) * group.busiest_port;
  return (under_way <= least && is_smallest) || to_port <= static_cast<double>(bound_bytes);
}

// Servers are not colocated. What all ranks of the job push meets there, whatever groups they are in.
bool CountsAllRanks(const GroupInfo& group, uint32_t ranks_of_job) {
  std::set<ServerId> servers;
  for (const Shard& shard : group.map->shards()) servers.insert(shard.server);
  constexpr double kRounding = 1e-6;
  return group.busiest_port * static_cast<double>(servers.size()) >= ranks_of_job - kRounding;
}

// What is called when its group has failed already ends within this time.
constexpr uint64_t kAtOnceNs = kNsPerS;

// Of "rank 1 (rank 3 of the job) on b", "rank 3 of the job on b" or "rank 3 on b" (core/rank_text.h), at the start of
// the text: 3.
std::optional<uint32_t> JobRankNamed(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, absl::MaxSplits(absl::ByAnyChar(" ()"), 5));
  // Of the first form: rank, 1, an empty one, rank, 3.
  const bool has_both = words.size() > 4 && words[2].empty() && words[3] == "rank";
  uint32_t rank = 0;
  if (words.size() < 3 || words[0] != "rank" || !absl::SimpleAtoi(words[has_both ? 4 : 1], &rank)) return std::nullopt;
  return rank;
}

// "rank 3 on b: rank 3 of the job on b: ...": whoever passed it on added a name that was there.
bool NamesOneRankTwice(absl::string_view text) {
  std::optional<uint32_t> before;
  for (const absl::string_view part : absl::StrSplit(text, ": ")) {
    const std::optional<uint32_t> rank = JobRankNamed(part);
    if (rank.has_value() && rank == before) return true;
    before = rank;
  }
  return false;
}

}  // namespace

std::string_view ExcusableCheckName(ExcusableCheck check) {
  switch (check) {
    case ExcusableCheck::kIsolation:
      return "isolation";
    case ExcusableCheck::kLostRank:
      return "lost rank";
    case ExcusableCheck::kHealing:
      return "healing";
    case ExcusableCheck::kUntouched:
      return "untouched";
  }
  return "unknown";
}

std::array<uint64_t, kExcusableChecks> Checkers::excuses() const {
  std::array<uint64_t, kExcusableChecks> runs{};
  for (size_t check = 0; check < kExcusableChecks; ++check) runs[check] = excused_[check].size();
  return runs;
}

void Checkers::Fail(const std::string& what) {
  if (failures_.size() < kFailuresKept) failures_.push_back(what);
  world_->TraceText("FAILED: ", what);
}

void Checkers::OpCalled(uint32_t job, const std::string& group, uint64_t op) {
  Truth& truth = truths_[{job, group, op}];
  ++truth.called;
  truth.called_ns = world_->now_ns();
}

void Checkers::CheckHealing(uint32_t job, const Truth& truth, uint64_t worked_ns, size_t ranks,
                            const absl::Status& status, absl::FunctionRef<std::string()> where) {
  if (truth.called < ranks || truth.failed || IsExcused(ExcusableCheck::kHealing, job)) return;
  if (absl::StrContains(status.message(), kNoMemory)) return;
  if (world_->now_ns() <= std::max(truth.called_ns, worked_ns) + healing_ns_) return;
  const uint64_t since_ns = std::max({truth.called_ns, last_fault_ended_ns_(job), worked_ns});
  if (world_->now_ns() <= since_ns + healing_ns_) return;
  Fail(absl::StrCat(where(), ": ended ", (world_->now_ns() - since_ns) / kNsPerMs,
                    " ms after all ranks had called it, the one before it had ended, and so had all faults that concern"
                    " the job (healing)"));
}

void Checkers::GroupCloseCalled(uint32_t job, const std::string& group) {
  Closing& closing = closings_[{job, group}];
  ++closing.called;
  closing.called_ns = world_->now_ns();
}

void Checkers::GroupClosed(uint32_t job, const std::string& group, size_t ranks) {
  const Closing& closing = closings_[{job, group}];
  if (closing.called < ranks || failed_groups_.contains({job, group})) return;
  if (IsExcused(ExcusableCheck::kHealing, job)) return;
  const uint64_t since_ns = std::max(closing.called_ns, last_fault_ended_ns_(job));
  if (world_->now_ns() <= since_ns + healing_ns_) return;
  Fail(absl::StrCat("job ", job, " group ", group, ": a rank left it ", (world_->now_ns() - since_ns) / kNsPerMs,
                    " ms after all ranks had closed it, and all faults had ended (healing)"));
}

void Checkers::CheckCode(const std::string& where, const absl::Status& status) {
  const bool lacked_memory = absl::StrContains(status.message(), kNoMemory);
  if (absl::IsResourceExhausted(status) && !lacked_memory) {
    Fail(absl::StrCat(where,
                      ": it came as RESOURCE_EXHAUSTED, and nothing lacked memory (message): ", status.message()));
  }
  // What a rank says at its op's deadline may tell of a refusal as well, and so may one whose scheduler forgot its job.
  const bool ended_otherwise =
      absl::StrContains(status.message(), "is not done after") ||
      (scheduler_forgets_ && absl::StrContains(status.message(), "it can't go on with one of its servers"));
  if (absl::IsAborted(status) && lacked_memory && !ended_otherwise) {
    Fail(absl::StrCat(where, ": want of memory came as ABORTED (message): ", status.message()));
  }
  if (absl::IsNotFound(status)) {
    Fail(absl::StrCat(where, ": a scheduler's refusal came as it is (message): ", status.message()));
  }
  if (NamesOneRankTwice(status.message())) {
    Fail(absl::StrCat(where, ": the rank is named twice (message): ", status.message()));
  }
}

void Checkers::OpEnded(uint32_t job, const std::string& group, uint64_t op, uint64_t called_ns, uint32_t rank,
                       const std::vector<uint32_t>& job_ranks, const SumOrder& order, const OpPlan& plan,
                       const absl::Status& status, const std::vector<std::byte>& memory) {
  const auto ranks = static_cast<uint32_t>(job_ranks.size());
  Truth& truth = truths_[{job, group, op}];
  const auto where = [&] { return absl::StrCat("job ", job, " group ", group, " op ", op, " rank ", rank); };
  uint64_t& worked_ns = worked_ns_[{job, group, rank}];
  CheckHealing(job, truth, worked_ns, ranks, status, where);
  worked_ns = world_->now_ns();
  if (!status.ok()) {
    truth.failed = true;
    ++ops_failed_;
    first_errors_.try_emplace(job, std::string(status.message()));
    if (failed_groups_.insert({job, group}).second) on_group_failed_(job, group);
    if (status.message().empty()) Fail(absl::StrCat(where(), ": failed without a reason"));
    if (absl::StrContains(status.message(), " was lost: ") && !absl::IsAborted(status)) {
      Fail(absl::StrCat(where(), ": a lost rank ends ops with ABORTED, and not so (message): ", status.ToString()));
    }
    // F20 can end a job that another fault hit, and its message names what is at fault: the servers that are too small.
    if (texts_.contains(job) && !IsExcused(ExcusableCheck::kIsolation, job) &&
        !absl::StrContains(status.message(), kNoMemory) && !MaySay(job, std::string(status.message()))) {
      Fail(absl::StrCat(where(), ": the error does not name what is at fault (message): ", status.message()));
    }
    CheckCode(where(), status);
    const auto given_up = given_up_by_ns_.find({job, group});
    if (given_up != given_up_by_ns_.end() && world_->now_ns() > std::max(given_up->second, called_ns + kAtOnceNs)) {
      Fail(absl::StrCat(where(), ": ended ", (world_->now_ns() - given_up->second) / kNsPerMs,
                        " ms later than a rank's end of the group allows (lost rank): ", status.message()));
    }
    const auto still = still_until_ns_.find({job, job_ranks[rank]});
    const uint64_t awake_ns = still == still_until_ns_.end() ? 0 : still->second + healing_ns_;
    for (const uint32_t job_rank : job_ranks) {
      const auto known = all_know_by_ns_.find({job, job_rank});
      if (known == all_know_by_ns_.end()) continue;
      const uint64_t by_ns = std::max({known->second, called_ns + kAtOnceNs, awake_ns});
      if (world_->now_ns() <= by_ns) continue;
      Fail(absl::StrCat(where(), ": ended ", (world_->now_ns() - known->second) / kNsPerMs,
                        " ms later than the death of rank ", job_rank, " allows (lost rank): ", status.message()));
    }
    return;
  }
  ++ops_ok_;
  const uint64_t digest = DigestOf(memory);
  if (truth.told++ == 0) {
    truth.expected = ExpectedResult(plan, order);
    truth.told_digest = digest;
  }
  if (memory != truth.expected) {
    Fail(absl::StrCat(where(), ": the result is wrong (exactly-once)"));
  }
  if (digest != truth.told_digest) {
    Fail(absl::StrCat(where(), ": ranks were told different results (agreement)"));
  }
  if (truth.told == ranks) truth.expected = {};
  world_->Trace({job, op, rank, digest});
}

bool Checkers::MaySay(uint32_t job, const std::string& text) const {
  const auto texts = texts_.find(job);
  if (texts == texts_.end()) return false;
  return std::ranges::any_of(texts->second, [&](const std::string& each) { return absl::StrContains(text, each); });
}

void Checkers::Bury(std::string whose, std::vector<std::byte> memory) {
  std::fill(memory.begin(), memory.end(), kGrave);
  graves_.push_back({std::move(whose), std::move(memory)});
}

bool Checkers::SawMap(GroupId group, const ShardMap& map) {
  const auto [entry, is_new] = maps_.try_emplace({group, map.epoch()}, map.shards());
  if (is_new) return entry != maps_.begin() && std::prev(entry)->first.first == group;
  if (entry->second != map.shards()) {
    Fail(absl::StrCat("group ", group.value(), " has two maps in epoch ", map.epoch().value(), " (one map)"));
  }
  return false;
}

void Checkers::CheckGraves() {
  for (const Grave& grave : graves_) {
    if (IsUntouched(grave.memory)) continue;
    Fail(absl::StrCat(grave.whose, ": its memory was written after the op had ended (ownership)"));
  }
}

void Checkers::CheckNetwork(const SimNetwork& network) {
  for (const std::string& fault : network.faults()) Fail(fault);
  if (network.loans_open() > 0) {
    Fail(absl::StrCat(network.loans_open(), " loans are still open after everybody has gone (loans)"));
  }
}

void Checkers::CheckPlan(const GroupInfo& group, const PlanFacts& facts) {
  const FlowPlan plan{.chunk_bytes = group.max_chunk_bytes,
                      .credit_chunks = group.credit_chunks,
                      .look_ahead_chunks = group.look_ahead_chunks};
  const auto fail = [&](const char* what) {
    Fail(absl::StrCat("group ", group.id.value(), " has ", plan.credit_chunks, " chunks of ", plan.chunk_bytes,
                      " bytes, ", plan.look_ahead_chunks, " ahead: ", what, " (one plan)"));
  };
  const auto [entry, is_new] = plans_.try_emplace(group.id, plan);
  if (!(entry->second == plan)) fail("another rank has other ones");
  // For each rank: the first one that is heard may not have the map of the plan.
  if (HasMapOfPlan(group)) {
    if (!FitsPort(group, facts)) fail("that does not fit a port");
    if (!CountsAllRanks(group, facts.ranks_of_job)) fail("other ranks of the job are left out");
  }
  if (!is_new) return;
  if (facts.asked_chunk_bytes == 0) ++chunks_chosen_;
  if (facts.asked_chunk_bytes > 0 && plan.chunk_bytes != facts.asked_chunk_bytes) fail("its ranks asked for others");
  if (group.link != facts.link) fail("the link is not the best one that was measured");
}

void Checkers::CheckServerWaits(const std::string& worker, const std::vector<ServerWaitWindow>& windows) {
  for (const ServerWaitWindow& window : windows) {
    if (window.number == 0) continue;  // none is over yet
    ++server_waits_told_;
    const auto fits = [&](const ServerWait& wait) {
      return wait.waited_ns <= window.length_ns && wait.late_bursts <= window.bursts;
    };
    if (window.bursts > 0 && window.length_ns > 0 && window.length_ns <= window.end_ns &&
        std::ranges::all_of(window.servers, fits)) {
      continue;
    }
    Fail(absl::StrCat(worker, " tells of a window of ", window.length_ns, " ns and ", window.bursts,
                      " bursts, in which it can't have waited for its servers as it says (waits)"));
  }
}

void Checkers::CheckServerBounds(const std::string& server, const ServerCounters& counters,
                                 uint64_t slot_memory_bytes) {
  if (counters.slot_memory_used_bytes <= slot_memory_bytes) return;
  Fail(absl::StrCat(server, " uses more memory than it has (bounds)"));
}

void Checkers::CheckServerEmpty(const std::string& server, const ServerCounters& counters) {
  refusals_ += counters.RefusalTotal();
  preemptions_ += counters.refusals[static_cast<size_t>(Refusal::kPreempted)];
  if (counters.groups_open > 0 || counters.slot_memory_used_bytes > 0 || counters.peers > 0) {
    Fail(absl::StrCat(server, " still has ", counters.groups_open, " groups, ", counters.slot_memory_used_bytes,
                      " bytes of slots and ", counters.peers, " peers after everybody has gone (liveness)"));
  }
}

std::string Checkers::first_error_of(uint32_t job) const {
  const auto found = first_errors_.find(job);
  return found == first_errors_.end() ? "" : found->second;
}

}  // namespace shoal::sim
