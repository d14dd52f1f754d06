// Network devices that come up after the transport was made: UCX looks for devices once. In a network namespace of its
// own.
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "net/ucx/ucx_transport.h"
#include "net/wake_up.h"
#include "process/node_address.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {
namespace {

constexpr size_t kOfTheFirstWorker = 2;  // event polls: its own, lo's
constexpr size_t kOfTheLateWorker = 3;   // its own, lo's, late's

constexpr char kFirstIp[] = "127.0.0.1";
constexpr char kLateIp[] = "10.61.0.1";
constexpr char kLateIpv6[] = "fd00:61::1";

void Ip(const std::string& arguments) { EXPECT_EQ(std::system(("ip " + arguments).c_str()), 0) << arguments; }

TransportKind Tcp() {
  return {.name = "Tcp", .make = [](const TransportSetup&) { return *MakeUcxTransport({}); }, .lends = true};
}

// UCX has one for each worker and one for each device of it, and none for a connection.
size_t CountEventPolls() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::count_if(begin(all), end(all), [](const std::filesystem::directory_entry& entry) {
    std::error_code gone;  // the iterator's own
    return std::filesystem::read_symlink(entry.path(), gone) == "anon_inode:[eventpoll]";
  });
}

// The loopback device is up from the start. "late" has its address and no link.
class UcxLateDeviceTest : public TransportSuite {
 protected:
  // UCX lists the devices of /sys/class/net, which are those of the namespace that mounted it.
  static void SetUpTestSuite() {
    isolated_ = unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
                mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
    if (!isolated_) return;
    Ip("link set lo up");
    Ip("link add late type veth peer name other");
    Ip(absl::StrCat("address add ", kLateIp, "/24 dev late"));
    Ip(absl::StrCat("address add ", kLateIpv6, "/64 dev late"));
    Ip("link set late up");
  }

  void SetUp() override {
    if (isolated_) return Plug("down");
    const char* const ci = std::getenv("CI");
    ASSERT_FALSE(ci != nullptr && std::string(ci) == "true") << "with CI=true this must be tested";
    GTEST_SKIP() << "LATE DEVICES ARE NOT TESTED: namespaces need root";
  }
  // "up": in; "down": out, which the kernel notices within a second.
  void Plug(const std::string& state) {
    Ip("link set other " + state);
    ASSERT_TRUE(PollUntil("the link to be " + state, [&] { return LacksLink("late") == (state == "down"); }));
  }

  Node& Connector(const std::string& net_device = "") {
    UcxTransportOptions options;
    options.net_device = net_device;
    return Make(options);
  }
  Node& ListenerAt(const std::string& ip) {
    UcxTransportOptions options;
    options.listen_ip = ip;
    Node& node = Make(options);
    node.AcceptAll();
    return node;
  }

  // Small and large: eager and rendezvous.
  void ExpectPayloadsPass(Node& from, PeerId peer, Node& to) {
    for (const size_t size : {size_t{100}, size_t{3} << 20}) {
      const size_t before = to.received().size();
      const Bytes& payload = Keep(Pattern(size, ++last_token_));
      ASSERT_TRUE(from.transport().Send(peer, {}, payload, last_token_).ok());
      ASSERT_TRUE(PollUntil("the payload", [&] { return to.received().size() > before; }));
      EXPECT_TRUE(to.received().back().status.ok()) << to.received().back().status;
      EXPECT_TRUE(to.received().back().payload == payload) << size << " bytes";
    }
  }

 private:
  static bool isolated_;

  Node& Make(const UcxTransportOptions& options) {
    absl::StatusOr<std::unique_ptr<Transport>> transport = MakeUcxTransport(options);
    EXPECT_TRUE(transport.ok()) << transport.status();
    return *nodes_.emplace_back(std::make_unique<Node>(*std::move(transport)));
  }
};

bool UcxLateDeviceTest::isolated_ = false;

INSTANTIATE_TEST_SUITE_P(Tcp, UcxLateDeviceTest, testing::Values(Tcp()), TransportKindName);

TEST_P(UcxLateDeviceTest, IsUsedByLaterConnectionsAndEarlierOnesGoOn) {
  Node& connector = Connector();
  Node& near = ListenerAt(kFirstIp);
  const Link first = ConnectNodes(connector, near);
  connector.AcceptAll();
  Plug("up");
  Node& far = ListenerAt(kLateIp);
  const Link late = ConnectNodes(connector, far);
  ASSERT_FALSE(HasFailure());
  ExpectPayloadsPass(connector, late.to_b, far);
  ExpectPayloadsPass(connector, first.to_b, near);
  ExpectPayloadsPass(near, first.to_a, connector);
}

TEST_P(UcxLateDeviceTest, WhatDoesNotKnowItGoesWithItsLastConnectionAndLoan) {
  Node& connector = Connector();
  Node& near = ListenerAt(kFirstIp);
  const Link first = ConnectNodes(connector, near);
  const std::vector<Loan> loans = SendAndBorrow(near, first.to_a, connector, 1);
  ASSERT_FALSE(loans.empty());
  Plug("up");
  Node& far = ListenerAt(kLateIp);
  const size_t before = CountEventPolls();
  const Link late = ConnectNodes(connector, far);
  connector.transport().Close(first.to_b);
  ASSERT_TRUE(PollUntil("the end", [&] { return connector.IsDown(first.to_b) && near.IsDown(first.to_a); }));
  PollFor(100);
  ExpectIntact(loans);
  EXPECT_EQ(CountEventPolls(), before + kOfTheLateWorker);
  Return(connector, loans);
  PollFor(100);
  EXPECT_EQ(CountEventPolls(), before + kOfTheLateWorker - kOfTheFirstWorker);
  ExpectPayloadsPass(connector, late.to_b, far);
  const Link again = ConnectNodes(connector, near);
  ExpectPayloadsPass(connector, again.to_b, near);
}

TEST_P(UcxLateDeviceTest, WhatDoesNotKnowItGoesAlsoWithoutALoan) {
  Node& connector = Connector();
  Node& near = ListenerAt(kFirstIp);
  const Link first = ConnectNodes(connector, near);
  Plug("up");
  Node& far = ListenerAt(kLateIp);
  const size_t before = CountEventPolls();
  const Link late = ConnectNodes(connector, far);
  EXPECT_EQ(CountEventPolls(), before + kOfTheLateWorker);
  connector.transport().Close(first.to_b);
  ASSERT_TRUE(PollUntil("the end", [&] { return connector.IsDown(first.to_b) && near.IsDown(first.to_a); }));
  PollFor(10);
  EXPECT_EQ(CountEventPolls(), before + kOfTheLateWorker - kOfTheFirstWorker);
  ExpectPayloadsPass(connector, late.to_b, far);
}

// A loop sleeps until its transport wakes it, whichever of its connections something comes over.
TEST_P(UcxLateDeviceTest, WakesForWhatComesOverEither) {
  Node& connector = Connector();
  Node& near = ListenerAt(kFirstIp);
  const Link first = ConnectNodes(connector, near);
  Plug("up");
  Node& far = ListenerAt(kLateIp);
  const Link late = ConnectNodes(connector, far);
  for (const auto& [from, to] : {std::pair(&near, first.to_a), std::pair(&far, late.to_a)}) {
    ASSERT_TRUE(PollUntil("quiet", [&] { return connector.transport().Arm(); }));
    EXPECT_FALSE(WaitReadable({connector.transport().wake_fd()}, 0));
    const size_t before = connector.Count(TransportEventKind::kNote);
    ASSERT_TRUE(from->transport().SendNote(to, AsBytes("wake up")).ok());
    from->Poll();
    ASSERT_TRUE(WaitReadable({connector.transport().wake_fd()}, 10'000'000'000));
    EXPECT_TRUE(PollUntil("the note", [&] { return connector.Count(TransportEventKind::kNote) > before; }));
  }
}

TEST_P(UcxLateDeviceTest, MayBeTheOneToConnectOver) {
  Node& connector = Connector("late");
  Node& near = ListenerAt(kFirstIp);
  const absl::StatusOr<PeerId> too_early = connector.transport().Connect(near.transport().listen_address());
  ASSERT_TRUE(too_early.ok()) << too_early.status();
  ASSERT_TRUE(PollUntil("the end", [&] { return connector.IsDown(*too_early); }));
  const absl::Status why = connector.WhyDown(*too_early);
  EXPECT_TRUE(absl::IsUnavailable(why)) << why;
  EXPECT_NE(why.message().find("network device late has no link"), std::string::npos) << why;
  const std::string description = connector.transport().Report({}).description;
  EXPECT_NE(description.find("no network device has a link"), std::string::npos) << description;
  Plug("up");
  Node& far = ListenerAt(kLateIp);
  const Link link = ConnectNodes(connector, far);
  ASSERT_FALSE(HasFailure());
  ExpectPayloadsPass(connector, link.to_b, far);
}

TEST_P(UcxLateDeviceTest, IsListenedOnAsSoonAsItHasALink) {
  for (const std::string ip : {kLateIp, kLateIpv6}) {
    for (const std::string transports : {"tcp", "all"}) {
      UcxTransportOptions options;
      options.listen_ip = ip;
      options.transports = transports;
      const absl::Status refused = MakeUcxTransport(options).status();
      EXPECT_TRUE(absl::IsUnavailable(refused)) << ip << ", " << transports << ": " << refused;
      EXPECT_NE(refused.message().find("network device late"), std::string::npos) << refused;
    }
  }
  Plug("up");
  for (const std::string ip : {kLateIp, kLateIpv6}) {
    UcxTransportOptions options;
    options.listen_ip = ip;
    absl::Status status;
    // For a second the kernel asks whether another node has the IPv6 address.
    ASSERT_TRUE(
        PollUntil("a listener", [&] { return !absl::IsUnavailable(status = MakeUcxTransport(options).status()); }));
    EXPECT_TRUE(status.ok()) << ip << ": " << status;
  }
}

}  // namespace
}  // namespace shoal
