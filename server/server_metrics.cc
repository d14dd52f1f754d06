#include "server/server_metrics.h"

#include "core/frame.h"
#include "core/now.h"
#include "metrics/metric_sheet.h"

namespace shoal {
namespace {

// Not of whole numbers: the two may be of different moments.
double Rest(uint64_t all, uint64_t part) { return static_cast<double>(all) - static_cast<double>(part); }

}  // namespace

std::string ServerMetricsText(const ServerCounters* counters, uint64_t slot_memory_bytes,
                              uint64_t log_events_left_out) {
  MetricSheet sheet;
  sheet.SetProcess(log_events_left_out);
  sheet.Set(Metric::kServerRegistered, counters == nullptr ? 0 : 1);
  if (counters == nullptr) return sheet.Text();
  const ServerCounters& now = *counters;
  sheet.Set(Metric::kServerReceivedBytes, now.bytes_in);
  sheet.Set(Metric::kServerSentBytes, now.bytes_out);
  sheet.Set(Metric::kServerContributions, now.contributions_landed);
  sheet.Set(Metric::kServerChunksReduced, now.chunks_reduced);
  sheet.Set(Metric::kServerOps, now.ops_begun);
  sheet.Set(Metric::kServerGroupsFailed, now.groups_failed);
  for (size_t reason = 1; reason < now.refusals.size(); ++reason) {  // 0: none
    sheet.Set(Metric::kServerRefusals, now.refusals[reason], std::string(RefusalName(static_cast<Refusal>(reason))));
  }
  sheet.Set(Metric::kServerReduceSeconds, static_cast<double>(now.reduce_ns_total) / kNsPerS);
  sheet.Set(Metric::kServerCorrupted, now.corrupted_payloads);
  sheet.Set(Metric::kServerStrangers, now.strangers);
  sheet.Set(Metric::kServerGroupsOpen, now.groups_open);
  sheet.Set(Metric::kServerPeers, now.shared_memory_peers, "shared_memory");
  sheet.Set(Metric::kServerPeers, Rest(now.peers, now.shared_memory_peers), "network");
  sheet.Set(Metric::kServerAbsentRanks, now.absent_ranks.size());
  sheet.Set(Metric::kServerSlots, now.slots_in_use, "in_use");
  sheet.Set(Metric::kServerSlots, Rest(now.slots, now.slots_in_use), "free");
  sheet.Set(Metric::kServerPendingPushes, now.pending_pushes);
  sheet.Set(Metric::kServerSlotMemory, now.slot_memory_used_bytes, "reserved");
  sheet.Set(Metric::kServerSlotMemory, Rest(slot_memory_bytes, now.slot_memory_used_bytes), "free");
  return sheet.Text();
}

}  // namespace shoal
