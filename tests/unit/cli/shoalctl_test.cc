// shoalctl against a real scheduler.
#include "cli/shoalctl.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/events.h"
#include "cli/tables.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "shoal/v1/status.pb.h"
#include "tests/unit/cli/started_scheduler.h"
#include "tests/unit/program/scoped_environment.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
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
  const ScopedEnvironment variables(std::map<std::string, std::string>{{"SHOAL_SCHEDULER", env_scheduler}});
  const int exit_code = RunShoalctl(arguments, out, err);
  return {exit_code, out.str(), err.str()};
}

// Runs it with an output on a disk that is full: it is to fail, and to say so once.
void ExpectFullDiskIsTold(const std::vector<std::string>& arguments) {
  std::ofstream out("/dev/full");
  ASSERT_TRUE(out.good());
  std::ostringstream err;
  EXPECT_EQ(RunShoalctl(arguments, out, err), kExitFailure) << arguments.front();
  EXPECT_EQ(err.str(), "shoalctl: the output could not be written: a full disk, or the reader has gone\n")
      << arguments.front();
}

class ShoalctlTest : public ::testing::Test {
 protected:
  ShoalctlTest() { scheduler_ = StartScheduler(); }

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

  void AddServers(uint64_t count) {
    const auto stub =
        v1::Scheduler::NewStub(grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials()));
    for (uint64_t i = 0; i < count; ++i) {
      v1::RegisterServerRequest server;
      server.set_control_version(kControlVersion);
      server.set_name(absl::StrCat("many-", i));
      server.set_incarnation(1000 + i);
      server.add_addresses(absl::StrCat("10.1.2.3:", 4567 + i));
      server.set_slot_memory_bytes(64 << 20);
      v1::RegisterServerResponse registered;
      grpc::ClientContext context;
      const grpc::Status status = stub->RegisterServer(&context, server, &registered);
      ASSERT_TRUE(status.ok()) << status.error_message();
    }
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
                                HasSubstr("0 % of 64.0 MiB"), HasSubstr("gpt"), HasSubstr("1 of 4 live")));
  EXPECT_THAT(Ask({"servers"}).out, AllOf(StartsWith("SERVER "), HasSubstr("rack1"), Not(HasSubstr("10.1.2.3:4567"))));
  EXPECT_THAT(Ask({"servers", "--wide"}).out, HasSubstr("10.1.2.3:4567"));
  EXPECT_THAT(Ask({"job", "gpt"}).out, AllOf(StartsWith("Job gpt (id "), HasSubstr("joining, world size 4"),
                                             HasSubstr("node0"), HasSubstr("No open groups.")));
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
  const std::string events = Ask({"events", "--json"}).out;
  EXPECT_THAT(events, AllOf(StartsWith("{\"events\":[{"), EndsWith("}]}\n")));
  google::protobuf::Struct document;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(events, &document).ok()) << events;
  EXPECT_EQ(document.fields().at("events").list_value().values_size(), 6);
  EXPECT_EQ(Ask({"events", "--json", "--kind", "job-failed"}).out, "{\"events\":[]}\n");
}

TEST_F(ShoalctlTest, EventsAreThoseThatWereAskedFor) {
  AddServerAndJob();
  EXPECT_THAT(Ask({"events", "--kind", "job-started,job-failed"}).out,
              AllOf(HasSubstr("job-started"), Not(HasSubstr("server-registered"))));
  EXPECT_THAT(Ask({"events", "--job", "gpt"}).out,
              AllOf(HasSubstr("job-started"), Not(HasSubstr("server-registered"))));
  EXPECT_EQ(Ask({"events", "--job", "gp"}).out, "");
  EXPECT_EQ(Ask({"events", "--job", "gpt", "--kind", "server-registered"}).out, "");
  EXPECT_EQ(Ask({"events", "--since", "1h"}).out, Ask({"events"}).out);
  EXPECT_EQ(Ask({"events", "--since", "0s"}).exit_code, kExitOk);
}

TEST_F(ShoalctlTest, EventsThatAreNotKeptAreToldOf) {
  EXPECT_THAT(Ask({"events", "--since", "1h"}).err,
              AllOf(StartsWith("shoalctl: events before "), HasSubstr("which began to lead then"), EndsWith("\n")));
  EXPECT_EQ(Ask({"events", "--since", "1h", "--json"}).err, "");
  EXPECT_EQ(Ask({"events", "--since", "0s"}).err, "");
  EXPECT_EQ(Ask({"events"}).err, "");
  AddServers(600);  // two events each
  EXPECT_THAT(Ask({"events", "--since", "1h"}).err, StartsWith("shoalctl: some events up to "));
}

TEST(EventsNotKeptTest, AreThoseBeforeASchedulerLedAndThoseThatItHadNoRoomFor) {
  v1::Cluster cluster;
  cluster.set_started_at_unix_ms(60'000);
  EXPECT_EQ(EventsNotKeptText(cluster, 60'000), "");
  EXPECT_THAT(EventsNotKeptText(cluster, 0), HasSubstr("which began to lead then"));
  EXPECT_EQ(EventsNotKeptText(cluster, 59'999),
            "events before 1970-01-01T00:01:00Z are not kept by this scheduler, which began to lead then; if one "
            "led before, its log has them");
  cluster.set_newest_forgotten_event_unix_ms(120'000);
  EXPECT_EQ(EventsNotKeptText(cluster, 120'001), "");
  for (const uint64_t since : {uint64_t{1}, uint64_t{120'000}}) {
    EXPECT_EQ(EventsNotKeptText(cluster, since),
              "some events up to 1970-01-01T00:02:00Z are not kept any more, as the scheduler has room for the newest "
              "alone; its log has them");
  }
}

TEST(EventFilterTest, AnEventMustPassAllOfIt) {
  v1::Event event;
  event.set_at_unix_ms(5000);
  event.set_kind("rank-lost");
  event.set_subject("rank 3 of job \"gpt\" on node b");
  EXPECT_TRUE(EventFilter().Lets(event));
  EXPECT_TRUE((EventFilter{.since_unix_ms = 5000, .job = "gpt", .kinds = {"rank-lost", "job-failed"}}).Lets(event));
  EXPECT_FALSE((EventFilter{.since_unix_ms = 5001}).Lets(event));
  EXPECT_FALSE((EventFilter{.job = "gpt2"}).Lets(event));
  EXPECT_FALSE((EventFilter{.kinds = {"job-failed"}}).Lets(event));
  event.set_subject("server a");
  event.set_reason("job \"gpt\" waited for it");
  EXPECT_TRUE((EventFilter{.job = "gpt"}).Lets(event));
}

TEST(EventFilterTest, AgesHaveUnits) {
  EXPECT_EQ(*ParseAge("90"), 90'000u);
  EXPECT_EQ(*ParseAge("1.5s"), 1'500u);
  EXPECT_EQ(*ParseAge("15m"), 900'000u);
  EXPECT_EQ(*ParseAge("2h"), 7'200'000u);
  EXPECT_EQ(*ParseAge("1d"), 86'400'000u);
  for (const char* wrong : {"", "s", "-1s", "nan", "inf", "1y", "yesterday", "1e300d"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseAge(wrong).status())) << wrong;
  }
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

TEST_F(ShoalctlTest, DrainThatWaitsWritesOneDocument) {
  AddServerAndJob();
  std::thread server([this] { LeaveWhenAsked(); });
  const Outcome outcome = Ask({"drain", "shoal-0", "--wait", "--json"});
  server.join();
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(StartsWith("{\"drain\":{"), HasSubstr("},\"server\":{"), HasSubstr("\"left\"")));
}

TEST_F(ShoalctlTest, DrainDoesNotWaitForEver) {
  AddServerAndJob();
  const Outcome overdue = Ask({"drain", "shoal-0", "--wait", "--deadline", "0"});
  EXPECT_EQ(overdue.exit_code, kExitFailure);
  EXPECT_THAT(overdue.out, HasSubstr("server shoal-0 is draining: 0 group(s) open"));
  EXPECT_THAT(overdue.err, HasSubstr("has not left within 0.0 s: it is draining"));
}

TEST_F(ShoalctlTest, AServerThatDrainsMayStayAfterAll) {
  AddServerAndJob();
  EXPECT_EQ(Ask({"undrain", "shoal-0"}).out, "server shoal-0 was not draining\n");
  Ask({"drain", "shoal-0"});
  EXPECT_EQ(Ask({"undrain", "shoal-0"}).out,
            "server shoal-0 is asked to stay; it takes groups in when it has heard of it\n");
  EXPECT_THAT(Ask({"servers"}).out, HasSubstr("live"));
  EXPECT_THAT(Ask({"undrain", "shoal-7"}).err, HasSubstr("no server is named \"shoal-7\""));
}

TEST_F(ShoalctlTest, AServerIsEvicted) {
  AddServerAndJob();
  EXPECT_THAT(Ask({"evict", "shoal-0"}).out, StartsWith("server shoal-0 is evicted; its process ends"));
  EXPECT_THAT(Ask({"servers"}).out, HasSubstr("server shoal-0 is lost: an operator evicted it\n"));
  const Outcome again = Ask({"evict", "shoal-0"});
  EXPECT_EQ(again.exit_code, kExitFailure);
  EXPECT_THAT(again.err, HasSubstr("server shoal-0 is lost (an operator evicted it); there is nothing to evict"));
}

TEST_F(ShoalctlTest, AJobIsAborted) {
  AddServerAndJob();
  EXPECT_EQ(Ask({"abort", "gpt", "--reason", "wrong data"}).out,
            "job gpt is aborted: 0 open groups of 1 live rank failed\n");
  EXPECT_THAT(Ask({"jobs"}).out, HasSubstr("job gpt: an operator aborted job \"gpt\": wrong data\n"));
  EXPECT_THAT(Ask({"events"}).out, HasSubstr("job-aborted"));
  EXPECT_THAT(Ask({"job", "gpt"}).out, HasSubstr("an operator aborted job \"gpt\": wrong data\n"));
  EXPECT_THAT(Ask({"abort", "gpt"}).err, HasSubstr("has failed: an operator aborted job \"gpt\": wrong data"));
  EXPECT_THAT(Ask({"abort", "bert"}).err, HasSubstr("no job is named \"bert\"; open jobs: none"));
}

TEST_F(ShoalctlTest, AJobThatIsNotThereIsNamed) {
  AddServerAndJob();
  const Outcome outcome = Ask({"job", "bert"});
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_THAT(outcome.err, HasSubstr("no job is named \"bert\"; open jobs: gpt"));
}

TEST_F(ShoalctlTest, TopShowsRatesSoManyTimes) {
  AddServerAndJob();
  const Outcome outcome = Ask({"top", "--interval", "0.1", "--rounds", "2"});
  EXPECT_EQ(outcome.exit_code, kExitOk) << outcome.err;
  size_t tables = 0;
  for (size_t at = outcome.out.find("CHUNKS/S"); at != std::string::npos; at = outcome.out.find("CHUNKS/S", at + 1)) {
    ++tables;
  }
  EXPECT_EQ(tables, 2u) << outcome.out;
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b"))) << "not a terminal";
}

TEST_F(ShoalctlTest, OutputThatCannotBeWrittenIsAnError) {
  AddServerAndJob();
  const std::vector<std::string> commands[] = {{"status"},
                                               {"schedulers"},
                                               {"servers"},
                                               {"jobs"},
                                               {"job", "gpt"},
                                               {"map"},
                                               {"events"},
                                               {"stragglers"},
                                               {"status", "--json"},
                                               {"events", "--follow"},
                                               {"top", "--interval", "0.1"}};
  for (std::vector<std::string> arguments : commands) {
    arguments.insert(arguments.end(), {"--scheduler", scheduler_->address()});
    ExpectFullDiskIsTold(arguments);
  }
}

TEST(ShoalctlOutputTest, WhatAsksNoClusterTellsOfAFullDiskAsWell) {
  const std::vector<std::string> commands[] = {{"--help"},
                                               {"--version"},
                                               {"plan", "--nodes", "4", "--link", "25"},
                                               {"plan", "--nodes", "4", "--link", "25", "--json"},
                                               {"completion", "bash"}};
  for (const std::vector<std::string>& arguments : commands) ExpectFullDiskIsTold(arguments);
}

TEST_F(ShoalctlTest, TheSchedulerMayComeFromTheEnvironment) {
  EXPECT_EQ(RunTool({"status"}, scheduler_->address()).exit_code, kExitOk);
}

// What bash offers for a command line; its last word is to be completed.
std::string OfferedByBash(const std::string& shoalctl, const std::string& words, int count) {
  const std::string path = absl::StrCat(testing::TempDir(), "/complete_", getpid());
  std::ofstream(path) << RunTool({"completion", "bash"}).out << "shoalctl() {\n"
                      << shoalctl << "\n}\nCOMP_WORDS=(" << words << ")\nCOMP_CWORD=" << count
                      << "\n_shoalctl\necho \"${COMPREPLY[*]}\"\n";
  FILE* const shell = popen(absl::StrCat("bash ", path, " 2>&1").c_str(), "r");
  std::string text;
  for (int c = fgetc(shell); c != EOF; c = fgetc(shell)) text += static_cast<char>(c);
  EXPECT_EQ(pclose(shell), 0) << text;
  return text;
}

TEST(CompletionTest, BashCompletesCommandsOptionsAndNames) {
  EXPECT_EQ(OfferedByBash("false", "shoalctl st", 1), "status stragglers\n");
  EXPECT_EQ(OfferedByBash("false", "shoalctl --sch", 1), "--scheduler\n");
  EXPECT_EQ(OfferedByBash("false", "shoalctl drain --", 2),
            "--help --wait --deadline --json --scheduler --timeout --tls-cert --tls-key --tls-ca\n");
  EXPECT_EQ(OfferedByBash("false", "shoalctl completion z", 2), "zsh\n");
  EXPECT_EQ(OfferedByBash("false", "shoalctl map x", 2), "\n");
  EXPECT_EQ(OfferedByBash("false", "shoalctl events --kind rank-l", 3), "rank-lost\n");
  EXPECT_EQ(OfferedByBash("false", "shoalctl trace gpt -o g", 4), "\n") << "a file of any name";
  v1::ListServersResponse servers;
  for (const std::string name : {"alpha", "beta"}) {
    v1::ServerStatus* server = servers.add_servers();
    server->set_name(name);
    server->set_state("lost");
    server->set_reason("no heartbeat for so long that nobody waits");
  }
  const std::string table = ServersText(servers, {.wide = true});
  EXPECT_EQ(OfferedByBash(absl::StrCat("cat <<'END'\n", table, "END\n"), "shoalctl drain \"\"", 2), "alpha beta\n");
  v1::ListJobsResponse jobs;
  jobs.add_jobs()->set_name("gpt");
  jobs.mutable_jobs(0)->set_state("running");
  const std::string job_table = absl::StrCat("cat <<'END'\n", JobsText(jobs, {.wide = true}), "END\n");
  EXPECT_EQ(OfferedByBash(job_table, "shoalctl abort g", 2), "gpt\n");
  EXPECT_EQ(OfferedByBash(job_table, "shoalctl timeline --job g", 3), "gpt\n");
}

TEST(CompletionTest, ANameThatAShellWouldExpandIsNotOffered) {
  const std::string made = absl::StrCat(testing::TempDir(), "/made_by_a_name_", getpid());
  v1::ListJobsResponse jobs;
  for (const std::string& name :
       {absl::StrCat("$(touch${IFS}", made, ")"), absl::StrCat("`touch${IFS}", made, "`"), std::string("${HOME}"),
        std::string("g*"), std::string("g;id"), std::string("-rf"), std::string("gpt/2024:a.b-c_d@e")}) {
    v1::JobStatus* const job = jobs.add_jobs();
    job->set_name(name);
    job->set_state("running");
  }
  const std::string table = absl::StrCat("cat <<'END'\n", JobsText(jobs, {.wide = true}), "END\n");
  EXPECT_EQ(OfferedByBash(table, "shoalctl job \"\"", 2), "gpt/2024:a.b-c_d@e\n");
  EXPECT_EQ(OfferedByBash(table, "shoalctl job g", 2), "gpt/2024:a.b-c_d@e\n");
  EXPECT_NE(access(made.c_str(), F_OK), 0);
}

TEST(CompletionTest, OtherShellsAreRefused) {
  const Outcome outcome = RunTool({"completion", "fish"});
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("no completion for the shell \"fish\"; use bash or zsh"));
  EXPECT_THAT(RunTool({"completion", "zsh"}).out, HasSubstr("bashcompinit"));
}

TEST(ShoalctlPlanTest, ItAsksNoCluster) {
  const Outcome table = RunTool({"plan", "--nodes", "4", "--link", "25", "--bytes", "100M"});
  EXPECT_EQ(table.exit_code, kExitOk) << table.err;
  EXPECT_THAT(table.out, AllOf(StartsWith("All-reduce of 100.0 MiB on 4 nodes of 1 rank, links of 25 Gbit/s"),
                               HasSubstr("4 dedicated servers are within 5 % of the best")));
  const Outcome json = RunTool({"plan", "--nodes", "4", "--link", "25", "--json"});
  EXPECT_THAT(json.out, AllOf(StartsWith("{\"link_bound_ns\":\""), HasSubstr("\"enough_servers\":4,\"rows\":[{")));
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 1);
  const Outcome without = RunTool({"plan"});
  EXPECT_EQ(without.exit_code, kExitUsage);
  EXPECT_THAT(without.err, HasSubstr("plan takes --nodes from 2"));
  EXPECT_THAT(RunTool({"servers", "--nodes", "4", "--scheduler", "h:1"}).err, HasSubstr("--nodes only goes with plan"));
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
      {{"stats", "--scheduler", "h:1"}, "unknown command \"stats\" (did you mean status?)"},
      {{"timeline"}, "or set SHOAL_SCHEDULER, or name a folder with flight records"},
      {{"timeline", "a", "b"}, "unexpected argument \"b\""},
      {{"timeline", "folder", "--job", "gpt"}, "FOLDER excludes --job; give only one of the two"},
      {{"timeline", "/nowhere/at/all"}, "the folder /nowhere/at/all can't be read"},
      {{"status", "--group", "7"}, "--group only goes with timeline"},
      {{"status", "-o", "file"}, "-o only goes with trace, timeline"},
      {{"trace", "--scheduler", "h:1"}, "trace takes JOB: The job, as `shoalctl jobs` lists it."},
      {{"trace", "a", "--seconds", "0", "--scheduler", "h:1"}, "--seconds: \"0\" is no number from 0.001 to 60"},
      {{"trace", "a", "--seconds", "61", "--scheduler", "h:1"}, "--seconds: \"61\" is no number from 0.001 to 60"},
      {{"status", "jobs", "--scheduler", "h:1"}, "unexpected argument \"jobs\""},
      {{"status", "--schedule", "h:1"}, "did you mean --scheduler?"},
      {{"status", "--job", "gpt", "--scheduler", "h:1"}, "--job only goes with events, timeline"},
      {{"status", "--scheduler", "127.0.0.1:70700"}, "give HOST:PORT with a port from 1 to 65535"},
      {{"events", "--kind", "nonsense", "--scheduler", "h:1"}, "of kind \"nonsense\"; it records "},
      {{"events", "--kind", "lease-missing", "--scheduler", "h:1"}, "no scheduler records"},
      {{"events", "--kind", "job-failed,rank-los", "--scheduler", "h:1"},
       "of kind \"rank-los\" (did you mean rank-lost?); docs/events.md lists the kinds\n"},
      {{"events", "--since", "yesterday", "--scheduler", "h:1"}, "--since: \"yesterday\" is no time; give 90s"},
      {{"trace", "a", "--json", "--scheduler", "h:1"}, "--json only goes with status, schedulers, "},
      {{"drain", "--scheduler", "h:1"}, "drain takes SERVER: The server, as `shoalctl servers` lists it."},
      {{"drain", "a", "b", "--scheduler", "h:1"}, "unexpected argument \"b\""},
      {{"job", "--scheduler", "h:1"}, "job takes JOB: "},
      {{"map", "--wide", "--scheduler", "h:1"}, "--wide only goes with status, servers, jobs"},
      {{"top", "--json", "--scheduler", "h:1"}, "--json only goes with status, "},
      {{"top", "--interval", "0", "--scheduler", "h:1"}, "--interval: \"0\" is no number from 0.1"},
      {{"drain", "a", "--deadline", "-1", "--scheduler", "h:1"}, "--deadline: \"-1\" is no number from 0"},
      {{"drain", "a", "--deadline", "5", "--scheduler", "h:1"}, "--deadline requires --wait"},
      {{"status", "--timeout", "nan", "--scheduler", "h:1"}, "--timeout: \"nan\" is no number from 0.001"},
      {{"status", "--timeout", "0", "--scheduler", "h:1"}, "--timeout: \"0\" is no number from 0.001"},
  };
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = RunTool(arguments);
    EXPECT_EQ(outcome.exit_code, kExitUsage) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  EXPECT_EQ(RunTool({"--help"}).exit_code, kExitOk);
  EXPECT_THAT(RunTool({"-h"}).out,
              AllOf(HasSubstr("Commands:\n  status "), HasSubstr("\n\nExit codes:\n  0  it has done "),
                    EndsWith("\n  3  doctor found a problem, or verify a difference\n")));
  EXPECT_THAT(RunTool({"--version"}).out, HasSubstr(kSoftwareVersion));
}

TEST(ShoalctlHelpTest, OfACommandItHasWhatGoesWithThatCommand) {
  const Outcome events = RunTool({"events", "-h"});
  EXPECT_EQ(events.exit_code, kExitOk) << events.err;
  EXPECT_THAT(events.out,
              AllOf(StartsWith("What happened recently and why, as far as"),
                    HasSubstr("\n\nUsage: shoalctl events [options]\n\nOptions:\n"), HasSubstr("\n  -f, --follow\n"),
                    HasSubstr("\n  --since TIME\n"), HasSubstr("\n  --scheduler HOST:PORT\n"),
                    Not(HasSubstr("--nodes")), Not(HasSubstr("--wait"))));
  EXPECT_EQ(RunTool({"--help", "events"}).out, events.out);
  EXPECT_THAT(RunTool({"drain", "--help"}).out,
              AllOf(HasSubstr("\nUsage: shoalctl drain [options] SERVER\n"), HasSubstr("  --wait\n"),
                    HasSubstr("  --deadline S\n"), Not(HasSubstr("--since"))));
  EXPECT_THAT(RunTool({"plan", "-h"}).out,
              AllOf(HasSubstr("--nodes N"), HasSubstr("\n  --json\n"), Not(HasSubstr("--scheduler"))));
  EXPECT_EQ(RunTool({"--scheduler", "h:1", "plan", "--nodes", "4", "--link", "25"}).exit_code, kExitOk) << "an alias";
  EXPECT_THAT(RunTool({"completion", "-h"}).out,
              AllOf(HasSubstr("completion [options] SHELL"), Not(HasSubstr("--scheduler")), Not(HasSubstr("--json"))));
  EXPECT_THAT(RunTool({"trace", "-h"}).out, AllOf(HasSubstr("--output FILE"), Not(HasSubstr("--json"))));
  const Outcome unknown = RunTool({"stats", "-h"});
  EXPECT_EQ(unknown.exit_code, kExitUsage);
  EXPECT_THAT(unknown.err, HasSubstr("unknown command \"stats\""));
}

TEST(ShoalctlHelpTest, OfEachCommandItFitsATerminal) {
  for (const char* command :
       {"status", "schedulers", "servers", "jobs", "job", "stragglers", "top", "map", "events", "doctor", "drain",
        "undrain", "evict", "trace", "verify", "abort", "plan", "timeline", "completion"}) {
    const std::string help = RunTool({command, "-h"}).out;
    EXPECT_LT(std::count(help.begin(), help.end(), '\n'), 40) << help;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
    EXPECT_THAT(RunTool({"-h"}).out, HasSubstr(absl::StrCat("\n  ", command, " ")));
  }
}

TEST(ShoalctlTimelineTest, DrawsToTheFileOrSaysWhyItCanNot) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / absl::StrCat("drawn-", getpid());
  std::filesystem::create_directory(folder);
  const Outcome empty = RunTool({"timeline", folder.string()});
  EXPECT_EQ(empty.exit_code, kExitFailure);
  EXPECT_THAT(empty.err, HasSubstr("there is no flight record in"));
  std::ofstream(folder / "a.txt") << "rank 0 of job \"gpt\" on node-1, group \"ddp\" (group=12) failed: why\n"
                                     "The last 1 of 1 events, in seconds before unix_ms=5:\n"
                                     "-0.5 peer down peer=1\n";
  const Outcome to_screen = RunTool({"timeline", folder.string()});
  EXPECT_EQ(to_screen.exit_code, kExitOk) << to_screen.err;
  EXPECT_THAT(to_screen.out, HasSubstr("\"traceEvents\""));
  ExpectFullDiskIsTold({"timeline", folder.string()});
  const std::string file = (folder / "trace.json").string();
  const Outcome to_file = RunTool({"timeline", folder.string(), "-o", file});
  EXPECT_EQ(to_file.exit_code, kExitOk) << to_file.err;
  EXPECT_THAT(to_file.out, HasSubstr("1 member of group 12"));
  EXPECT_EQ(std::filesystem::file_size(file), to_screen.out.size());
  const Outcome full = RunTool({"timeline", folder.string(), "-o", "/dev/full"});
  EXPECT_EQ(full.exit_code, kExitFailure);
  EXPECT_THAT(full.err, HasSubstr("can't write /dev/full: No space left on device"));
  std::ofstream(folder / "a.txt", std::ios::app) << "-0.4 peer";
  EXPECT_THAT(RunTool({"timeline", folder.string()}).out, HasSubstr("has no end")) << "the picture says it itself";
  EXPECT_THAT(RunTool({"timeline", folder.string(), "--group", "13"}).err, HasSubstr("there are those of 12"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shoal::cli
