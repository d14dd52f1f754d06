#include "scheduler/rpc/load_messages.h"

#include <gtest/gtest.h>

namespace shoal::scheduler {
namespace {

TEST(LoadMessagesTest, WhatAServerTellsIsShownAsItWasTold) {
  v1::ServerLoad told;
  told.set_bytes_in(1);
  told.set_contributions(2);
  told.set_ops(3);
  told.set_groups_failed(4);
  told.set_absent_ranks(5);
  told.set_slots(6);
  told.set_slots_in_use(7);
  told.set_pending_pushes(8);
  told.set_reduce_ns_total(9);
  (*told.mutable_refusals_by_reason())["no-slot"] = 10;
  v1::JobMemory* const memory = told.add_memory_by_job();
  memory->set_job_id(11);
  memory->set_bytes(12);
  v1::ServerLoad shown;
  ToMessage(FromMessage(told), &shown);
  EXPECT_EQ(shown.SerializeAsString(), told.SerializeAsString());
}

TEST(LoadMessagesTest, TheOpTimesOfARankAreReadAndThoseOfTheJobAreShown) {
  OpTimeHistogram times;
  times.Count(3 * kNsPerMs);
  times.Count(kNsPerS);
  v1::WorkerLoad told;
  told.set_ops_completed(2);
  told.set_refusals(3);
  told.set_bytes_on_node(4);
  told.set_retained_results(5);
  told.mutable_op_time_counts()->Add(times.counts.begin(), times.counts.end());
  const WorkerLoad load = FromMessage(told);
  EXPECT_EQ(load.op_times, times);
  v1::WorkerLoad of_job;
  ToMessageOfJob(load, &of_job);
  EXPECT_EQ(of_job.SerializeAsString(), told.SerializeAsString());
  v1::WorkerLoad of_rank;
  ToMessage(load, &of_rank);
  EXPECT_EQ(of_rank.op_time_counts_size(), 0) << "thousands of ranks would make a long answer";
  EXPECT_EQ(of_rank.retained_results(), 5u);
}

TEST(LoadMessagesTest, OpTimesInAnotherNumberOfBucketsAreNotKnown) {
  for (const int buckets : {0, 1, static_cast<int>(kOpTimeBuckets) - 1, static_cast<int>(kOpTimeBuckets) + 1, 10'000}) {
    v1::WorkerLoad told;
    told.set_ops_completed(7);
    for (int i = 0; i < buckets; ++i) told.add_op_time_counts(1);
    const WorkerLoad load = FromMessage(told);
    EXPECT_EQ(load.ops_completed, 7u);
    EXPECT_EQ(load.op_times, OpTimeHistogram()) << buckets;
    v1::WorkerLoad of_job;
    ToMessageOfJob(load, &of_job);
    EXPECT_EQ(of_job.op_time_counts_size(), 0) << buckets;
  }
}

TEST(LoadMessagesTest, RatesAreShownWithMedianAndPercentile) {
  JobRates rates{.ops = 1, .failed_ops = 2, .bytes_pushed = 3, .bytes_pulled = 4, .mean_op_ns = 5};
  for (int i = 0; i < 98; ++i) rates.op_times.Count(1'500'000);
  for (int i = 0; i < 2; ++i) rates.op_times.Count(kNsPerS);
  v1::JobRates shown;
  ToMessage(rates, &shown);
  EXPECT_EQ(shown.ops(), 1);
  EXPECT_EQ(shown.failed_ops(), 2);
  EXPECT_EQ(shown.bytes_pushed(), 3);
  EXPECT_EQ(shown.bytes_pulled(), 4);
  EXPECT_EQ(shown.mean_op_ns(), 5u);
  EXPECT_GT(shown.median_op_ns(), kNsPerMs);
  EXPECT_LE(shown.median_op_ns(), 2 * kNsPerMs);
  EXPECT_GT(shown.percentile_99_op_ns(), 500 * kNsPerMs);
  v1::RankRates of_rank;
  ToMessage(RankRates{.ops = 1, .bytes_pushed = 2, .bytes_pulled = 3}, &of_rank);
  EXPECT_EQ(of_rank.ops(), 1);
  EXPECT_EQ(of_rank.bytes_pushed(), 2);
  EXPECT_EQ(of_rank.bytes_pulled(), 3);
  v1::ServerRates of_server;
  ToMessage(ServerRates{.bytes_in = 1, .bytes_out = 2, .chunks_reduced = 3, .ops = 4, .refusals = 5, .reducing = 6},
            &of_server);
  EXPECT_EQ(of_server.bytes_in(), 1);
  EXPECT_EQ(of_server.bytes_out(), 2);
  EXPECT_EQ(of_server.chunks_reduced(), 3);
  EXPECT_EQ(of_server.ops(), 4);
  EXPECT_EQ(of_server.refusals(), 5);
  EXPECT_EQ(of_server.reducing(), 6);
}

}  // namespace
}  // namespace shoal::scheduler
