#include "scheduler/insight/job_load.h"

#include <algorithm>
#include <array>

#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

// The totals that are summed over ranks, but for the counts of op times.
constexpr std::array kTotals = {&WorkerLoad::ops_completed, &WorkerLoad::ops_failed,       &WorkerLoad::bytes_pushed,
                                &WorkerLoad::bytes_pulled,  &WorkerLoad::op_time_ns_total, &WorkerLoad::refusals,
                                &WorkerLoad::bytes_on_node};

bool IsBelow(const WorkerLoad& before, const WorkerLoad& newer) {
  for (const auto total : kTotals) {
    if (newer.*total < before.*total) return true;
  }
  for (size_t i = 0; i < kOpTimeBuckets; ++i) {
    if (newer.op_times.counts[i] < before.op_times.counts[i]) return true;
  }
  return false;
}

}  // namespace

void JobLoad::Take(JobRank rank, Incarnation incarnation, const WorkerLoad& told, Now now) {
  const auto [found, is_new] = ranks_.try_emplace(rank);
  RankLoad& known = found->second;
  if (is_new || known.incarnation != incarnation) {
    known = {.incarnation = incarnation};
    ForgetRates();
  }
  if (!Add(known.load, told, now)) return;
  known.growth.Note(told, now);
  known.load = told;
  known.load.transports = CleanText(told.transports);
}

const RankLoad* JobLoad::Find(JobRank rank, const RankState& state) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() || found->second.incarnation != state.incarnation ? nullptr : &found->second;
}

bool JobLoad::IsWhole(const Job& job) const {
  return std::ranges::all_of(job.workers, [this](const auto& entry) {
    const RankState& state = entry.second.state;
    return state.phase != MemberPhase::kLive || Find(entry.first, state) != nullptr;
  });
}

uint64_t JobLoad::RetainedResults(const Job& job) const {
  uint64_t sum = 0;
  for (const auto& [rank, worker] : job.workers) {
    const RankLoad* const known = Find(rank, worker.state);
    if (known != nullptr && worker.state.phase == MemberPhase::kLive) sum += known->load.retained_results;
  }
  return sum;
}

bool JobLoad::Add(const WorkerLoad& before, const WorkerLoad& newer, Now now) {
  if (IsBelow(before, newer)) return false;
  for (const auto total : kTotals) sum_.*total += newer.*total - before.*total;
  std::array<uint64_t, kOpTimeBuckets>& counts = sum_.op_times.counts;
  for (size_t i = 0; i < kOpTimeBuckets; ++i) counts[i] += newer.op_times.counts[i] - before.op_times.counts[i];
  GrowingTotals::Totals totals{};
  totals[kOps] = sum_.ops_completed;
  totals[kFailedOps] = sum_.ops_failed;
  totals[kBytesPushed] = sum_.bytes_pushed;
  totals[kBytesPulled] = sum_.bytes_pulled;
  totals[kOpTimeNs] = sum_.op_time_ns_total;
  std::ranges::copy(counts, totals.begin() + kCounts);
  growth_.Note(totals, now);
  return true;
}

std::optional<JobRates> JobLoad::Rates() const {
  const std::optional<GrowingTotals::Growth> lately = growth_.Get();
  if (!lately.has_value()) return std::nullopt;
  const uint64_t ops = lately->grown[kOps];
  JobRates rates{.ops = lately->PerSecond(kOps),
                 .failed_ops = lately->PerSecond(kFailedOps),
                 .bytes_pushed = lately->PerSecond(kBytesPushed),
                 .bytes_pulled = lately->PerSecond(kBytesPulled),
                 .mean_op_ns = ops == 0 ? 0 : lately->grown[kOpTimeNs] / ops,
                 .op_times = {}};
  OpTimeHistogram times;
  std::copy(lately->grown.begin() + kCounts, lately->grown.end(), times.counts.begin());
  if (times.Total() == ops) rates.op_times = times;
  return rates;
}

std::optional<RankRates> RankGrowth::Rates() const {
  const auto lately = growth_.Get();
  if (!lately.has_value()) return std::nullopt;
  return RankRates{.ops = lately->PerSecond(kOps),
                   .bytes_pushed = lately->PerSecond(kBytesPushed),
                   .bytes_pulled = lately->PerSecond(kBytesPulled)};
}

}  // namespace shoal::scheduler
