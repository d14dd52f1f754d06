#include "cli/top.h"

#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Of one server and one job with two ranks, whose last heartbeats are `age_ms` old.
ClusterSample Sample(int seconds, uint64_t bytes, uint64_t ops, uint64_t age_ms = 0) {
  ClusterSample sample;
  sample.at = std::chrono::steady_clock::time_point() + std::chrono::seconds(1000 + seconds);
  v1::ServerStatus* server = sample.servers.add_servers();
  server->set_server_id(1);
  server->set_registered_at_unix_ms(1);
  server->set_name("a");
  server->set_state("live");
  server->set_heard(true);
  server->set_last_heartbeat_age_ms(age_ms);
  server->mutable_load()->set_bytes_in(bytes);
  v1::JobStatus* job = sample.jobs.add_jobs();
  job->set_name("gpt");
  job->set_load_is_whole(true);
  job->mutable_rates()->set_percentile_99_op_ns(9'000'000);
  for (int i = 0; i < 2; ++i) {
    v1::RankStatus* rank = job->add_ranks();
    rank->set_state("live");
    rank->set_last_heartbeat_age_ms(age_ms);
    rank->mutable_load()->set_ops_completed(ops);
    rank->mutable_load()->set_op_time_ns_total(ops * 3'000'000);
  }
  return sample;
}

// What the tables show last.
std::string TopAfter(const std::vector<ClusterSample>& samples) {
  TopTables tables;
  std::string text;
  for (const ClusterSample& sample : samples) text = tables.Text(sample);
  return text;
}
TEST(TopTest, RatesAreOfTheTimeBetweenHeartbeats) {
  const std::string text = TopAfter({Sample(0, 1 << 20, 100), Sample(2, 5 << 20, 300)});
  EXPECT_THAT(text, HasSubstr("a       live   -     2.0 MiB"));
  EXPECT_THAT(text, AllOf(HasSubstr("2 of 0  100 "), HasSubstr("3.00 ms  9.00 ms")));
  // Looked at after two seconds, counted after one.
  EXPECT_THAT(TopAfter({Sample(0, 1 << 20, 100), Sample(2, 5 << 20, 300, 1000)}),
              AllOf(HasSubstr("a       live   -     4.0 MiB"), HasSubstr("2 of 0  200 ")));
}

TEST(TopTest, ColocatedServersAreCountedByThemselves) {
  ClusterSample sample = Sample(0, 1 << 20, 100);
  sample.cluster.set_servers_live(1);
  EXPECT_THAT(TopAfter({sample}), HasSubstr(": 1 server live, 0 lost, 0 jobs"));
  sample.cluster.set_servers_colocated(2);
  EXPECT_THAT(TopAfter({sample}), HasSubstr(": 1 server live, 0 lost, 2 colocated, 0 jobs"));
}

TEST(TopTest, ARateStaysUntilTheNextHeartbeat) {
  EXPECT_THAT(TopAfter({Sample(0, 1 << 20, 100), Sample(2, 5 << 20, 300), Sample(4, 5 << 20, 300, 2000)}),
              AllOf(HasSubstr("a       live   -     2.0 MiB"), HasSubstr("2 of 0  100 ")));
}

TEST(TopTest, CountersThatBeganAnewGiveNoRate) {
  EXPECT_THAT(TopAfter({Sample(0, 9 << 20, 100), Sample(2, 1 << 20, 50)}),
              AllOf(HasSubstr("a       live   -     -"), HasSubstr("2 of 0  - ")));
}

TEST(TopTest, CountersThatANewSchedulerHasNotHeardAreNotZero) {
  ClusterSample restarted = Sample(2, 0, 0);
  restarted.servers.mutable_servers(0)->set_heard(false);
  restarted.jobs.mutable_jobs(0)->set_load_is_whole(false);
  const ClusterSample before = Sample(0, 1 << 20, 100);
  EXPECT_THAT(TopAfter({before, restarted}), AllOf(HasSubstr("a       live   -     -"), HasSubstr("2 of 0  - ")));
  EXPECT_THAT(TopAfter({before, restarted, Sample(4, 9 << 20, 900)}),
              AllOf(HasSubstr("a       live   -     -"), HasSubstr("2 of 0  - ")));
}

TEST(TopTest, WhatIsGoneIsLeftOut) {
  ClusterSample now = Sample(2, 1, 1);
  now.servers.mutable_servers(0)->set_state("lost");
  for (v1::RankStatus& rank : *now.jobs.mutable_jobs(0)->mutable_ranks()) rank.set_state("left");
  EXPECT_THAT(TopAfter({Sample(0, 1, 1), now}), AllOf(HasSubstr("No live servers."), HasSubstr("No running jobs.")));
}
}  // namespace
}  // namespace shoal::cli
