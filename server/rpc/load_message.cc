#include "server/rpc/load_message.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace shoal {

void ToMessage(const ServerCounters& counters, v1::ServerLoad* message) {
  message->set_bytes_in(counters.bytes_in);
  message->set_bytes_out(counters.bytes_out);
  message->set_chunks_reduced(counters.chunks_reduced);
  message->set_refusals(counters.RefusalTotal());
  message->set_groups_open(counters.groups_open);
  message->set_peers(counters.peers);
  message->set_shared_memory_peers(counters.shared_memory_peers);
  message->set_transports(counters.transports);
  message->set_corrupted_payloads(counters.corrupted_payloads);
  message->set_slot_memory_used_bytes(counters.slot_memory_used_bytes);
  for (size_t reason = 0; reason < counters.refusals.size(); ++reason) {
    if (counters.refusals[reason] == 0) continue;
    (*message->mutable_refusals_by_reason())[std::string(RefusalName(static_cast<Refusal>(reason)))] =
        counters.refusals[reason];
  }
  message->set_contributions(counters.contributions_landed);
  message->set_ops(counters.ops_begun);
  message->set_groups_failed(counters.groups_failed);
  message->set_absent_ranks(static_cast<uint32_t>(counters.absent_ranks.size()));
  message->set_slots(counters.slots);
  message->set_slots_in_use(counters.slots_in_use);
  message->set_pending_pushes(counters.pending_pushes);
  message->set_reduce_ns_total(counters.reduce_ns_total);
  std::vector<std::pair<JobId, uint64_t>> jobs(counters.memory_by_job.begin(), counters.memory_by_job.end());
  std::ranges::stable_sort(jobs, [](const auto& left, const auto& right) { return left.second > right.second; });
  jobs.resize(std::min(jobs.size(), kMostJobsOfLoad));
  for (const auto& [job, bytes] : jobs) {
    v1::JobMemory* const memory = message->add_memory_by_job();
    memory->set_job_id(job.value());
    memory->set_bytes(bytes);
  }
}

}  // namespace shoal
