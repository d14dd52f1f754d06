#include "scheduler/rpc/load_messages.h"

namespace shoal::scheduler {

ServerLoad FromMessage(const v1::ServerLoad& message) {
  ServerLoad load{.bytes_in = message.bytes_in(),
                  .bytes_out = message.bytes_out(),
                  .chunks_reduced = message.chunks_reduced(),
                  .refusals = message.refusals(),
                  .groups_open = message.groups_open(),
                  .peers = message.peers(),
                  .shared_memory_peers = message.shared_memory_peers(),
                  .transports = message.transports(),
                  .corrupted_payloads = message.corrupted_payloads(),
                  .slot_memory_used_bytes = message.slot_memory_used_bytes(),
                  .refusals_by_reason = {message.refusals_by_reason().begin(), message.refusals_by_reason().end()},
                  .contributions = message.contributions(),
                  .ops = message.ops(),
                  .groups_failed = message.groups_failed(),
                  .absent_ranks = message.absent_ranks(),
                  .slots = message.slots(),
                  .slots_in_use = message.slots_in_use(),
                  .pending_pushes = message.pending_pushes(),
                  .reduce_ns_total = message.reduce_ns_total(),
                  .memory_by_job = {}};
  for (const v1::JobMemory& memory : message.memory_by_job()) {
    load.memory_by_job.push_back({.job = JobId(memory.job_id()), .bytes = memory.bytes()});
  }
  return load;
}

WorkerLoad FromMessage(const v1::WorkerLoad& message) {
  return {.ops_completed = message.ops_completed(),
          .ops_failed = message.ops_failed(),
          .bytes_pushed = message.bytes_pushed(),
          .bytes_pulled = message.bytes_pulled(),
          .op_time_ns_total = message.op_time_ns_total(),
          .away_ns_total = message.away_ns_total(),
          .counted_ns_total = message.counted_ns_total(),
          .transports = message.transports(),
          .op_times = OpTimeHistogramOf(message.op_time_counts()),
          .refusals = message.refusals(),
          .bytes_on_node = message.bytes_on_node(),
          .retained_results = message.retained_results()};
}

void ToMessage(const ServerLoad& load, v1::ServerLoad* message) {
  message->set_bytes_in(load.bytes_in);
  message->set_bytes_out(load.bytes_out);
  message->set_chunks_reduced(load.chunks_reduced);
  message->set_refusals(load.refusals);
  message->set_groups_open(load.groups_open);
  message->set_peers(load.peers);
  message->set_shared_memory_peers(load.shared_memory_peers);
  message->set_transports(load.transports);
  message->set_corrupted_payloads(load.corrupted_payloads);
  message->set_slot_memory_used_bytes(load.slot_memory_used_bytes);
  message->mutable_refusals_by_reason()->insert(load.refusals_by_reason.begin(), load.refusals_by_reason.end());
  message->set_contributions(load.contributions);
  message->set_ops(load.ops);
  message->set_groups_failed(load.groups_failed);
  message->set_absent_ranks(load.absent_ranks);
  message->set_slots(load.slots);
  message->set_slots_in_use(load.slots_in_use);
  message->set_pending_pushes(load.pending_pushes);
  message->set_reduce_ns_total(load.reduce_ns_total);
  for (const JobMemory& memory : load.memory_by_job) {
    v1::JobMemory* const added = message->add_memory_by_job();
    added->set_job_id(memory.job.value());
    added->set_bytes(memory.bytes);
  }
}

void ToMessage(const ServerRates& rates, v1::ServerRates* message) {
  message->set_bytes_in(rates.bytes_in);
  message->set_bytes_out(rates.bytes_out);
  message->set_chunks_reduced(rates.chunks_reduced);
  message->set_ops(rates.ops);
  message->set_refusals(rates.refusals);
  message->set_reducing(rates.reducing);
}

void ToMessage(const WorkerLoad& load, v1::WorkerLoad* message) {
  message->set_ops_completed(load.ops_completed);
  message->set_ops_failed(load.ops_failed);
  message->set_bytes_pushed(load.bytes_pushed);
  message->set_bytes_pulled(load.bytes_pulled);
  message->set_op_time_ns_total(load.op_time_ns_total);
  message->set_away_ns_total(load.away_ns_total);
  message->set_counted_ns_total(load.counted_ns_total);
  message->set_transports(load.transports);
  message->set_refusals(load.refusals);
  message->set_bytes_on_node(load.bytes_on_node);
  message->set_retained_results(load.retained_results);
}

void ToMessageOfJob(const WorkerLoad& load, v1::WorkerLoad* message) {
  ToMessage(load, message);
  if (!load.HasOpTimes()) return;
  message->mutable_op_time_counts()->Add(load.op_times.counts.begin(), load.op_times.counts.end());
}

void ToMessage(const JobRates& rates, v1::JobRates* message) {
  message->set_ops(rates.ops);
  message->set_failed_ops(rates.failed_ops);
  message->set_bytes_pushed(rates.bytes_pushed);
  message->set_bytes_pulled(rates.bytes_pulled);
  message->set_mean_op_ns(rates.mean_op_ns);
  message->set_median_op_ns(rates.op_times.QuantileNs(0.5));
  message->set_percentile_99_op_ns(rates.op_times.QuantileNs(0.99));
}

void ToMessage(const RankRates& rates, v1::RankRates* message) {
  message->set_ops(rates.ops);
  message->set_bytes_pushed(rates.bytes_pushed);
  message->set_bytes_pulled(rates.bytes_pulled);
}

}  // namespace shoal::scheduler
