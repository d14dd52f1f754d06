// The metrics of scheduler and server: one table, of which docs/metrics.md is made (scripts/reference_pages.py).
// Names are stable, have units, and are Prometheus' own way of naming. Pure values; any thread.
#ifndef SHOAL_METRICS_METRIC_TABLE_H_
#define SHOAL_METRICS_METRIC_TABLE_H_

#include <cstddef>
#include <cstdint>

namespace shoal {

// clang-format off
// X(name in code, name, type, label, what it counts); the label is empty where there is one value only
#define SHOAL_METRICS(X) \
  X(kBuildInfo, "shoal_build_info", kGauge, "version", \
    "Always 1; the label is the version of Shoal.") \
  X(kResidentMemory, "shoal_process_resident_memory_bytes", kGauge, "", \
    "Memory of the process that is in RAM, slots included.") \
  X(kEventsLeftOut, "shoal_log_events_left_out_total", kCounter, "", \
    "Events that the log did not write because they came too fast or nobody read it.") \
  X(kServerRegistered, "shoal_server_registered", kGauge, "", \
    "1 from the first registration until the server ends; otherwise the server's other metrics are missing.") \
  X(kServerReceivedBytes, "shoal_server_received_bytes_total", kCounter, "", \
    "Payload of contributions that has landed.") \
  X(kServerSentBytes, "shoal_server_sent_bytes_total", kCounter, "", \
    "Payload of results that was sent.") \
  X(kServerContributions, "shoal_server_contributions_total", kCounter, "", \
    "Contributions that have landed.") \
  X(kServerChunksReduced, "shoal_server_chunks_reduced_total", kCounter, "", \
    "Chunks that were summed.") \
  X(kServerOps, "shoal_server_ops_total", kCounter, "", \
    "Ops whose first chunk was summed here: over all servers each op counts once, and again if a move repeats it.") \
  X(kServerGroupsFailed, "shoal_server_groups_failed_total", kCounter, "", \
    "Groups that failed here, counted by each I/O thread.") \
  X(kServerRefusals, "shoal_server_refusals_total", kCounter, "reason", \
    "Messages that were refused, by the reasons of docs/wire.md.") \
  X(kServerReduceSeconds, "shoal_server_reduce_seconds_total", kCounter, "", \
    "Time for which the I/O threads were summing.") \
  X(kServerCorrupted, "shoal_server_corrupted_payloads_total", kCounter, "", \
    "Contributions that arrived with a wrong checksum, where that is checked.") \
  X(kServerStrangers, "shoal_server_strangers_total", kCounter, "", \
    "Connections to the data ports that were closed since they did not begin with a greeting of a worker.") \
  X(kServerGroupsOpen, "shoal_server_open_groups", kGauge, "", \
    "Groups that are open.") \
  X(kServerPeers, "shoal_server_peers", kGauge, "transport", \
    "Connected workers, by shared memory and by the network.") \
  X(kServerAbsentRanks, "shoal_server_absent_ranks", kGauge, "", \
    "Ranks whose connection broke and for which their group waits.") \
  X(kServerSlots, "shoal_server_slots", kGauge, "state", \
    "Slots of the open groups, free and in use.") \
  X(kServerPendingPushes, "shoal_server_pending_pushes", kGauge, "", \
    "Pushes that wait for a slot.") \
  X(kServerSlotMemory, "shoal_server_slot_memory_bytes", kGauge, "state", \
    "Slot memory, free and reserved by open groups.") \
  X(kSchedulerLeads, "shoal_scheduler_leads", kGauge, "", \
    "1 while this scheduler is in charge; otherwise the scheduler's other metrics are missing.") \
  X(kSchedulerEpoch, "shoal_scheduler_map_epoch", kGauge, "", \
    "Epoch of the cluster's shard map.") \
  X(kSchedulerServers, "shoal_scheduler_servers", kGauge, "state", \
    "Dedicated servers: live, lost (until back, or 256 more have gone), refused within ten minutes; colocated ones.") \
  X(kSchedulerJobs, "shoal_scheduler_jobs", kGauge, "", \
    "Jobs with ranks that have not left.") \
  X(kSchedulerWorkers, "shoal_scheduler_workers", kGauge, "", \
    "Ranks of all jobs that are live.") \
  X(kSchedulerMoves, "shoal_scheduler_group_moves_total", kCounter, "reason", \
    "Moves of groups because servers came, left or were lost, or because a rank could not go on with a server.") \
  X(kSchedulerEvents, "shoal_scheduler_events_total", kCounter, "event", \
    "Events by the keys of docs/events.md since this scheduler began to lead, such as group-moved and server-lost.") \
  X(kSchedulerSaves, "shoal_scheduler_saves_total", kCounter, "outcome", \
    "Saves of the state that succeeded and failed.") \
  X(kSchedulerSaveSeconds, "shoal_scheduler_save_seconds", kHistogram, "", \
    "How long a save took, from the loop's order to its outcome.") \
  X(kJobRanks, "shoal_job_ranks", kGauge, "job", \
    "Live ranks of a job.") \
  X(kJobSlowRanks, "shoal_job_slow_ranks", kGauge, "job", \
    "Ranks of a job for which the others wait for a share of the time that matters (event rank-slow).") \
  X(kJobSlowServers, "shoal_job_slow_servers", kGauge, "job", \
    "Servers for which the job's ops wait longer than for others of their weight (event server-slow).") \
  X(kJobWaitedShare, "shoal_job_waited_ratio", kGauge, "job", \
    "Share of the time, 0 to 1, for which ranks of a job wait for the slowest of its slow ranks.") \
  X(kJobSlotMemory, "shoal_job_slot_memory_bytes", kGauge, "job", \
    "Slot memory that servers have reserved for the open groups of a job, over all servers.") \
  X(kJobRetainedResults, "shoal_job_retained_results", kGauge, "job", \
    "Chunks whose results the ranks of a job keep for ranks that may not have them yet.") \
  X(kJobOps, "shoal_job_ops_total", kCounter, "job", \
    "Ops that ended well, over all ranks of the job.") \
  X(kJobOpsFailed, "shoal_job_ops_failed_total", kCounter, "job", \
    "Ops that failed, over all ranks of the job.") \
  X(kJobPushedBytes, "shoal_job_pushed_bytes_total", kCounter, "job", \
    "Payload that the ranks of a job have pushed to servers.") \
  X(kJobPulledBytes, "shoal_job_pulled_bytes_total", kCounter, "job", \
    "Payload of results that the ranks of a job have received.") \
  X(kJobOpSeconds, "shoal_job_op_seconds_total", kCounter, "job", \
    "Time that ops took from the call to the result, over all ranks of the job.") \
  X(kJobOpDuration, "shoal_job_op_duration_seconds", kHistogram, "job", \
    "How long ops that ended well took from the call to the result, over all ranks of the job.")
// clang-format on

enum class Metric : uint8_t {
#define X(code, name, type, label, meaning) code,
  SHOAL_METRICS(X)
#undef X
};
#define X(code, name, type, label, meaning) +1
inline constexpr size_t kMetricCount = 0 SHOAL_METRICS(X);
#undef X

}  // namespace shoal

#endif  // SHOAL_METRICS_METRIC_TABLE_H_
