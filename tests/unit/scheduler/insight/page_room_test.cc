// What is reckoned for an answer is no less than what protobuf makes of it.
#include "scheduler/insight/page_room.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/rpc/control_messages.h"

namespace shoal::scheduler {
namespace {

constexpr uint64_t kGreatest = UINT64_MAX;
constexpr uint32_t kGreatest32 = UINT32_MAX;

std::string LongestText() { return std::string(kMaxTextBytes, 'x'); }

size_t Encoded(const JobsPage& page) {
  v1::ListJobsResponse message;
  ToMessage(page, &message);
  return message.ByteSizeLong();
}

size_t Encoded(const ServersPage& page) {
  v1::ListServersResponse message;
  ToMessage(page, &message);
  return message.ByteSizeLong();
}

WorkerLoad LargestLoad() {
  WorkerLoad load{.ops_completed = kGreatest,
                  .ops_failed = kGreatest,
                  .bytes_pushed = kGreatest,
                  .bytes_pulled = kGreatest,
                  .op_time_ns_total = kGreatest,
                  .away_ns_total = kGreatest,
                  .counted_ns_total = kGreatest,
                  .transports = LongestText(),
                  .op_times = {},
                  .refusals = kGreatest,
                  .bytes_on_node = kGreatest,
                  .retained_results = kGreatest};
  load.op_times.counts.fill(kGreatest);
  return load;
}

MissingServers LargestMissing() { return {.registered = kGreatest32, .wanted = kGreatest32}; }

JobView LargestJob() {
  JobView job{.job = JobId(kGreatest),
              .name = LongestText(),
              .world_size = kGreatest32,
              .phase = JobPhase::kJoining,
              .failure = LongestText(),
              .load_is_whole = true,
              .started_at_unix_ms = kGreatest,
              .slot_memory_bytes = kGreatest,
              .load = LargestLoad(),
              .rates = JobRates{.ops = 0.3,
                                .failed_ops = 0.3,
                                .bytes_pushed = 0.3,
                                .bytes_pulled = 0.3,
                                .mean_op_ns = kGreatest,
                                .op_times = {}},
              .missing_servers = LargestMissing(),
              .ranks = {},
              .groups = {},
              .slow_ranks = {},
              .slow_servers = {}};
  job.rates->op_times.counts.back() = 1;
  // The op times are told only if they are as many as the ops.
  job.load.op_times.counts.fill(kGreatest / kOpTimeBuckets);
  job.load.ops_completed = job.load.op_times.Total();
  return job;
}

ServerView LargestServer() {
  ServerView server{.state = {}, .heard = true, .last_heartbeat_age_ms = kGreatest, .load = {}};
  server.state = {.id = ServerId(kGreatest),
                  .name = LongestText(),
                  .incarnation = Incarnation(kGreatest),
                  .evicted_incarnation = {},
                  .draining = true,
                  .reason = LongestText(),
                  .node = LongestText(),
                  .addresses = std::vector<std::string>(kMaxIoThreads, std::string(kMaxNameBytes, 'a')),
                  .slot_memory_bytes = kGreatest,
                  .transports = LongestText(),
                  .software_version = LongestText(),
                  .registered_at_unix_ms = kGreatest,
                  .job = JobId(kGreatest)};
  server.load = {.bytes_in = kGreatest,
                 .bytes_out = kGreatest,
                 .chunks_reduced = kGreatest,
                 .refusals = kGreatest,
                 .groups_open = kGreatest32,
                 .peers = kGreatest32,
                 .shared_memory_peers = kGreatest32,
                 .transports = LongestText(),
                 .corrupted_payloads = kGreatest,
                 .slot_memory_used_bytes = kGreatest,
                 .refusals_by_reason = {},
                 .contributions = kGreatest,
                 .ops = kGreatest,
                 .groups_failed = kGreatest,
                 .absent_ranks = kGreatest32,
                 .slots = kGreatest32,
                 .slots_in_use = kGreatest32,
                 .pending_pushes = kGreatest32,
                 .reduce_ns_total = kGreatest,
                 .memory_by_job = std::vector<JobMemory>(64, {.job = JobId(kGreatest), .bytes = kGreatest})};
  server.rates = ServerRates{
      .bytes_in = 0.3, .bytes_out = 0.3, .chunks_reduced = 0.3, .ops = 0.3, .refusals = 0.3, .reducing = 0.3};
  for (int i = 0; i < 64; ++i) server.load.refusals_by_reason.emplace(absl::StrCat(i, LongestText()), kGreatest);
  return server;
}

RankView LargestRank() {
  RankView rank{.rank = JobRank(kGreatest32), .state = {}, .last_heartbeat_age_ms = kGreatest, .load = {}};
  rank.state = {
      .incarnation = Incarnation(kGreatest), .reason = LongestText(), .node = LongestText(), .pid = kGreatest32};
  rank.load = LargestLoad();
  rank.rates = RankRates{.ops = 0.3, .bytes_pushed = 0.3, .bytes_pulled = 0.3};
  return rank;
}

GroupView LargestGroup(bool open, NodeReduceMode mode) {
  const std::vector<JobRank> ranks(kMaxWorldSize, JobRank(kGreatest32));
  GroupView group{.state = {}, .open = open, .missing_ranks = ranks};
  group.state.id = GroupId(kGreatest);
  group.state.name = LongestText();
  group.state.epoch = Epoch(kGreatest);
  group.state.ranks = ranks;
  for (uint32_t i = 0; i < Roster::kMaxLost; ++i) group.state.lost.insert(JobRank(kGreatest32 - i));
  group.state.max_chunk_bytes = kGreatest32;
  group.state.wire = WireFormat::kBfloat16;
  group.state.node_reduce = mode;
  group.state.rail = RailState{.first_rail = {}, .index = kGreatest32, .group_ranks = {}, .layout = {}};
  group.state.rail->layout.ranks_per_node = kGreatest32;
  group.state.opening.credit_chunks = kGreatest32;
  if (!open) group.missing_servers = LargestMissing();
  group.state.opening.link = {
      .bytes_per_s = kGreatest, .round_trip_ns = kGreatest, .message_ns = kGreatest, .within_node = true};
  return group;
}

TEST(PageRoomTest, NothingIsLargerThanReckoned) {
  const ServerView server = LargestServer();
  EXPECT_LE(Encoded(ServersPage{.servers = {server}}), MostBytes(server));
  // Without lists and texts, whose lengths are reckoned amply.
  ServerView numbers_alone = server;
  numbers_alone.state = {.id = server.state.id,
                         .incarnation = server.state.incarnation,
                         .slot_memory_bytes = kGreatest,
                         .registered_at_unix_ms = kGreatest,
                         .job = server.state.job};
  numbers_alone.load.transports.clear();
  numbers_alone.load.refusals_by_reason.clear();
  numbers_alone.load.memory_by_job.clear();
  EXPECT_LE(Encoded(ServersPage{.servers = {numbers_alone}}), MostBytes(numbers_alone));
  JobView job = LargestJob();
  size_t most = MostBytesOfJobAlone(job);
  EXPECT_LE(Encoded(JobsPage{.jobs = {job}}), most);
  const auto expect_enough = [&](const char* what) { EXPECT_LE(Encoded(JobsPage{.jobs = {job}}), most) << what; };
  job.ranks = {LargestRank()};
  most += MostBytes(job.ranks[0]);
  expect_enough("a rank");
  // Without texts, whose lengths are reckoned amply.
  RankView rank_of_numbers = job.ranks[0];
  rank_of_numbers.state.reason.clear();
  rank_of_numbers.state.node.clear();
  rank_of_numbers.load.transports.clear();
  job.ranks.push_back(rank_of_numbers);
  most += MostBytes(rank_of_numbers);
  expect_enough("a rank without texts");
  for (const SlowCause cause : {SlowCause::kLateCompute, SlowCause::kSlowReader, SlowCause::kSlowLink}) {
    job.slow_ranks.push_back({.rank = JobRank(kGreatest32),
                              .waited_share = 0.3,
                              .waited_ns_per_op = kGreatest,
                              .cause = cause,
                              .since_unix_ms = kGreatest});
    most += MostBytes(job.slow_ranks.back());
    expect_enough("a slow rank");
  }
  job.slow_servers = {{.server = ServerId(kGreatest),
                       .incarnation = Incarnation(kGreatest),
                       .name = LongestText(),
                       .node = LongestText(),
                       .waited_share = 0.3,
                       .late_rank = JobRank(kGreatest32),
                       .since_unix_ms = kGreatest}};
  most += MostBytes(job.slow_servers[0]);
  expect_enough("a slow server");
  for (const bool open : {false, true}) {
    for (const NodeReduceMode mode : {NodeReduceMode::kNodeAlone, NodeReduceMode::kRails}) {
      job.groups.push_back(LargestGroup(open, mode));
      most += MostBytes(job.groups.back());
      expect_enough("a group");
    }
  }
}

TEST(PageRoomTest, AnEmptyPageHasRoomForEachThing) {
  EXPECT_TRUE(PageRoom().Take(MostBytes(LargestServer())));
  PageRoom room;
  EXPECT_TRUE(room.Take(MostBytesOfJobAlone(LargestJob())));
  EXPECT_TRUE(room.Take(MostBytes(LargestGroup(/*open=*/false, NodeReduceMode::kRails))));
}

TEST(PageRoomTest, WhatHasNoRoomTakesNone) {
  PageRoom room;
  EXPECT_FALSE(room.Take(kMaxPageBytes)) << "the token has to fit as well";
  EXPECT_TRUE(room.Take(kMaxPageBytes / 2));
  EXPECT_FALSE(room.Take(kMaxPageBytes / 2));
  EXPECT_TRUE(room.Take(kMaxPageBytes / 4));
}

}  // namespace
}  // namespace shoal::scheduler
