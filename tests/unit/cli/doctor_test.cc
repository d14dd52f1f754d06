// What the doctor says of what was seen, how it looks, and the whole command against a real scheduler. Only loopback
// addresses are tried.
#include "cli/doctor.h"

#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/shoalctl.h"
#include "core/no_leader.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/json_text.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "tests/unit/cli/healthy_examination.h"
#include "tests/unit/cli/started_scheduler.h"
#include "tests/unit/loopback_socket.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kWayTimeoutMs = 20'000;

TEST(DoctorTest, WhereAllIsWellNothingIsToBeDone) {
  const std::vector<Finding> findings = Judge(Healthy());
  EXPECT_THAT(findings, Each(Field("fix", &Finding::fix, IsEmpty())))
      << FindingsText(findings, /*bandwidth_asked=*/false);
  EXPECT_THAT(findings, Contains(Is("server", Verdict::kGood,
                                    "server shoal-0 on rack1: 2 ports reached over eth0, round trip 0.12 ms at most")));
  EXPECT_THAT(findings, Contains(Is("clock", Verdict::kGood, "")));
  EXPECT_THAT(findings, Contains(Is("mtu", Verdict::kGood, "eth0: 9000 bytes, 25000 Mbit/s")));
  EXPECT_THAT(FindingsText(findings, /*bandwidth_asked=*/false), HasSubstr("0 problems, 0 warnings."));
}

// With a bandwidth to its server, whose device has 25000 Mbit/s.
std::vector<Finding> JudgeWith(const absl::StatusOr<Bandwidth>& bandwidth) {
  Examination seen = Healthy();
  seen.bandwidths.emplace().emplace("shoal-0", bandwidth);
  return Judge(seen);
}

TEST(DoctorTest, ABandwidthIsComparedWithTheDevices) {
  EXPECT_THAT(JudgeWith(Bandwidth{.mbit_per_s = 23'400, .processor_share = 0.8, .transports = "tcp/eth0"}),
              Contains(Is("bandwidth", Verdict::kGood,
                          "to server shoal-0 on rack1: 23400 Mbit/s of the 25000 that this node's device has, over "
                          "tcp/eth0, with 80 % of a core")));
  EXPECT_THAT(JudgeWith(Bandwidth{.mbit_per_s = 9'400, .processor_share = 0.5, .transports = "tcp/eth0"}),
              Contains(Is("bandwidth", Verdict::kWarning, "9400 Mbit/s of the 25000", "find what holds it up")));
  EXPECT_THAT(JudgeWith(Bandwidth{.mbit_per_s = 12'000, .processor_share = 0.97, .transports = "tcp/eth0"}),
              Contains(Is("bandwidth", Verdict::kWarning, "12000 Mbit/s", "one core of this node could send no more")));
  EXPECT_THAT(JudgeWith(absl::UnavailableError("the server at 10.0.0.11:4567: it was closed")),
              Contains(Is("bandwidth", Verdict::kProblem,
                          "nothing could be sent to server shoal-0 on rack1: the server", "ranks here can't either")));
  EXPECT_THAT(JudgeWith(absl::NotFoundError("there is no shoal-perf")),
              Contains(Is("bandwidth", Verdict::kWarning, "was not measured: there is no shoal-perf", "one folder")));
  EXPECT_THAT(JudgeWith(absl::InternalError("shoal-perf died")),
              Contains(Is("bandwidth", Verdict::kWarning, "was not measured: shoal-perf died", "one folder")));
  EXPECT_THAT(JudgeWith(Bandwidth{.mbit_per_s = 90'000, .processor_share = 0.1, .transports = "rc_verbs/mlx5_0:1"}),
              Contains(Is("bandwidth", Verdict::kNote, "90000 Mbit/s, over rc_verbs/mlx5_0:1")));
}

TEST(DoctorTest, ABandwidthWithNothingToCompareItWithIsOnlyTold) {
  Examination seen = Healthy();
  for (Way& way : seen.ways) way.device_mbit = 0;
  seen.bandwidths.emplace().emplace("shoal-0",
                                    Bandwidth{.mbit_per_s = 940, .processor_share = 0.1, .transports = "tcp/eth0"});
  const std::vector<Finding> findings = Judge(seen);
  EXPECT_THAT(findings, Contains(Is("bandwidth", Verdict::kNote,
                                    "to server shoal-0 on rack1: 940 Mbit/s, over tcp/eth0, with 10 % of a core; the "
                                    "rate of this node's card is not known, so it was compared with nothing")));
  EXPECT_THAT(FindingsText(findings, /*bandwidth_asked=*/true),
              AllOf(HasSubstr("note     bandwidth  to server shoal-0"), HasSubstr("0 problems, 0 warnings.")));
}

TEST(DoctorTest, AServerWhoseBandwidthWasNotMeasuredIsNamedWithTheReason) {
  Examination seen = Healthy();
  EXPECT_THAT(Judge(seen), Not(Contains(Field("check", &Finding::check, "bandwidth")))) << "it was not asked for";
  seen.bandwidths.emplace();
  for (Way& way : seen.ways) way.within_node = true;
  EXPECT_THAT(Judge(seen), Contains(Is("bandwidth", Verdict::kNote,
                                       "to server shoal-0 on rack1 was not measured: it is on this node")));
  seen.ways[1].outcome = Way::Outcome::kRefused;
  EXPECT_THAT(Judge(seen), Contains(Is("bandwidth", Verdict::kNote,
                                       "to server shoal-0 on rack1 was not measured: not all of its ports were "
                                       "reached")));
}

TEST(DoctorTest, WhoHasMeasuredTheBandwidthIsNotToldToDoSo) {
  const std::vector<Finding> findings = Judge(Healthy());
  EXPECT_THAT(FindingsText(findings, /*bandwidth_asked=*/false), HasSubstr("--bandwidth also sends"));
  EXPECT_THAT(FindingsText(findings, /*bandwidth_asked=*/true), Not(HasSubstr("--bandwidth")));
}

TEST(DoctorTest, WhatShoalPerfPrintsIsReadAndNothingElse) {
  const absl::StatusOr<Bandwidth> bandwidth = ParseWay(
      "[1795618288.87] a warning of no consequence\nway mbit_per_s=9402.1 round_trip_us=108.2 processor_share=0.62 "
      "transports=tcp/eth0\n");
  ASSERT_TRUE(bandwidth.ok()) << bandwidth.status();
  EXPECT_EQ(bandwidth->mbit_per_s, 9402.1);
  EXPECT_EQ(bandwidth->processor_share, 0.62);
  EXPECT_EQ(bandwidth->transports, "tcp/eth0");
  for (const char* other :
       {"", "way", "way mbit_per_s=fast processor_share=0.62 transports=tcp/eth0",
        "way mbit_per_s=1 processor_share=0.62", "a way mbit_per_s=1 processor_share=1 transports=t"}) {
    EXPECT_EQ(ParseWay(other).status().code(), absl::StatusCode::kInternal) << other;
  }
}

TEST(DoctorTest, PortsThatAreNotReachedAreAProblemWithAFixForEachCause) {
  Examination seen = Healthy();
  const auto fail = [&seen](size_t way, Way::Outcome outcome, const std::string& why) {
    seen.ways[way].outcome = outcome;
    seen.ways[way].why = why;
  };
  fail(1, Way::Outcome::kRefused, "Connection refused");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem,
                                       "server shoal-0 on rack1 can't be reached at 10.0.0.11:4568: Connection refused",
                                       "whether the server runs")));
  EXPECT_THAT(Judge(seen), Not(Contains(Is("server", Verdict::kGood, "shoal-0"))));
  fail(1, Way::Outcome::kNoAnswer, "no answer within 5000 ms");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem, "no answer", "firewalls")));
  fail(1, Way::Outcome::kNoRoute, "Network is unreachable");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem, "Network is unreachable", "routes")));
  fail(1, Way::Outcome::kBadAddress, "not an address");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem, "not an address", "--advertise")));
  fail(0, Way::Outcome::kRefused, "Connection refused");
  fail(1, Way::Outcome::kRefused, "Connection refused");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem, "10.0.0.11:4567, as 1 other port: Connection")));
  EXPECT_EQ(CountOf(Judge(seen), Verdict::kProblem), 1u) << "one for all ports of a cause";
  seen.servers.mutable_servers(0)->set_state("draining");
  EXPECT_EQ(CountOf(Judge(seen), Verdict::kProblem), 0u) << "groups leave it";
}

TEST(DoctorTest, OnlyServersThatAJobHereWouldUseAreTried) {
  v1::ServerStatus server;
  server.set_state("live");
  EXPECT_TRUE(IsToBeTried(server));
  server.set_state("draining");
  EXPECT_TRUE(IsToBeTried(server));
  server.set_state("lost");
  EXPECT_FALSE(IsToBeTried(server));
  server.set_state("live");
  server.set_job_id(7);
  EXPECT_FALSE(IsToBeTried(server)) << "it serves another job alone";

  Examination seen = Healthy();
  *seen.servers.add_servers() = seen.servers.servers(0);
  *seen.servers.mutable_servers(0) = server;  // its address has no way among the ways
  seen.servers.mutable_servers(0)->add_addresses("10.0.0.12:4567");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kGood, "shoal-0 on rack1: 2 ports")));
  seen.servers.mutable_servers()->RemoveLast();
  seen.ways.clear();
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kWarning, "no dedicated server", "shoal-server")));
}

TEST(DoctorTest, WithoutASchedulerThisNodeIsStillLookedAt) {
  Examination seen;
  seen.scheduler = absl::UnavailableError("can't reach a scheduler at h:1");
  seen.node.open_files = 64;
  EXPECT_THAT(Judge(seen), ElementsAre(Is("scheduler", Verdict::kProblem, "can't reach a scheduler at h:1", "reaches"),
                                       Is("limits", Verdict::kWarning, "64 files")));
}

TEST(DoctorTest, EachOfSeveralSchedulersIsToAnswer) {
  Examination seen = Healthy();
  EXPECT_THAT(Judge(seen), Not(Contains(Is("scheduler", Verdict::kGood, "all "))));
  seen.schedulers = {{"10.0.0.1:7070", absl::OkStatus()}, {"10.0.0.2:7070", absl::OkStatus()}};
  EXPECT_THAT(Judge(seen), Contains(Is("scheduler", Verdict::kGood, "all 2 answer")));
  seen.schedulers[1].answer = absl::UnavailableError("can't reach a scheduler at 10.0.0.2:7070 (Connection refused)");
  EXPECT_THAT(Judge(seen), AllOf(Contains(Is("scheduler", Verdict::kWarning, "10.0.0.2:7070", "see that it runs")),
                                 Not(Contains(Is("scheduler", Verdict::kGood, "all ")))));
  EXPECT_EQ(CountOf(Judge(seen), Verdict::kProblem), 0u) << "the other one is enough for a job";
  seen.schedulers[1].answer =
      absl::UnavailableError(absl::StrCat("the scheduler at 10.0.0.2:7070: ", kLeaderIsSilent, " in a few seconds"));
  EXPECT_THAT(Judge(seen), Contains(Is("scheduler", Verdict::kWarning, "does not answer this one",
                                       "the network between that scheduler and the one that leads")));
  seen.scheduler = absl::UnavailableError("can't reach a scheduler");
  EXPECT_THAT(Judge(seen), AllOf(Contains(Is("scheduler", Verdict::kProblem, "can't reach a scheduler")),
                                 Contains(Is("scheduler", Verdict::kWarning, "10.0.0.2:7070"))));
}

TEST(DoctorTest, VersionsAndClocksThatDifferAreWarnedOf) {
  Examination seen = Healthy();
  seen.cluster.set_software_version("9.9.9");
  EXPECT_THAT(Judge(seen), AllOf(Contains(Is("scheduler", Verdict::kWarning, "version 9.9.9")),
                                 Contains(Is("version", Verdict::kWarning, "the scheduler 9.9.9", "upgrade"))));
  seen = Healthy();
  seen.cluster.set_now_unix_ms(1'000'000 + 65'000);
  EXPECT_THAT(Judge(seen), Contains(Is("clock", Verdict::kWarning, "behind the scheduler's", "NTP")));
  seen.cluster.set_now_unix_ms(1'000'000 - 65'000);
  EXPECT_THAT(Judge(seen), Contains(Is("clock", Verdict::kWarning, "ahead of the scheduler's")));
  seen.cluster.set_now_unix_ms(1'000'000 + 65'000);
  seen.answered_unix_ms = seen.asked_unix_ms + 140'000;  // the answer took long, and the time is in between
  EXPECT_THAT(Judge(seen), Not(Contains(Is("clock", Verdict::kWarning, ""))));
  seen.cluster.set_now_unix_ms(0);
  EXPECT_THAT(Judge(seen), Not(Contains(Field("check", &Finding::check, "clock"))));
}

TEST(DoctorTest, ANarrowWayAndASmallMtuOnAFastDeviceCost) {
  Examination seen = Healthy();
  seen.ways[1].segment_bytes = 1398;
  EXPECT_THAT(Judge(seen),
              Contains(Is("mtu", Verdict::kWarning, "segments to 10.0.0.11:4568 have 1398 bytes", "tunnel")));
  seen = Healthy();
  for (Way& way : seen.ways) {
    way.device_mtu = 1500;
    way.segment_bytes = way.offered_bytes = 1448;
  }
  EXPECT_THAT(Judge(seen), Contains(Is("mtu", Verdict::kWarning, "MTU of 1500", "9000")));
  for (Way& way : seen.ways) way.device_mbit = 1000;
  EXPECT_THAT(Judge(seen), Contains(Is("mtu", Verdict::kGood, "eth0: 1500 bytes, 1000 Mbit/s")));
  for (Way& way : seen.ways) way.device_mtu = 0;
  EXPECT_THAT(Judge(seen), Not(Contains(Field("check", &Finding::check, "mtu")))) << "nothing is known of it";
}

TEST(DoctorTest, OffloadsThatAreOffCost) {
  Examination seen = Healthy();
  EXPECT_THAT(Judge(seen), Contains(Is("offloads", Verdict::kGood, "eth0: gso and gro are on")));
  for (Way& way : seen.ways) way.device_offloads_off = {"gso", "gro"};
  EXPECT_THAT(Judge(seen), Contains(Is("offloads", Verdict::kWarning, "eth0: gso and gro turned off", "ethtool -K")));
  for (Way& way : seen.ways) way.within_node = true;
  EXPECT_THAT(Judge(seen), Not(Contains(Field("check", &Finding::check, "offloads"))));
}

TEST(DoctorTest, SmallTcpBuffersAreNamed) {
  Examination seen = Healthy();
  seen.node.tcp_send_buffer_bytes = 4 << 20;
  seen.node.tcp_receive_buffer_bytes = 6 << 20;
  EXPECT_THAT(Judge(seen), Not(Contains(Is("tcp", Verdict::kWarning, ""))));
  seen.node.tcp_receive_buffer_bytes = 262144;
  EXPECT_THAT(Judge(seen),
              Contains(Is("tcp", Verdict::kWarning, "at most 262144 bytes (net.ipv4.tcp_rmem)", "sysctl")));
}

TEST(DoctorTest, TcpIsJudgedWhereTheDataLeavesTheNode) {
  Examination seen = Healthy();
  seen.ways[1].congestion_control = "bbr";
  seen.node.slow_start_after_idle = true;
  EXPECT_THAT(Judge(seen),
              AllOf(Contains(Is("tcp", Verdict::kWarning, "is bbr", "cubic")),
                    Contains(Is("tcp", Verdict::kWarning, "after each pause", "slow_start_after_idle=0"))));
  for (Way& way : seen.ways) way.within_node = true;
  EXPECT_THAT(Judge(seen), Not(Contains(Field("check", &Finding::check, "tcp"))));
}

TEST(DoctorTest, OpenFilesAreComparedWithWhatTheServersWant) {
  Examination seen = Healthy();
  seen.node.open_files = 256;
  EXPECT_THAT(Judge(seen),
              Contains(Is("limits", Verdict::kWarning, "256 files open; a rank wants 264", "ulimit -n 528")));
  seen.node.open_files = 1024;
  EXPECT_THAT(Judge(seen), Contains(Is("limits", Verdict::kGood, "1024 files")));
  seen.ways.resize(400, GoodWay("10.0.0.11:4569"));
  EXPECT_THAT(Judge(seen), Contains(Is("limits", Verdict::kWarning, "a rank wants 1856")));
  seen.node.open_files = UINT64_MAX;
  EXPECT_THAT(Judge(seen), Contains(Is("limits", Verdict::kGood, "any number of files")));
}

TEST(DoctorTest, RdmaDevicesWantLockedMemoryAndServersThatUseThem) {
  Examination seen = Healthy();
  seen.node.rdma_devices = {"mlx5_0", "mlx5_1"};
  EXPECT_THAT(Judge(seen), Contains(Is("rdma", Verdict::kWarning, "no server moves data by RDMA", "--transports rc")));
  seen.servers.mutable_servers(0)->mutable_load()->set_transports("ucx 1.13.1: rc_verbs/mlx5_0:1");
  EXPECT_THAT(Judge(seen), Contains(Is("rdma", Verdict::kGood, "mlx5_0, mlx5_1")));
  seen.node.may_lock_for_rdma = false;
  EXPECT_THAT(Judge(seen), Contains(Is("rdma", Verdict::kProblem, "may lock too little", "runs as root")));
  seen.servers.mutable_servers(0)->mutable_load()->set_transports("sockets: tcp/eth0");
  EXPECT_EQ(CountOf(Judge(seen), Verdict::kProblem), 0u) << "nothing uses them";
}

TEST(DoctorTest, TheJsonHoldsWhatTheTextDoes) {
  Examination seen = Healthy();
  seen.servers.mutable_servers(0)->set_name("a \"quoted\" name");
  seen.node.open_files = 64;
  const Json document = Json::parse(FindingsJson(Judge(seen)));
  const Json& list = document.at("findings");
  ASSERT_EQ(list.size(), Judge(seen).size());
  EXPECT_EQ(list[2].at("check"), "server");
  EXPECT_EQ(list[2].at("verdict"), "good");
  EXPECT_THAT(list[2].at("text").get<std::string>(), HasSubstr("a \"quoted\" name"));
  EXPECT_EQ(document.at("problems"), 0);
  EXPECT_EQ(document.at("warnings"), 1);
}

TEST(WaysTest, TellReachedAddressesFromOthersInTheOrderGiven) {
  const LoopbackSocket listening(4);
  const LoopbackSocket silent(-1);
  const std::vector<Way> ways = TryWays({silent.address(), listening.address(), "not an address"}, kWayTimeoutMs);
  ASSERT_EQ(ways.size(), 3u);
  EXPECT_EQ(ways[0].address, silent.address());
  EXPECT_EQ(ways[0].outcome, Way::Outcome::kRefused);
  EXPECT_THAT(ways[0].why, HasSubstr("refused"));
  EXPECT_EQ(ways[1].outcome, Way::Outcome::kReached) << ways[1].why;
  EXPECT_EQ(ways[1].device, "lo");
  EXPECT_TRUE(ways[1].within_node);
  EXPECT_GT(ways[1].device_mtu, 0u);
  EXPECT_GT(ways[1].segment_bytes, 0u);
  EXPECT_FALSE(ways[1].congestion_control.empty());
  EXPECT_EQ(ways[2].outcome, Way::Outcome::kBadAddress);
}

TEST(WaysTest, ManyAddressesTakeNoMoreDescriptorsThanAFew) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = kMostAtATime + 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const LoopbackSocket listening(4096);
  const std::vector<Way> ways = TryWays(std::vector<std::string>(1000, listening.address()), kWayTimeoutMs);
  EXPECT_THAT(ways, Each(Field("outcome", &Way::outcome, Way::Outcome::kReached)));
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(WaysTest, GiveUpWhenTheTimeIsOver) {
  // Nobody accepts: when the queue of the listener is full, the kernel leaves those that come later without an answer.
  const LoopbackSocket listening(4);
  const std::vector<Way> ways = TryWays(std::vector<std::string>(64, listening.address()), 200);
  EXPECT_EQ(ways.front().outcome, Way::Outcome::kReached);
  EXPECT_EQ(ways.back().outcome, Way::Outcome::kNoAnswer) << ways.back().why;
  EXPECT_THAT(ways.back().why, HasSubstr("no answer within 200 ms"));
}

TEST(NodeSettingsTest, AreReadFromTheKernelsFiles) {
  const std::string root = testing::TempDir() + "doctor_root/";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "proc/sys/net/ipv4");
  std::filesystem::create_directories(root + "sys/class/infiniband/mlx5_1");
  std::filesystem::create_directories(root + "sys/class/infiniband/mlx5_0");
  std::ofstream(root + "proc/sys/net/ipv4/tcp_slow_start_after_idle") << "1\n";
  std::ofstream(root + "proc/sys/net/ipv4/tcp_wmem") << "4096\t16384\t4194304\n";
  std::ofstream(root + "proc/sys/net/ipv4/tcp_rmem") << "4096\t131072\t33554432\n";
  const NodeSettings settings = ReadNodeSettings(root);
  EXPECT_TRUE(settings.slow_start_after_idle);
  EXPECT_EQ(settings.tcp_send_buffer_bytes, 4194304u);
  EXPECT_EQ(settings.tcp_receive_buffer_bytes, 33554432u);
  EXPECT_THAT(settings.rdma_devices, ElementsAre("mlx5_0", "mlx5_1"));
  EXPECT_GT(settings.open_files, 0u);
  const NodeSettings nothing = ReadNodeSettings(root + "nothing/");
  EXPECT_FALSE(nothing.slow_start_after_idle);
  EXPECT_EQ(nothing.tcp_send_buffer_bytes, 0u);
  EXPECT_THAT(nothing.rdma_devices, IsEmpty());
  std::filesystem::remove_all(root);
}

class DoctorCommandTest : public ::testing::Test {
 protected:
  DoctorCommandTest() { scheduler_ = StartScheduler(); }

  void AddServer(const std::string& address) {
    const auto stub =
        v1::Scheduler::NewStub(grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials()));
    v1::RegisterServerRequest server;
    server.set_control_version(kControlVersion);
    server.set_software_version(kSoftwareVersion);
    server.set_name("shoal-0");
    server.set_node("rack1");
    server.set_incarnation(11);
    server.add_addresses(address);
    server.set_slot_memory_bytes(64 << 20);
    v1::RegisterServerResponse registered;
    grpc::ClientContext context;
    ASSERT_TRUE(stub->RegisterServer(&context, server, &registered).ok());
  }

  // The exit code.
  int Run(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"doctor", "--scheduler", scheduler_->address(), "--timeout", "20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    out_.str("");
    err_.str("");
    return RunShoalctl(arguments, out_, err_);
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(DoctorCommandTest, EndsWellWhereTheServerIsReached) {
  const LoopbackSocket server(4);
  AddServer(server.address());
  EXPECT_EQ(Run(), kExitOk) << out_.str() << err_.str();
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("shoal-0 on rack1: 1 port reached"), HasSubstr("0 problems")));
  EXPECT_THAT(out_.str(), HasSubstr("ms of the scheduler's")) << "it says what time the scheduler has";
}

TEST_F(DoctorCommandTest, SaysThatAServerOfThisNodeIsNotMeasured) {
  const LoopbackSocket server(4);
  AddServer(server.address());
  EXPECT_EQ(Run({"--bandwidth"}), kExitOk) << out_.str() << err_.str();
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("note     bandwidth  to server shoal-0 on rack1 was not measured: it is on "
                                          "this node\n"),
                                Not(HasSubstr("--bandwidth"))));
}

TEST_F(DoctorCommandTest, NamesTheSchedulerThatDoesNotAnswer) {
  const LoopbackSocket silent(-1);
  const LoopbackSocket server(4);
  AddServer(server.address());
  const std::string both = absl::StrCat(scheduler_->address(), ",", silent.address());
  const int code = RunShoalctl({"doctor", "--scheduler", both, "--timeout", "20"}, out_, err_);
  EXPECT_EQ(code, kExitOk) << err_.str();
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("warning  scheduler  can't reach a scheduler at " + silent.address()),
                                HasSubstr("0 problems, 1 warning.")));
}

TEST_F(DoctorCommandTest, FailsWhereItIsNot) {
  const LoopbackSocket server(-1);
  AddServer(server.address());
  EXPECT_EQ(Run(), kExitProblem);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("problem  server"), HasSubstr("can't be reached at " + server.address())));
  EXPECT_THAT(err_.str(), HasSubstr("the doctor found 1 problem"));
  EXPECT_EQ(Run({"--json"}), kExitProblem);
  EXPECT_TRUE(Json::accept(out_.str()));
}

TEST_F(DoctorCommandTest, SaysSoWhereNoSchedulerAnswers) {
  const std::string gone = scheduler_->address();
  scheduler_.reset();
  const int code = RunShoalctl({"doctor", "--scheduler", gone, "--timeout", "20", "--json"}, out_, err_);
  EXPECT_EQ(code, kExitProblem) << err_.str();
  EXPECT_GE(Json::parse(out_.str()).at("findings").size(), 2u) << "this node is looked at as well";
}

}  // namespace
}  // namespace shoal::cli
