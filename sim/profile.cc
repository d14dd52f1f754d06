#include "sim/profile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/machine/server_group.h"

namespace shoal::sim {

uint64_t SlotMemoryFor(const std::vector<JobProfile>& jobs, uint32_t max_chunk_bytes, uint32_t credit_chunks) {
  uint64_t bytes = 0;
  for (const JobProfile& job : jobs) {
    // A short group may be made before the servers have forgotten the one before it.
    const uint64_t groups = 1 + (job.subgroup ? 1 : 0) + (job.short_groups > 0 ? 2 : 0);
    // Of rails each has a region, with a contribution of each node; a group that has none needs no more than that.
    const uint32_t rails = std::max(job.nodes.ranks_per_node, 1u);
    const uint32_t members = (job.ranks + rails - 1) / rails;
    bytes += groups * rails * ServerGroup::RegionBytes(credit_chunks, members, max_chunk_bytes);
  }
  return bytes;
}

bool Profile::moves() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& fault) { return IsSurvivable(fault.kind); }) ||
         std::any_of(jobs.begin(), jobs.end(), [](const JobProfile& job) { return job.has_colocated_servers; });
}

std::string Profile::Describe() const {
  std::string text = absl::StrCat(
      "servers=", servers, "x", io_threads, " schedulers=", schedulers, " slot_memory=", slot_memory_bytes,
      added_slot_memory_bytes > 0 ? absl::StrCat("/", added_slot_memory_bytes) : "",
      arena_bytes > 0 ? absl::StrCat(" same_node=", arena_bytes) : "", " window=", window_bytes,
      " chunk=", max_chunk_bytes, " lease_ms=", lease_ttl_ms, " drift=", clock_drift_per_million,
      " node_delay_ns=", node_delay_ns, " latency_ns=", network.latency_ns, " jitter_ns=", network.jitter_ns,
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
    if (job.options_differ) absl::StrAppend(&text, ", options differ");
    if (job.closes_while_joining) absl::StrAppend(&text, ", a rank closes while it joins a group");
    if (job.nodes.shares_nodes()) {
      absl::StrAppend(&text, ", ", job.nodes.ranks_per_node, job.nodes.dealt ? " dealt to" : " on", " each node, ",
                      std::string(NodeReduceChoiceName(job.nodes.choice)));
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
