// What the doctor says of what was seen, how it looks, and the whole command against a real scheduler. Only loopback
// addresses are tried.
#include "cli/doctor.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/shoalctl.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"

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

constexpr uint64_t kTimeoutMs = 20'000;

// A socket of this process on the loopback device.
class LoopbackSocket {
 public:
  explicit LoopbackSocket(bool listens) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    if (listens) {
      EXPECT_EQ(listen(fd_, 4), 0);
    }
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  LoopbackSocket(const LoopbackSocket&) = delete;
  LoopbackSocket& operator=(const LoopbackSocket&) = delete;
  ~LoopbackSocket() { close(fd_); }

  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
};

Way GoodWay(const std::string& address) {
  return {.address = address,
          .reached = absl::OkStatus(),
          .connect_ns = 120'000,
          .device = "eth0",
          .device_mtu = 9000,
          .path_mtu = 9000,
          .device_mbit = 25'000};
}

// A cluster with one server of two I/O threads, where everything is as it should be.
Examination Healthy() {
  Examination seen;
  seen.cluster.set_software_version(kSoftwareVersion);
  seen.cluster.set_now_unix_ms(1'000'003);
  seen.asked_unix_ms = 1'000'000;
  seen.answered_unix_ms = 1'000'004;
  v1::ServerStatus* const server = seen.servers.add_servers();
  server->set_name("shoal-0");
  server->set_node("rack1");
  server->set_state("live");
  server->set_software_version(kSoftwareVersion);
  server->set_transports("tcp");
  server->add_addresses("10.0.0.11:4567");
  server->add_addresses("10.0.0.11:4568");
  seen.ways = {GoodWay("10.0.0.11:4567"), GoodWay("10.0.0.11:4568")};
  seen.node = {.open_files = 65536, .lockable_bytes = UINT64_MAX, .congestion_control = "cubic"};
  return seen;
}

auto Is(const std::string& check, Verdict verdict, const std::string& text, const std::string& fix = "") {
  return AllOf(Field("check", &Finding::check, check), Field("verdict", &Finding::verdict, verdict),
               Field("text", &Finding::text, HasSubstr(text)), Field("fix", &Finding::fix, HasSubstr(fix)));
}

TEST(DoctorTest, WhereAllIsWellNothingIsToBeDone) {
  const std::vector<Finding> findings = Judge(Healthy());
  EXPECT_THAT(findings, Each(Field("fix", &Finding::fix, IsEmpty()))) << FindingsText(findings);
  EXPECT_THAT(findings, Contains(Is("server", Verdict::kGood,
                                    "shoal-0 on rack1: 2 I/O threads reached within 0.12 ms over eth0")));
  EXPECT_THAT(findings, Contains(Is("clock", Verdict::kGood, "")));
  EXPECT_THAT(findings, Contains(Is("mtu", Verdict::kGood, "eth0: 9000 bytes, 25000 Mbit/s")));
  EXPECT_THAT(FindingsText(findings), HasSubstr("0 problems, 0 warnings."));
}

TEST(DoctorTest, AnAddressThatIsNotReachedIsAProblemWithAFixForItsCause) {
  Examination seen = Healthy();
  seen.ways[1].reached = absl::UnavailableError("Connection refused");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem,
                                       "shoal-0 on rack1 can't be reached at 10.0.0.11:4568: Connection refused",
                                       "whether the server's process runs")));
  EXPECT_THAT(Judge(seen), Not(Contains(Is("server", Verdict::kGood, "shoal-0"))));
  seen.ways[1].reached = absl::DeadlineExceededError("no answer within 5000 ms");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem, "no answer", "firewalls")));
  seen.ways[1].reached = absl::UnavailableError("No route to host");
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem, "No route to host", "routes")));
}

TEST(DoctorTest, ServersThatHaveGoneAreNotTried) {
  Examination seen = Healthy();
  v1::ServerStatus gone;
  gone.set_name("shoal-old");
  gone.set_state("lost");
  gone.add_addresses("10.0.0.12:4567");
  *seen.servers.add_servers() = seen.servers.servers(0);
  *seen.servers.mutable_servers(0) = gone;  // its address has no way among the ways
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kGood, "shoal-0 on rack1: 2 I/O threads")));
  seen.servers.mutable_servers()->RemoveLast();
  seen.ways.clear();
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kWarning, "no server is live", "shoal-server --scheduler")));
}

TEST(DoctorTest, VersionsAndClocksThatDifferAreWarnedOf) {
  Examination seen = Healthy();
  seen.cluster.set_software_version("9.9.9");
  EXPECT_THAT(Judge(seen), AllOf(Contains(Is("scheduler", Verdict::kWarning, "its version is 9.9.9")),
                                 Contains(Is("version", Verdict::kWarning, "the scheduler 9.9.9"))));
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
  seen.ways[1].path_mtu = 1450;
  EXPECT_THAT(Judge(seen), Contains(Is("mtu", Verdict::kWarning, "the way to 10.0.0.11:4568 only 1450", "tunnel")));
  seen = Healthy();
  for (Way& way : seen.ways) way.device_mtu = way.path_mtu = 1500;
  EXPECT_THAT(Judge(seen), Contains(Is("mtu", Verdict::kWarning, "MTU of 1500", "9000")));
  for (Way& way : seen.ways) way.device_mbit = 1000;
  EXPECT_THAT(Judge(seen), Contains(Is("mtu", Verdict::kGood, "eth0: 1500 bytes, 1000 Mbit/s")));
}

TEST(DoctorTest, TcpIsJudgedWhereTheDataLeavesTheNode) {
  Examination seen = Healthy();
  seen.node.congestion_control = "bbr";
  seen.node.slow_start_after_idle = true;
  EXPECT_THAT(Judge(seen),
              AllOf(Contains(Is("tcp", Verdict::kWarning, "is bbr", "cubic")),
                    Contains(Is("tcp", Verdict::kWarning, "after each pause", "slow_start_after_idle=0"))));
  for (Way& way : seen.ways) way.within_node = true;
  EXPECT_THAT(Judge(seen), Not(Contains(Field("check", &Finding::check, "tcp"))));
}

TEST(DoctorTest, LimitsOfAProcessAreCompared) {
  Examination seen = Healthy();
  seen.node.open_files = 1024;
  EXPECT_THAT(Judge(seen), Contains(Is("limits", Verdict::kWarning, "1024 files", "ulimit -n 4096")));
  seen.node.open_files = UINT64_MAX;
  EXPECT_THAT(Judge(seen), Contains(Is("limits", Verdict::kGood, "any number of files")));
}

TEST(DoctorTest, RdmaDevicesWantLockedMemoryAndServersThatUseThem) {
  Examination seen = Healthy();
  seen.node.rdma_devices = {"mlx5_0", "mlx5_1"};
  seen.node.lockable_bytes = 65536;
  EXPECT_THAT(Judge(seen),
              Contains(Is("rdma", Verdict::kProblem, "mlx5_0, mlx5_1: a process may lock only 64.0 KiB", "memlock")));
  seen.node.lockable_bytes = UINT64_MAX;
  EXPECT_THAT(Judge(seen), Contains(Is("rdma", Verdict::kWarning, "move data by tcp", "--transports rc,tcp")));
  seen.servers.mutable_servers(0)->set_transports("rc_verbs");
  EXPECT_THAT(Judge(seen), Contains(Is("rdma", Verdict::kGood, "mlx5_0, mlx5_1")));
}

TEST(DoctorTest, TheJsonHoldsWhatTheTextDoes) {
  Examination seen = Healthy();
  seen.servers.mutable_servers(0)->set_name("a \"quoted\" name");
  const std::string json = FindingsJson(Judge(seen));
  google::protobuf::ListValue list;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &list).ok()) << json;
  ASSERT_EQ(list.values_size(), static_cast<int>(Judge(seen).size()));
  const auto& fields = list.values(2).struct_value().fields();
  EXPECT_EQ(fields.at("check").string_value(), "server");
  EXPECT_EQ(fields.at("verdict").string_value(), "good");
  EXPECT_THAT(fields.at("text").string_value(), HasSubstr("a \"quoted\" name"));
}

TEST(WaysTest, TellReachedAddressesFromOthersInTheOrderGiven) {
  const LoopbackSocket listening(true);
  const LoopbackSocket silent(false);
  const std::vector<Way> ways = TryWays({silent.address(), listening.address(), "not an address"}, kTimeoutMs);
  ASSERT_EQ(ways.size(), 3u);
  EXPECT_EQ(ways[0].address, silent.address());
  EXPECT_TRUE(absl::IsUnavailable(ways[0].reached));
  EXPECT_THAT(std::string(ways[0].reached.message()), HasSubstr("refused"));
  EXPECT_TRUE(ways[1].reached.ok()) << ways[1].reached;
  EXPECT_GT(ways[1].connect_ns, 0u);
  EXPECT_EQ(ways[1].device, "lo");
  EXPECT_TRUE(ways[1].within_node);
  EXPECT_GT(ways[1].path_mtu, 0u);
  EXPECT_TRUE(absl::IsInvalidArgument(ways[2].reached));
}

TEST(WaysTest, GiveUpWhenTheTimeIsOver) {
  // Nobody accepts: when the queue of the listener is full, the kernel leaves those that come later without an answer.
  const LoopbackSocket listening(true);
  const std::vector<std::string> many(64, listening.address());
  const std::vector<Way> ways = TryWays(many, 200);
  EXPECT_TRUE(ways.front().reached.ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(ways.back().reached)) << ways.back().reached;
  EXPECT_THAT(std::string(ways.back().reached.message()), HasSubstr("no answer within 200 ms"));
}

TEST(NodeSettingsTest, AreReadFromTheKernelsFiles) {
  const std::string root = testing::TempDir() + "doctor_root/";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "proc/sys/net/ipv4");
  std::filesystem::create_directories(root + "sys/class/infiniband/mlx5_1");
  std::filesystem::create_directories(root + "sys/class/infiniband/mlx5_0");
  std::ofstream(root + "proc/sys/net/ipv4/tcp_congestion_control") << "bbr\n";
  std::ofstream(root + "proc/sys/net/ipv4/tcp_slow_start_after_idle") << "1\n";
  const NodeSettings settings = ReadNodeSettings(root);
  EXPECT_EQ(settings.congestion_control, "bbr");
  EXPECT_TRUE(settings.slow_start_after_idle);
  EXPECT_THAT(settings.rdma_devices, ElementsAre("mlx5_0", "mlx5_1"));
  EXPECT_GT(settings.open_files, 0u);
  const NodeSettings nothing = ReadNodeSettings(root + "nothing/");
  EXPECT_EQ(nothing.congestion_control, "");
  EXPECT_THAT(nothing.rdma_devices, IsEmpty());
  std::filesystem::remove_all(root);
}

class DoctorCommandTest : public ::testing::Test {
 protected:
  DoctorCommandTest() {
    SchedulerConfig config;
    config.listen = "127.0.0.1:0";
    config.lease_ttl_ms = 60'000;
    auto scheduler = Scheduler::Start(config);
    EXPECT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
  }

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
    const auto no_environment = [](const std::string&) -> std::optional<std::string> { return std::nullopt; };
    return RunShoalctl(arguments, no_environment, out_, err_);
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(DoctorCommandTest, EndsWellWhereTheServerIsReached) {
  const LoopbackSocket server(true);
  AddServer(server.address());
  EXPECT_EQ(Run(), kExitOk) << out_.str() << err_.str();
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("shoal-0 on rack1: 1 I/O thread reached"), HasSubstr("0 problems")));
  EXPECT_THAT(out_.str(), HasSubstr("ms of the scheduler's")) << "it says what time the scheduler has";
}

TEST_F(DoctorCommandTest, FailsWhereItIsNot) {
  const LoopbackSocket server(false);
  AddServer(server.address());
  EXPECT_EQ(Run(), kExitFailure);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("problem  server"), HasSubstr("can't be reached at " + server.address())));
  EXPECT_THAT(err_.str(), HasSubstr("1 problem found"));
  EXPECT_EQ(Run({"--json"}), kExitFailure);
  google::protobuf::ListValue list;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(out_.str(), &list).ok()) << out_.str();
}

}  // namespace
}  // namespace shoal::cli
