// shoalctl against a real scheduler, and what its texts look like.
#include "cli/shoalctl.h"

#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/tables.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

Outcome RunTool(const std::vector<std::string>& arguments, const std::string& env_scheduler = "") {
  std::ostringstream out;
  std::ostringstream err;
  const auto lookup = [&](const std::string& name) -> std::optional<std::string> {
    if (name == "SHOAL_SCHEDULER" && !env_scheduler.empty()) return env_scheduler;
    return std::nullopt;
  };
  const int exit_code = RunShoalctl(arguments, lookup, out, err);
  return {exit_code, out.str(), err.str()};
}

class ShoalctlTest : public ::testing::Test {
 protected:
  ShoalctlTest() {
    SchedulerConfig config;
    config.listen = "127.0.0.1:0";
    config.lease_ttl_ms = 60'000;
    auto scheduler = Scheduler::Start(config);
    EXPECT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
  }

  void AddServerAndJob() {
    const auto stub =
        v1::Scheduler::NewStub(grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials()));
    v1::RegisterServerRequest server;
    server.set_control_version(kControlVersion);
    server.set_name("shoal-0");
    server.set_node("rack1");
    server.set_incarnation(11);
    server.add_addresses("10.1.2.3:4567");
    server.set_slot_memory_bytes(64 << 20);
    v1::RegisterServerResponse registered;
    grpc::ClientContext first;
    ASSERT_TRUE(stub->RegisterServer(&first, server, &registered).ok());
    server_id_ = registered.server_id();
    v1::JoinJobRequest job;
    job.set_control_version(kControlVersion);
    job.set_job_name("gpt");
    job.set_world_size(4);
    job.set_incarnation(12);
    job.set_node("node0");
    v1::JoinJobResponse joined;
    grpc::ClientContext second;
    ASSERT_TRUE(stub->JoinJob(&second, job, &joined).ok());
    job_id_ = joined.job_id();
  }

  // What a server does: asks with its heartbeats whether it is to leave, and then leaves.
  void LeaveWhenAsked() {
    const auto stub =
        v1::Scheduler::NewStub(grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials()));
    v1::HeartbeatServerRequest heartbeat;
    heartbeat.set_server_id(server_id_);
    heartbeat.set_incarnation(11);
    v1::HeartbeatServerResponse renewed;
    while (!renewed.drain()) {
      grpc::ClientContext context;
      ASSERT_TRUE(stub->HeartbeatServer(&context, heartbeat, &renewed).ok());
    }
    v1::DeregisterServerRequest request;
    request.set_server_id(server_id_);
    request.set_incarnation(11);
    v1::DeregisterServerResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(stub->DeregisterServer(&context, request, &response).ok());
  }

  Outcome Ask(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--scheduler", scheduler_->address(), "--timeout", "30"});
    return RunTool(arguments);
  }

  std::unique_ptr<Scheduler> scheduler_;
  uint64_t server_id_ = 0;
  uint64_t job_id_ = 0;
};

TEST_F(ShoalctlTest, AnEmptyClusterSaysWhatToDo) {
  const Outcome outcome = Ask({"status"});
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("0 servers live"), HasSubstr("shoal-server --scheduler"),
                                 HasSubstr("No jobs."), HasSubstr("state in memory")));
}

TEST_F(ShoalctlTest, EachCommandShowsItsPart) {
  AddServerAndJob();
  const Outcome status = Ask({"status"});
  EXPECT_THAT(status.out, AllOf(HasSubstr("map epoch 1, 1 server live, 0 lost, 1 job, 1 worker"), HasSubstr("shoal-0"),
                                HasSubstr("10.1.2.3:4567"), HasSubstr("0 B of 64.0 MiB"), HasSubstr("gpt"),
                                HasSubstr("1 of 4 live")));
  EXPECT_THAT(Ask({"servers"}).out, AllOf(StartsWith("SERVER "), HasSubstr("rack1")));
  EXPECT_THAT(Ask({"jobs"}).out, AllOf(StartsWith("JOB "), HasSubstr("joining")));
  EXPECT_THAT(Ask({"map"}).out, AllOf(StartsWith("Shard map, epoch 1: 1 shard\n"), HasSubstr("100.0 %")));
  EXPECT_THAT(Ask({"events"}).out, AllOf(HasSubstr("server-registered  server shoal-0"), HasSubstr("job-started")));
}

TEST_F(ShoalctlTest, JsonHasTheNamesOfTheProtoFiles) {
  AddServerAndJob();
  v1::ListServersResponse servers;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(Ask({"servers", "--json"}).out, &servers).ok());
  EXPECT_EQ(servers.servers(0).name(), "shoal-0");
  v1::ShardMap map;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(Ask({"--json", "map"}).out, &map).ok());
  EXPECT_EQ(map.shards(0).address(), "10.1.2.3:4567");
  const std::string status = Ask({"status", "--json"}).out;
  EXPECT_THAT(
      status,
      AllOf(StartsWith("{\"cluster\":{\"cluster_id\":"),
            HasSubstr(absl::StrCat("\"servers\":[{\"server_id\":\"", server_id_, "\"")),
            HasSubstr(absl::StrCat("\"jobs\":[{\"job_id\":\"", job_id_, "\",\"name\":\"gpt\",\"world_size\":4"))));
  std::istringstream lines(Ask({"events", "--json"}).out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    v1::Event event;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &event).ok()) << line;
  }
  EXPECT_EQ(count, 4);
}

TEST_F(ShoalctlTest, DrainSaysWhatItDidAndWhatItCannotDo) {
  AddServerAndJob();
  const Outcome unknown = Ask({"drain", "shoal-7"});
  EXPECT_EQ(unknown.exit_code, kExitFailure);
  EXPECT_THAT(unknown.err, HasSubstr("no server is named \"shoal-7\"; live servers: shoal-0"));
  EXPECT_EQ(Ask({"drain", "shoal-0"}).out, "server shoal-0 drains\n");
  EXPECT_EQ(Ask({"drain", "shoal-0"}).out, "server shoal-0 drains already\n");
  EXPECT_THAT(Ask({"drain", "shoal-0", "--json"}).out, HasSubstr("\"was_draining\":true"));
  EXPECT_THAT(Ask({"servers"}).out, HasSubstr("draining"));
  EXPECT_THAT(Ask({"map"}).out, HasSubstr("0 shards"));
}

TEST_F(ShoalctlTest, DrainWaitsUntilTheServerHasLeft) {
  AddServerAndJob();
  std::thread server([this] { LeaveWhenAsked(); });
  const Outcome outcome = Ask({"drain", "shoal-0", "--wait"});
  server.join();
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("server shoal-0 drains\n"), HasSubstr("server shoal-0 has left\n")));
}

TEST_F(ShoalctlTest, DrainDoesNotWaitForEver) {
  AddServerAndJob();
  const Outcome overdue = Ask({"drain", "shoal-0", "--wait", "--deadline", "0"});
  EXPECT_EQ(overdue.exit_code, kExitFailure);
  EXPECT_THAT(overdue.out, HasSubstr("server shoal-0 is draining: 0 group(s) open"));
  EXPECT_THAT(overdue.err, HasSubstr("has not left within 0.0 s: it is draining"));
}

TEST_F(ShoalctlTest, TheSchedulerMayComeFromTheEnvironment) {
  EXPECT_EQ(RunTool({"status"}, scheduler_->address()).exit_code, kExitOk);
}

TEST(ShoalctlErrorsTest, NobodyThere) {
  SchedulerConfig config;
  config.listen = "127.0.0.1:0";
  std::string gone = (*Scheduler::Start(config))->address();  // stopped by now
  for (const std::string command : {"status", "servers", "jobs", "map", "events"}) {
    const Outcome outcome = RunTool({command, "--scheduler", gone, "--timeout", "20"});
    EXPECT_EQ(outcome.exit_code, kExitFailure);
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("can't reach a scheduler at " + gone), HasSubstr("--scheduler HOST:PORT")));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(ShoalctlErrorsTest, BadUsage) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "no command is given; use status"},
      {{"status"}, "no scheduler is given; use --scheduler HOST:PORT"},
      {{"stats", "--scheduler", "h:1"}, "unknown command \"stats\""},
      {{"status", "jobs", "--scheduler", "h:1"}, "give one command at a time"},
      {{"status", "--schedule", "h:1"}, "did you mean --scheduler?"},
      {{"status", "--follow", "--scheduler", "h:1"}, "--follow only goes with events"},
      {{"drain", "--scheduler", "h:1"}, "drain takes the name of one server"},
      {{"drain", "a", "b", "--scheduler", "h:1"}, "drain takes the name of one server"},
      {{"status", "--wait", "--scheduler", "h:1"}, "--wait only goes with drain"},
      {{"drain", "a", "--deadline", "-1", "--scheduler", "h:1"}, "--deadline takes"},
      {{"status", "--timeout", "nan", "--scheduler", "h:1"}, "--timeout takes"},
      {{"status", "--timeout", "0", "--scheduler", "h:1"}, "--timeout takes"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = RunTool(arguments);
    EXPECT_EQ(outcome.exit_code, kExitUsage) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  EXPECT_EQ(RunTool({"--help"}).exit_code, kExitOk);
  EXPECT_THAT(RunTool({"--help"}).out, AllOf(HasSubstr("Commands:"), HasSubstr("--timeout S")));
  EXPECT_THAT(RunTool({"--version"}).out, HasSubstr(kSoftwareVersion));
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
  EXPECT_THAT(JobsText(jobs),
              HasSubstr("rank 0 on node lost: no heartbeat; rank 1 on node lost: no heartbeat; and 2 more"));
}

TEST(TablesTest, GroupsThatWaitNameTheRanksTheyLack) {
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  v1::GroupStatus* group = job->add_groups();
  group->set_name("world");
  group->set_state("waiting");
  EXPECT_THAT(JobsText(jobs), HasSubstr("group world waits to be opened"));
  group->add_missing_ranks(3);
  group->add_missing_ranks(7);
  EXPECT_THAT(JobsText(jobs), HasSubstr("group world waits for ranks 3, 7"));
  group->set_state("open");
  EXPECT_THAT(JobsText(jobs), Not(HasSubstr("waits")));
}

TEST(TablesTest, GroupsThatUseNoServersAreCounted) {
  v1::ListJobsResponse jobs;
  v1::JobStatus* job = jobs.add_jobs();
  job->add_groups()->set_node_reduce("flat");
  job->add_groups();
  EXPECT_THAT(JobsText(jobs), Not(HasSubstr("node")));
  job->add_groups()->set_node_reduce("node alone");
  EXPECT_THAT(JobsText(jobs), HasSubstr("3 (1 on one node)"));
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
  EXPECT_THAT(JobsText(jobs), HasSubstr("2 (3 rails)"));
}

}  // namespace
}  // namespace shoal::cli
