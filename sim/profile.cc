#include "sim/profile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/machine/server_group.h"

namespace shoal::sim {

uint64_t SlotMemoryFor(const std::vector<JobProfile>& jobs, uint32_t max_chunk_bytes, uint32_t credit_chunks) {
  uint64_t bytes = 0;
  for (const JobProfile& job : jobs) {
    // A short group may be made before the servers have forgotten the one before it.
    const uint64_t groups = 1 + (job.subgroup ? 1 : 0) + (job.short_groups > 0 || job.is_open() ? 2 : 0);
    // Of rails each has a region, with a contribution of each node; a group that has none needs no more than that.
    const uint32_t rails = std::max(job.nodes.ranks_per_node, 1u);
    const uint32_t members = (job.ranks + job.newcomers + rails - 1) / rails;
    bytes += groups * rails * ServerGroup::RegionBytes(credit_chunks, members, max_chunk_bytes);
  }
  return bytes;
}

LinkFacts LinkOfRank(const JobProfile& job, uint32_t rank) {
  if (rank % 3 == 0) return job.link;
  if (rank % 3 == 2) return {};
  return {.bytes_per_s = job.link.bytes_per_s / 2,
          .round_trip_ns = 3 * job.link.round_trip_ns,
          .message_ns = 2 * job.link.message_ns};
}

uint64_t SlotMemoryForPlans(const std::vector<JobProfile>& jobs, uint32_t servers, uint32_t asked_chunk_bytes,
                            uint64_t port_buffer_bytes) {
  uint64_t bytes = 0;
  for (const JobProfile& job : jobs) {
    uint64_t most_bytes = 0;
    for (uint32_t shards = 1; shards <= servers; ++shards) {
      const FlowPlan plan = PlanFlow(EvenPortLoad(job.ranks, shards), job.link,
                                     job.asks_for_chunk ? asked_chunk_bytes : 0, port_buffer_bytes);
      // Where shares differ, the largest one has more than an even one.
      const uint32_t credit = std::min(2 * plan.credit_chunks, kMaxCreditChunks);
      most_bytes = std::max(most_bytes, SlotMemoryFor({job}, plan.chunk_bytes, credit));
    }
    bytes += most_bytes;
  }
  return bytes;
}

bool Profile::moves() const {
  const auto moves_groups = [](const Fault& fault) {
    // Servers whose heartbeats go to the follower lose their leases, if those are short.
    return IsSurvivable(fault.kind) || fault.kind == FaultKind::kFollowerStop;
  };
  return std::any_of(faults.begin(), faults.end(), moves_groups) ||
         std::any_of(jobs.begin(), jobs.end(),
                     [](const JobProfile& job) { return job.has_colocated_servers || job.is_open(); });
}

std::string Profile::Describe() const {
  std::string text = absl::StrCat(
      "servers=", servers, "x", io_threads, " schedulers=", schedulers,
      leader_lease_ms > 0 ? absl::StrCat(" elected for ms=", leader_lease_ms) : "", is_hosted ? " hosted" : "",
      " slot_memory=", slot_memory_bytes, added_slot_memory_bytes > 0 ? absl::StrCat("/", added_slot_memory_bytes) : "",
      small_slot_memory_bytes > 0 ? absl::StrCat(" every second one ", small_slot_memory_bytes) : "",
      arena_bytes > 0 ? absl::StrCat(" same_node=", arena_bytes) : "",
      " window=", plans_flow ? "planned" : absl::StrCat(window_bytes),
      port_buffer_bytes > 0 ? absl::StrCat(" for ports of ", port_buffer_bytes) : "", " chunk=", max_chunk_bytes,
      " lease_ms=", lease_ttl_ms, " drift=", clock_drift_per_million, " node_delay_ns=", node_delay_ns,
      " latency_ns=", network.latency_ns, " jitter_ns=", network.jitter_ns,
      " duplicates=", network.duplicate_per_million, " lent=", network.lend_per_million,
      " stragglers=", network.straggle_per_million, "/", network.straggle_ns, " jobs=");
  for (const JobProfile& job : jobs) {
    absl::StrAppend(&text, "[", job.ranks, " ranks, ");
    if (job.until_ns > 0) {
      absl::StrAppend(&text, "ops until ", job.until_ns / kNsPerMs, "ms");
    } else {
      absl::StrAppend(&text, job.ops, " ops");
    }
    if (job.short_groups > 0) absl::StrAppend(&text, ", ", job.short_groups, " short groups");
    absl::StrAppend(&text, ", ", job.in_flight, " in flight", job.subgroup ? ", subgroup" : "",
                    job.has_colocated_servers ? ", runs colocated servers" : "",
                    job.colocates_without_servers ? ", would run them without others" : "");
    if (job.wire != WireFormat::kAsIs) absl::StrAppend(&text, ", wire ", std::string(WireFormatName(job.wire)));
    if (plans_flow) {
      absl::StrAppend(&text, ", link ", job.link.bytes_per_s / 1'000'000, "MB/s ", job.link.round_trip_ns / 1000, "us ",
                      job.link.message_ns, "ns", job.asks_for_chunk ? "" : ", any chunk");
    }
    if (job.checksums) absl::StrAppend(&text, ", checksums");
    if (job.has_devices) absl::StrAppend(&text, ", devices");
    if (job.options_differ) absl::StrAppend(&text, ", options differ");
    if (job.closes_while_joining) absl::StrAppend(&text, ", a rank closes while it joins a group");
    if (job.nodes.shares_nodes()) {
      absl::StrAppend(&text, ", ", job.nodes.ranks_per_node, job.nodes.dealt ? " dealt to" : " on", " each node, ",
                      std::string(NodeReduceChoiceName(job.nodes.choice)));
    }
    if (job.first_rank_late_ns > 0) {
      absl::StrAppend(&text, ", rank 0 ", job.first_rank_late_ns / kNsPerMs, "ms late");
    }
    if (job.is_open()) {
      absl::StrAppend(&text, ", open: ", job.meetings, " groups of ", job.min_ranks, " ranks at least",
                      job.scales_sums ? ", sums scaled" : "", ", ", job.newcomers, " newcomers, ",
                      job.leaves_per_million, " of a million leave");
    }
    if (job.start_ns > 0) absl::StrAppend(&text, ", starts ", job.start_ns / 1000, "us later");
    absl::StrAppend(&text, "]");
  }
  for (const Fault& fault : faults) {
    absl::StrAppend(&text, " ", std::string(FaultName(fault.kind)), "@", fault.at_ns / 1000, "us/",
                    fault.duration_ns / 1000, "us/", fault.target);
  }
  return text;
}

}  // namespace shoal::sim
