#include "scheduler/scheduler_metrics.h"

#include <array>

#include "core/now.h"
#include "core/op_time_histogram.h"
#include "metrics/metric_sheet.h"

namespace shoal {
namespace {

using scheduler::JobNumbers;
using scheduler::kSaveBoundsMs;
using scheduler::SchedulerNumbers;

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// counts[i] values are at most bounds[i] units of time; the last of counts, which has no bound, are longer.
template <size_t kBounds>
HistogramValue Histogram(const std::array<uint64_t, kBounds>& bounds, uint64_t unit_ns,
                         const std::array<uint64_t, kBounds + 1>& counts, uint64_t sum_ns) {
  HistogramValue value{.buckets = {}, .count = 0, .sum = Seconds(sum_ns)};
  for (size_t i = 0; i < kBounds; ++i) {
    value.count += counts[i];
    value.buckets.push_back({.upper_bound = Seconds(bounds[i] * unit_ns), .count = value.count});
  }
  value.count += counts.back();
  return value;
}

void SetJob(const JobNumbers& job, MetricSheet* sheet) {
  sheet->Set(Metric::kJobRanks, job.live_ranks, job.name);
  sheet->Set(Metric::kJobSlowRanks, job.slow_ranks, job.name);
  sheet->Set(Metric::kJobSlowServers, job.slow_servers, job.name);
  sheet->Set(Metric::kJobWaitedShare, job.waited_share, job.name);
  sheet->Set(Metric::kJobSlotMemory, job.slot_memory_bytes, job.name);
  sheet->Set(Metric::kJobRetainedResults, job.load.retained_results, job.name);
  if (!job.load_is_whole) return;
  sheet->Set(Metric::kJobOps, job.load.ops_completed, job.name);
  sheet->Set(Metric::kJobOpsFailed, job.load.ops_failed, job.name);
  sheet->Set(Metric::kJobPushedBytes, job.load.bytes_pushed, job.name);
  sheet->Set(Metric::kJobPulledBytes, job.load.bytes_pulled, job.name);
  sheet->Set(Metric::kJobOpSeconds, Seconds(job.load.op_time_ns_total), job.name);
  if (!job.load.HasOpTimes()) return;
  sheet->Set(Metric::kJobOpDuration, Histogram(kOpTimeBoundsNs, 1, job.load.op_times.counts, job.load.op_time_ns_total),
             job.name);
}

}  // namespace

std::string SchedulerMetricsText(const SchedulerNumbers* numbers, uint64_t log_events_left_out) {
  MetricSheet sheet;
  sheet.SetProcess(log_events_left_out);
  sheet.Set(Metric::kSchedulerLeads, numbers == nullptr ? 0 : 1);
  if (numbers == nullptr) return sheet.Text();
  sheet.Set(Metric::kSchedulerEpoch, numbers->epoch.value());
  sheet.Set(Metric::kSchedulerServers, numbers->servers_live, "live");
  sheet.Set(Metric::kSchedulerServers, numbers->servers_lost, "lost");
  sheet.Set(Metric::kSchedulerServers, numbers->servers_colocated, "colocated");
  sheet.Set(Metric::kSchedulerServers, numbers->refused_servers.size(), "refused");
  sheet.Set(Metric::kSchedulerJobs, numbers->jobs);
  sheet.Set(Metric::kSchedulerWorkers, numbers->workers);
  sheet.Set(Metric::kSchedulerMoves, numbers->moves.servers_changed, "servers_changed");
  sheet.Set(Metric::kSchedulerMoves, numbers->moves.asked_by_rank, "asked_by_rank");
  for (size_t i = 0; i < numbers->events.size(); ++i) {
    const auto kind = static_cast<EventKind>(i);
    if (ComponentOf(kind) != "scheduler") continue;
    sheet.Set(Metric::kSchedulerEvents, numbers->events[i], std::string(EventKey(kind)));
  }
  sheet.Set(Metric::kSchedulerSaves, numbers->saves.succeeded, "succeeded");
  sheet.Set(Metric::kSchedulerSaves, numbers->saves.failed, "failed");
  sheet.Set(Metric::kSchedulerSaveSeconds,
            Histogram(kSaveBoundsMs, kNsPerMs, numbers->saves.counts, numbers->saves.total_ns));
  for (const JobNumbers& job : numbers->largest_jobs) SetJob(job, &sheet);
  return sheet.Text();
}

}  // namespace shoal
