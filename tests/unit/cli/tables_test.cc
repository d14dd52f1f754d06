#include "cli/tables.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/doctor.h"
#include "cli/top.h"
#include "core/op_time_histogram.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/wrap_text.h"
#include "proto/status_text.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::ServerStatus LongNamedServer(const std::string& state) {
  v1::ServerStatus server;
  server.set_name("shoal-server-11");
  server.set_state(state);
  server.set_node("node-11");
  server.set_last_heartbeat_age_ms(1200);
  server.set_slot_memory_bytes(256 << 20);
  server.mutable_load()->set_bytes_in(uint64_t{911} << 30);
  server.mutable_load()->set_bytes_out(uint64_t{911} << 30);
  server.mutable_load()->set_groups_open(128);
  server.mutable_load()->set_peers(128);
  return server;
}

size_t LongestLine(const std::string& text) {
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(TablesTest, ColumnsAreAlignedByCharacters) {
  EXPECT_EQ(AlignTable({{"NAME", "STATE"}, {"zürich-1", "live"}, {"b", "lost"}}),
            "NAME      STATE\n"
            "zürich-1  live\n"
            "b         lost\n");
}

TEST(TablesTest, SizesAndAges) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(25 << 20), "25.0 MiB");
  EXPECT_EQ(BytesText(UINT64_MAX), "16384.0 PiB");
  EXPECT_EQ(AgeText(400), "0.4 s");
  EXPECT_EQ(AgeText(120'000), "2 min");
  EXPECT_EQ(AgeText(5'400'000), "1.5 h");
}

TEST(TablesTest, StragglersAreRanksAndServers) {
  v1::ListJobsResponse jobs;
  EXPECT_EQ(StragglersText(jobs, 0), "No slow ranks or servers.\n");
  v1::JobStatus* const job = jobs.add_jobs();
  job->set_name("gpt");
  v1::SlowRank* const rank = job->add_slow_ranks();
  rank->set_rank(2);
  rank->set_waited_share(0.25);
  rank->set_waited_ns_per_op(12'340'000);
  rank->set_cause("slow-link");
  rank->set_advice("look at its link");
  rank->set_since_unix_ms(10'000);
  v1::SlowServer* const server = job->add_slow_servers();
  server->set_name("alpha");
  server->set_node("node-a");
  server->set_waited_share(0.4);
  server->set_cause("slow-server");
  server->set_advice("look at its node");
  server->set_since_unix_ms(20'000);
  EXPECT_EQ(StragglersText(jobs, 30'000),
            "JOB  SLOW          NODE    OTHERS WAIT       SINCE       CAUSE\n"
            "gpt  rank 2        -       25 % of the time  20.0 s ago  slow-link\n"
            "gpt  server alpha  node-a  40 % of the time  10.0 s ago  slow-server\n"
            "rank 2 of job gpt: the others wait 12.34 ms an op for it; look at its link\n"
            "server alpha for job gpt: look at its node\n");
}

TEST(TablesTest, AnEventFitsAHundredColumns) {
  v1::Event event;
  event.set_sequence(7);
  event.set_kind("rank-lost");
  event.set_subject("job \"gpt\" rank 3");
  event.set_epoch(12);
  event.set_reason("no heartbeat");
  EXPECT_EQ(WrapText(EventText(event), 4),
            "1970-01-01T00:00:00Z  #7  rank-lost  job \"gpt\" rank 3  (epoch 12)  no heartbeat\n");
  event.set_reason("rank 3 on node-1 was lost, as no heartbeat came for 5.0 s, and the other ranks are told");
  EXPECT_EQ(WrapText(EventText(event), 4),
            "1970-01-01T00:00:00Z  #7  rank-lost  job \"gpt\" rank 3  (epoch 12)  rank 3 on node-1 was lost, as no\n"
            "    heartbeat came for 5.0 s, and the other ranks are told\n");
}

TEST(TablesTest, AWayIsNotShownAsAServer) {
  v1::JobStatus job;
  v1::SlowServer* const slow = job.add_slow_servers();
  slow->set_name("alpha");
  slow->set_waited_share(0.4);
  EXPECT_THAT(TroublesOf(job), ElementsAre("server alpha is slow: 40 %"));
  slow->set_late_rank(3);
  EXPECT_THAT(TroublesOf(job), ElementsAre("the way from rank 3 to server alpha is slow: 40 %"));
}

TEST(TablesTest, TablesFitAHundredColumns) {
  v1::ListServersResponse servers;
  *servers.add_servers() = LongNamedServer("draining");
  EXPECT_LE(LongestLine(ServersText(servers, {})), 100u) << ServersText(servers, {});
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  job->set_name("llama-70b-run-12");
  job->set_state("running");
  job->set_world_size(128);
  v1::RankStatus* rank = job->add_ranks();
  rank->set_state("live");
  rank->mutable_load()->set_ops_completed(12'345'678);
  rank->mutable_load()->set_bytes_pushed(uint64_t{911} << 30);
  rank->mutable_load()->set_bytes_pulled(uint64_t{911} << 30);
  rank->mutable_load()->set_op_time_ns_total(uint64_t{12'345'678} * 26'640'000);
  rank->set_rank(127);
  rank->set_node("ip-10-12-134-211");
  rank->set_pid(4'194'303);
  rank->mutable_load()->set_ops_failed(3);
  rank->mutable_load()->set_transports("rc_mlx5/mlx5_0:1, shared memory (3), tcp/eth0");
  rank->mutable_rates()->set_ops(99'999.0);
  rank->mutable_rates()->set_bytes_pushed(static_cast<double>(uint64_t{999} << 40));
  rank->mutable_rates()->set_bytes_pulled(static_cast<double>(uint64_t{999} << 40));
  v1::SlowRank* const slow = job->add_slow_ranks();
  slow->set_rank(127);
  slow->set_waited_share(0.25);
  slow->set_waited_ns_per_op(123'456'789);
  slow->set_cause("late-compute");
  const std::string advice =
      "it offers its gradients late: compare its input pipeline and its clock rate with the others'";
  slow->set_advice(absl::StrCat(advice, "; ", advice));
  rank->mutable_load()->set_refusals(12'345'678);
  job->set_slot_memory_bytes(uint64_t{911} << 30);
  job->mutable_load()->set_retained_results(12'345'678);
  for (uint32_t i = 0; i < 4; ++i) job->add_ranks()->set_state("live");
  job->mutable_rates()->set_ops(5 * 99'999.0);
  job->mutable_rates()->set_failed_ops(5 * 99'999.0);
  job->mutable_rates()->set_bytes_pushed(static_cast<double>(uint64_t{999} << 40));
  job->mutable_rates()->set_bytes_pulled(static_cast<double>(uint64_t{999} << 40));
  v1::GroupStatus* group = job->add_groups();
  group->set_name("world");
  group->set_state("waiting");
  group->set_node_reduce("node alone");
  group->set_wire("bf16");
  group->set_max_chunk_bytes(512 << 10);
  group->set_credit_chunks(64);
  group->set_epoch(12345);
  group->set_rail(7);
  group->set_rails(8);
  for (uint32_t i = 0; i < 2048; ++i) group->add_ranks(8 * i + 7);
  group->mutable_link()->set_bytes_per_s(49'900'000'000);
  group->mutable_link()->set_round_trip_ns(12'345'000);
  group->mutable_link()->set_message_ns(123'400);
  job->set_failure("rank 127 on ip-10-12-134-211.eu-central-1 was lost: no heartbeat for 5.0 s (lease 5.0 s); " +
                   advice);
  for (const std::string& text : {JobsText(jobs, {}), JobText(*job, 0), StragglersText(jobs, 1000)}) {
    EXPECT_LE(LongestLine(text), 100u) << text;
  }
  v1::Cluster cluster;
  cluster.set_cluster_id("0123456789abcdef");
  cluster.set_software_version("0.1.0-rc.1");
  cluster.set_leader("shoal-scheduler-2.shoal-scheduler.training.svc:7070");
  cluster.set_store("etcd at etcd-0.etcd:2379,etcd-1.etcd:2379,etcd-2.etcd:2379");
  cluster.set_servers_lost(1024);
  cluster.set_servers_live(1024);
  cluster.set_servers_colocated(1024);
  cluster.set_jobs(4096);
  cluster.set_workers(65536);
  cluster.set_saves_failed(123'456);
  cluster.set_newest_save_ns(123'456'789);
  cluster.set_newest_save_unix_ms(1);
  const std::string cluster_text = ClusterText(cluster, "shoal-scheduler.training.svc.cluster.local:7070", 0);
  EXPECT_LE(LongestLine(cluster_text), 100u) << cluster_text;
  ClusterSample sample;
  *sample.servers.add_servers() = LongNamedServer("draining");
  sample.jobs = jobs;
  sample.cluster = cluster;
  TopTables tables;
  EXPECT_LE(LongestLine(tables.Text(sample)), 100u) << tables.Text(sample);
  const std::vector<Finding> findings = {
      {.check = "ports", .verdict = Verdict::kProblem, .text = advice, .fix = absl::StrCat(advice, "; ", advice)}};
  const std::string findings_text = FindingsText(findings, /*bandwidth_asked=*/false);
  EXPECT_LE(LongestLine(findings_text), 100u) << findings_text;
}

// Of a cluster in which servers, nodes, jobs and groups have names of that many characters.
struct NamedCluster {
  explicit NamedCluster(size_t length) : begin(length / 2, 'b'), end(length - length / 2, 'e') {
    const std::string name = begin + end;
    v1::ServerStatus* const server = sample.servers.add_servers();
    *server = LongNamedServer("draining");
    server->set_name(name);
    server->set_node(name);
    v1::JobStatus* const job = sample.jobs.add_jobs();
    job->set_name(name);
    job->set_state("running");
    job->set_world_size(128);
    v1::RankStatus* const rank = job->add_ranks();
    rank->set_state("live");
    rank->set_node(name);
    job->add_slow_ranks()->set_cause("late-compute");
    v1::SlowServer* const slow = job->add_slow_servers();
    slow->set_name(name);
    slow->set_node(name);
    v1::GroupStatus* const group = job->add_groups();
    group->set_name(name);
    group->set_rails(8);
    v1::Shard* const shard = map.add_shards();
    shard->set_server_name(name);
    shard->set_address("10.12.134.211:45678");
  }

  const std::string begin;
  const std::string end;
  ClusterSample sample;
  v1::ShardMap map;
};

TEST(TablesTest, LongNamesAreShortenedInTheMiddle) {
  const NamedCluster cluster(80);
  const v1::JobStatus& job = cluster.sample.jobs.jobs(0);
  TopTables tables;
  for (const std::string& text :
       {ServersText(cluster.sample.servers, {}), JobsText(cluster.sample.jobs, {}), JobText(job, 0),
        StragglersText(cluster.sample.jobs, 0), MapText(cluster.map), tables.Text(cluster.sample)}) {
    EXPECT_LE(LongestLine(text), 100u) << text;
    EXPECT_THAT(text, HasSubstr("b...e")) << text;
  }
  const std::string whole = cluster.begin + cluster.end;
  EXPECT_THAT(ServersText(cluster.sample.servers, {.wide = true}),
              AllOf(HasSubstr("\n" + whole + "  "), Not(HasSubstr("..."))));
  EXPECT_THAT(JobsText(cluster.sample.jobs, {.wide = true}),
              AllOf(HasSubstr("\n" + whole + "  "), Not(HasSubstr("..."))));
  EXPECT_THAT(JobsText(NamedCluster(30).sample.jobs, {}), Not(HasSubstr("..."))) << "there is room";
}

TEST(TablesTest, ATableIsMadeToFitByTheLongestOfItsNamesAlone) {
  const auto repeat = [](char c, size_t count) { return std::string(count, c); };
  const std::string number = repeat('7', 60);
  EXPECT_EQ(FitTable({{"NAME", "NODE", "NUMBER"}, {repeat('a', 20) + repeat('z', 20), "n1", number}}, {0, 1}),
            "NAME" + repeat(' ', 30) + "NODE  NUMBER\n" + repeat('a', 15) + "..." + repeat('z', 14) + "  n1    " +
                number + "\n");
  const std::string numbers = repeat('7', 82);
  EXPECT_EQ(FitTable({{"zürich-zürich-zürich-zürich-zürich-zürich", numbers}}, {0}),
            "zürich-...zürich  " + numbers + "\n")
      << "characters, not bytes";
  const std::string wide = repeat('7', 120);
  EXPECT_EQ(FitTable({{"abcdefghijkl", wide}}, {0}), "abc...kl  " + wide + "\n") << "something is left of a name";
}

TEST(TablesTest, WhatHasLongBeenGoneIsLeftOut) {
  v1::ListServersResponse servers;
  *servers.add_servers() = LongNamedServer("live");
  for (const uint64_t minutes : {59, 61}) {
    v1::ServerStatus* gone = servers.add_servers();
    *gone = LongNamedServer("lost");
    gone->set_name(absl::StrCat("gone-", minutes));
    gone->set_reason("no heartbeat");
    gone->set_last_heartbeat_age_ms(minutes * 60'000);
  }
  EXPECT_THAT(ServersText(servers, {}), AllOf(HasSubstr("server gone-59 is lost: no heartbeat\n"),
                                              Not(HasSubstr("gone-61")), HasSubstr("1 server gone for more than")));
  EXPECT_THAT(ServersText(servers, {.all = true}), AllOf(HasSubstr("gone-61"), Not(HasSubstr("not shown"))));
}

TEST(TablesTest, TheReasonOfAnAbortOutlivesItsRanks) {
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  job->set_name("gpt");
  job->set_failure("an operator aborted job \"gpt\"");
  v1::RankStatus* rank = job->add_ranks();
  rank->set_state("lost");
  rank->set_reason("its process ended");
  EXPECT_THAT(JobsText(jobs, {}), AllOf(HasSubstr("an operator aborted job"), HasSubstr("its process ended")));
  job->set_failure("rank 0 of job \"gpt\" on node a was lost: its process ended");
  EXPECT_THAT(JobsText(jobs, {}), Not(HasSubstr("was lost"))) << "said once";
}

TEST(TablesTest, LostRanksAreNamed) {
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  job->set_name("gpt");
  job->set_state("failed");
  for (uint32_t i = 0; i < 4; ++i) {
    v1::RankStatus* rank = job->add_ranks();
    rank->set_rank(i);
    rank->set_state("lost");
    rank->set_node("node");
    rank->set_reason("no heartbeat");
  }
  EXPECT_THAT(JobsText(jobs, {}),
              HasSubstr("rank 0 on node lost: no heartbeat; rank 1 on node lost: no heartbeat; and 2 more"));
}

TEST(TablesTest, GroupsThatWaitNameTheRanksTheyLack) {
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  v1::GroupStatus* group = job->add_groups();
  group->set_name("world");
  group->set_state("waiting");
  EXPECT_THAT(JobsText(jobs, {}), HasSubstr("group world waits to be opened"));
  group->add_missing_ranks(3);
  group->add_missing_ranks(7);
  EXPECT_THAT(JobsText(jobs, {}), HasSubstr("group world waits for ranks 3, 7"));
  group->set_state("open");
  EXPECT_THAT(JobsText(jobs, {}), Not(HasSubstr("waits")));
}

TEST(TablesTest, AJobThatWaitsForServersSaysHowManyAreThere) {
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  job->set_name("gpt");
  job->set_state("running");
  job->set_world_size(1);
  job->add_ranks();
  EXPECT_THAT(TroublesOf(*job), IsEmpty());
  job->mutable_missing_servers()->set_wanted(1);
  EXPECT_THAT(JobsText(jobs, {}), HasSubstr("job gpt: waits for servers: 0 of 1 registered\n"));
  EXPECT_THAT(JobText(*job, 0), HasSubstr("\nwaits for servers: 0 of 1 registered\n"));
  job->set_state("joining");
  job->set_world_size(11);
  EXPECT_THAT(TroublesOf(*job), ElementsAre("waits for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more to join",
                                            "waits for servers: 0 of 1 registered"))
      << "on one node they would need no server";
  job->set_world_size(2);
  EXPECT_THAT(TroublesOf(*job), ElementsAre("waits for rank 1 to join", "waits for servers: 0 of 1 registered"));
}

TEST(TablesTest, AGroupThatLacksNoRankSaysHowManyServersAreThere) {
  v1::JobStatus job;
  v1::GroupStatus* group = job.add_groups();
  group->set_name("world");
  group->set_state("waiting");
  group->mutable_missing_servers()->set_registered(1);
  group->mutable_missing_servers()->set_wanted(2);
  EXPECT_THAT(TroublesOf(job), ElementsAre("group world waits for servers: 1 of 2 registered"));
}

TEST(TablesTest, AJobShowsItsRates) {
  v1::JobStatus job;
  job.mutable_rates()->set_ops(40);
  job.mutable_rates()->set_bytes_pushed(3 << 20);
  job.mutable_rates()->set_bytes_pulled(2 << 20);
  EXPECT_THAT(JobText(job, 0), Not(HasSubstr("Rates"))) << "they are those of ranks that have left";
  for (int i = 0; i < 4; ++i) job.add_ranks()->set_state("live");
  EXPECT_THAT(JobText(job, 0),
              HasSubstr("\nRates lately: 10 ops/s; by all ranks together 3.0 MiB/s pushed, 2.0 MiB/s pulled\n"));
  job.mutable_rates()->set_failed_ops(2);
  EXPECT_THAT(JobText(job, 0), HasSubstr("10 ops/s, 0.5 failed ops/s; by"));
}

TEST(TablesTest, EachRankOfAJobShowsItsRatesWhereTheyAreKnown) {
  v1::JobStatus job;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    job.add_ranks()->set_rank(rank);
    job.mutable_ranks(static_cast<int>(rank))->set_state(rank == 1 ? "left" : "live");
  }
  EXPECT_THAT(JobText(job, 0), Not(HasSubstr("OPS/S"))) << "the scheduler is older";
  for (const int rank : {0, 2}) {
    v1::RankRates* const rates = job.mutable_ranks(rank)->mutable_rates();
    rates->set_ops(rank == 0 ? 12 : 0.5);
    rates->set_bytes_pushed((rank + 1) << 20);
    rates->set_bytes_pulled(512 << 10);
  }
  EXPECT_THAT(JobText(job, 0), HasSubstr("\n\nRANK  OPS/S  PUSHED/S  PULLED/S\n"
                                         "0     12     1.0 MiB   512.0 KiB\n"
                                         "2     0.5    3.0 MiB   512.0 KiB\n\n"));
}

v1::GroupStatus OpenGroup(const std::string& name, uint64_t bytes_per_s) {
  v1::GroupStatus group;
  group.set_name(name);
  group.set_state("open");
  group.set_credit_chunks(12);
  group.mutable_link()->set_bytes_per_s(bytes_per_s);
  return group;
}

TEST(TablesTest, GroupsShowTheirCreditAndTheLinkThatTheyWerePlannedWith) {
  v1::JobStatus job;
  *job.add_groups() = OpenGroup("world", 3'125'000'000);
  *job.add_groups() = OpenGroup("data", 3'125'000'000);
  *job.add_groups() = OpenGroup("data", 3'125'000'000);  // a rail of it
  *job.add_groups() = OpenGroup("slow", 25'000'000);
  job.mutable_groups(3)->mutable_link()->set_round_trip_ns(120'000);
  job.mutable_groups(3)->mutable_link()->set_message_ns(2'100);
  EXPECT_THAT(JobText(job, 0),
              AllOf(HasSubstr("CREDIT"), HasSubstr("  12  "), HasSubstr("\nLink of groups data, world: 25.0 Gbit/s\n"),
                    HasSubstr("\nLink of group slow: 200 Mbit/s, round trip 0.12 ms, 2.1 us for each "
                              "message\n")));
  job.mutable_groups(3)->mutable_link()->set_within_node(true);
  EXPECT_THAT(JobText(job, 0), HasSubstr("\nLink of group slow: servers on the ranks' own node\n"));
  job.clear_groups();
  job.add_groups()->set_state("waiting");
  EXPECT_THAT(JobText(job, 0), Not(HasSubstr("Link"))) << "it is not planned yet, or the scheduler is older";
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) *job.add_groups() = OpenGroup(name, 0);
  EXPECT_THAT(JobText(job, 0), HasSubstr("\nLink of groups a, b, c, d and 2 more: not measured\n"));
}

TEST(TablesTest, RanksOfAGroupAreShownAsRunsAndAsFarAsThereIsRoom) {
  const auto ranks_text = [](const std::vector<uint32_t>& ranks) {
    v1::JobStatus job;
    v1::GroupStatus* group = job.add_groups();
    group->set_name("world");
    group->set_state("open");
    group->mutable_ranks()->Add(ranks.begin(), ranks.end());
    const std::string text = JobText(job, 0);
    const size_t begin = text.find("open   ") + 7;
    return text.substr(begin, text.find("  ", begin) - begin);
  };
  EXPECT_EQ(ranks_text({}), "-");
  EXPECT_EQ(ranks_text({0, 1}), "0,1");
  EXPECT_EQ(ranks_text({0, 1, 2, 3, 7, 6, 5}), "0-3,7,6,5") << "in their order";
  EXPECT_EQ(ranks_text({0, 8, 16, 24, 32, 40, 48, 56, 64}), "0,8,16,24,32,40,48 +2");
}

TEST(TablesTest, AClusterSaysWhichSchedulerLeadsAndHowTheNewestSaveWent) {
  v1::Cluster cluster;
  cluster.set_cluster_id("0123456789abcdef");
  cluster.set_software_version("0.1.0");
  cluster.set_servers_live(1);
  cluster.set_jobs(2);
  cluster.set_started_at_unix_ms(1'000'000);
  cluster.set_lease_ttl_ms(5000);
  cluster.set_store("memory");
  EXPECT_EQ(ClusterText(cluster, "10.0.0.1:7070", 1'060'000),
            "Cluster 0123456789abcdef at 10.0.0.1:7070 (Shoal 0.1.0): up 1 min, lease 5.0 s\n"
            "It has map epoch 0, 1 server live, 0 lost, 2 jobs, 0 workers.\n"
            "It keeps its state in memory.\n");
  cluster.set_servers_colocated(3);
  EXPECT_THAT(ClusterText(cluster, "10.0.0.1:7070", 1'060'000),
              HasSubstr("map epoch 0, 1 server live, 0 lost, 3 colocated, 2 jobs"));
  cluster.set_leader("10.0.0.2:7070");
  cluster.set_saves_succeeded(14);
  cluster.set_newest_save_ns(3'200'000);
  cluster.set_now_unix_ms(1'063'500);  // its clock goes before ours
  cluster.set_newest_save_unix_ms(1'062'000);
  EXPECT_THAT(
      ClusterText(cluster, "10.0.0.1:7070", 1'060'000),
      HasSubstr("\nThe scheduler at 10.0.0.2:7070 leads. It keeps its state in memory. The newest save, 1.5 s ago, "
                "took\n    3.20 ms.\n"));
  cluster.set_leader("");
  cluster.set_saves_failed(2);
  cluster.set_newest_save_failure_unix_ms(1'061'000);
  EXPECT_THAT(ClusterText(cluster, "10.0.0.1:7070", 1'060'000),
              HasSubstr(" took 3.20 ms. Before it 2 saves failed,\n    the newest one 2.5 s ago.\n"));
  cluster.set_save_failure("can't write /state: No space left on device");
  cluster.set_saves_fail_since_unix_ms(1'060'500);
  EXPECT_THAT(
      ClusterText(cluster, "10.0.0.1:7070", 1'060'000),
      HasSubstr(" took 3.20 ms. Saves have failed for 3.0 s,\n    so nothing new begins: can't write /state: No "
                "space left on device\n"));
  EXPECT_THAT(ClusterText(cluster, "10.0.0.1:7070", 1'060'000), Not(HasSubstr("Warning")));
  cluster.set_open_to_network("everybody who reaches it can end it");
  EXPECT_THAT(ClusterText(cluster, "10.0.0.1:7070", 1'060'000),
              HasSubstr("\nWarning: everybody who reaches it can end it (--insecure-network).\n"));
}

TEST(TablesTest, ServersThatAreThereComeBeforeThoseThatWent) {
  v1::ListServersResponse servers;
  for (const char* const state : {"left", "live", "lost", "draining"}) {
    v1::ServerStatus* const server = servers.add_servers();
    server->set_name(std::string("was-") + state);
    server->set_state(state);
  }
  const std::string text = ServersText(servers, {});
  EXPECT_LT(text.find("was-live"), text.find("was-left")) << text;
  EXPECT_LT(text.find("was-draining"), text.find("was-left")) << text;
  EXPECT_LT(text.find("was-left"), text.find("was-lost")) << text;
}

TEST(TablesTest, AClusterNamesServersThatAreNotLetIn) {
  v1::Cluster cluster;
  v1::RefusedServer* const refused = cluster.add_refused_servers();
  refused->set_name("shoal-0");
  refused->set_node("rack2");
  refused->set_reason("a live server on node rack1 has the name shoal-0");
  refused->set_newest_age_ms(700);
  EXPECT_THAT(
      ClusterText(cluster, "10.0.0.1:7070", 1'060'000),
      HasSubstr("\nserver shoal-0 on rack2 was refused 0.7 s ago: a live server on node rack1 has the name shoal-0\n"));
}

TEST(TablesTest, GroupsThatUseNoServersAreCounted) {
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  job->add_groups()->set_node_reduce("flat");
  job->add_groups();
  EXPECT_THAT(JobsText(jobs, {.wide = true}), Not(HasSubstr("node")));
  job->add_groups()->set_node_reduce("node alone");
  EXPECT_THAT(JobsText(jobs, {.wide = true}), HasSubstr("3 (1 on one node)"));
}

TEST(TablesTest, AJobShowsTheTimesOfItsOps) {
  v1::JobStatus job;
  EXPECT_THAT(JobText(job, 0), Not(HasSubstr("Time of an op"))) << "none ended, or an older scheduler";
  OpTimeHistogram times;
  for (int i = 0; i < 98; ++i) times.Count(1'500'000);
  for (int i = 0; i < 2; ++i) times.Count(700'000'000);
  job.mutable_load()->mutable_op_time_counts()->Add(times.counts.begin(), times.counts.end());
  job.mutable_load()->set_op_time_ns_total(100 * 15'000'000);
  EXPECT_THAT(JobText(job, 0),
              HasSubstr("Time of an op since the start: mean 15.00 ms, median 1.51 ms, 99th percentile 750.00 ms\n"));
  EXPECT_THAT(JobText(job, 0), Not(HasSubstr("lately")));
  job.mutable_rates()->set_mean_op_ns(3'000'000);
  job.mutable_rates()->set_median_op_ns(2'000'000);
  job.mutable_rates()->set_percentile_99_op_ns(4'000'000);
  EXPECT_THAT(JobText(job, 0),
              HasSubstr("Time of an op lately: mean 3.00 ms, median 2.00 ms, 99th percentile 4.00 ms\n"));
}

TEST(TablesTest, AJobShowsWhatIsKeptForIt) {
  v1::JobStatus job;
  EXPECT_THAT(JobText(job, 0), Not(HasSubstr("Kept"))) << "it uses no servers, or the scheduler is older";
  job.set_slot_memory_bytes(24 << 20);
  EXPECT_THAT(JobText(job, 0), HasSubstr("\nKept for it: servers have reserved 24.0 MiB of slot memory\n"));
  job.mutable_load()->set_retained_results(5);
  EXPECT_THAT(
      JobText(job, 0),
      HasSubstr("\nKept for it: servers have reserved 24.0 MiB of slot memory; ranks keep the results of 5 chunks "
                "for\n    ranks that may not have them yet\n"));
}

TEST(TablesTest, AJobShowsOfWhichRanksMessagesWereRefused) {
  v1::JobStatus job;
  for (uint32_t rank = 0; rank < 3; ++rank) job.add_ranks()->set_rank(rank);
  EXPECT_THAT(JobText(job, 0), Not(HasSubstr("refused")));
  job.mutable_ranks(2)->mutable_load()->set_refusals(12);
  EXPECT_THAT(JobText(job, 0), HasSubstr("\nMessages that servers have refused: 12 of rank 2\n"));
  for (uint32_t rank = 3; rank < 13; ++rank) {
    job.add_ranks()->set_rank(rank);
    job.mutable_ranks(static_cast<int>(rank))->mutable_load()->set_refusals(rank);
  }
  EXPECT_THAT(JobText(job, 0), HasSubstr("9 of rank 9, and some of 3 other ranks\n"));
}

TEST(TablesTest, TheRailsOfAGroupAreOneGroup) {
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  job->add_groups()->set_name("other");
  // The first rail is closed already.
  for (const uint32_t rail : {1, 2, 3}) {
    v1::GroupStatus* group = job->add_groups();
    group->set_name("world");
    group->set_node_reduce("rails");
    group->set_rail(rail);
    group->set_rails(4);
  }
  EXPECT_THAT(JobsText(jobs, {.wide = true}), HasSubstr("2 (3 rails)"));
}

}  // namespace
}  // namespace shoal::cli
