// A path between two nodes that falls silent, while data is under way and while there is none. In network namespaces of
// its own.
#include "net/tcp/silent_path.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "core/now.h"
#include "net/peer_socket.h"
#include "process/file_descriptor.h"
#include "process/socket_address.h"
#include "tests/conformance/transport/tcp_under_test.h"

namespace shoal {
namespace {

using std::chrono::steady_clock;

// Two networks between the same two nodes: one falls silent, and the other doesn't.
constexpr char kNearIp[] = "10.63.0.1";
constexpr char kFarIp[] = "10.63.0.2";
constexpr char kOtherNearIp[] = "10.64.0.1";
constexpr char kOtherFarIp[] = "10.64.0.2";
// A network card that nobody has: what is sent to it is lost, and nobody is told.
constexpr char kNobodysCard[] = "02:00:00:00:00:99";

// The kernel tells a moment after it was set up that a card has its link: on a busy machine, after a while.
bool WaitForLink(const std::string& device) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  device.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
  for (int i = 0; i < 1000; ++i) {
    if (ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void Ip(const std::string& arguments) { EXPECT_EQ(std::system(("ip " + arguments).c_str()), 0) << arguments; }

// A node's network, which a thread can be in. The sockets that it makes stay there.
class Network {
 public:
  // The one that this thread is in.
  Network() : descriptor_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {}

  void Enter() const { EXPECT_EQ(setns(descriptor_.get(), CLONE_NEWNET), 0); }
  // For `ip`, which is a process of its own.
  std::string path() const { return absl::StrCat("/proc/", getpid(), "/fd/", descriptor_.get()); }

 private:
  FileDescriptor descriptor_;
};

class SilentPathTest : public TransportSuite {
 protected:
  void SetUp() override {
    home_ = std::make_unique<Network>();
    if (unshare(CLONE_NEWNET) != 0) {
      const char* const ci = std::getenv("CI");
      ASSERT_FALSE(ci != nullptr && std::string(ci) == "true") << "with CI=true this must be tested";
      GTEST_SKIP() << "SILENT PATHS ARE NOT TESTED: namespaces need root";
    }
    far_ = std::make_unique<Network>();
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    near_ = std::make_unique<Network>();
    Ip("link add near type veth peer name far");
    Ip(absl::StrCat("link set far netns ", far_->path()));
    Ip(absl::StrCat("address add ", kNearIp, "/24 dev near"));
    Ip(absl::StrCat("address add ", kOtherNearIp, "/24 dev near"));
    Ip("link set near up");
    far_->Enter();
    Ip(absl::StrCat("address add ", kFarIp, "/24 dev far"));
    Ip(absl::StrCat("address add ", kOtherFarIp, "/24 dev far"));
    Ip("link set far up");
    ASSERT_TRUE(WaitForLink("far"));
    near_->Enter();
    ASSERT_TRUE(WaitForLink("near"));
  }
  void TearDown() override {
    nodes_.clear();
    home_->Enter();
  }

  // A node at this test's own place, which is the near one.
  Node& MakeNode(const std::string& listen_ip = "") {
    TcpTransportOptions options = TcpUnderTest(GetParam().name == "Sealed");
    options.listen_ip = listen_ip;
    options.net_device.clear();
    return *nodes_.emplace_back(std::make_unique<Node>(MakeTcpUnderTest(options)));
  }
  Node& MakeFarNode(const std::string& listen_ip) {
    far_->Enter();
    Node& node = MakeNode(listen_ip);
    near_->Enter();
    return node;
  }

  void FallSilent() {
    Ip(absl::StrCat("neighbour replace ", kFarIp, " lladdr ", kNobodysCard, " dev near nud permanent"));
    far_->Enter();
    Ip(absl::StrCat("neighbour replace ", kNearIp, " lladdr ", kNobodysCard, " dev far nud permanent"));
    near_->Enter();
  }

  std::unique_ptr<Network> home_;
  std::unique_ptr<Network> far_;
  std::unique_ptr<Network> near_;
};
INSTANTIATE_TEST_SUITE_P(Tcp, SilentPathTest, testing::Values(TcpKind("Bare", false)), TransportKindName);

// All connections have their time together, as it is only waiting.
TEST_P(SilentPathTest, EndsItsConnectionsAndNoneWhosePeerOnlyDoesNotRead) {
  Node& near = MakeNode();
  Node& far = MakeFarNode(kFarIp);
  const Link sends = ConnectNodes(near, far);
  const Link is_sent_to = ConnectNodes(near, far);
  const Link is_idle = ConnectNodes(near, far);
  const Link does_not_read = ConnectNodes(near, MakeFarNode(kOtherFarIp));
  ASSERT_FALSE(HasFailure());
  std::unique_ptr<Node> reader = std::move(nodes_.back());
  nodes_.pop_back();

  // More than the kernels keep.
  const Bytes& large = Keep(Pattern(48 << 20, 1));
  ASSERT_TRUE(near.transport().Send(does_not_read.to_b, {}, large, 1).ok());
  const Bytes& small = Keep(Pattern(300'000, 2));
  ASSERT_TRUE(near.transport().Send(sends.to_b, {}, small, 2).ok());
  ASSERT_TRUE(far.transport().Send(is_sent_to.to_a, {}, small, 3).ok());
  far.AcceptAll();
  near.AcceptAll();
  ASSERT_TRUE(PollUntil("the payloads", [&] { return far.received().size() == 1 && near.received().size() == 1; }));
  FallSilent();
  const auto begin = steady_clock::now();
  ASSERT_TRUE(near.transport().Send(sends.to_b, {}, small, 4).ok());
  ASSERT_TRUE(far.transport().Send(is_sent_to.to_a, {}, small, 5).ok());
  const auto is_over = [&] {
    return std::array{near.IsDown(sends.to_b), far.IsDown(is_sent_to.to_a), near.IsDown(is_idle.to_b)};
  };
  ASSERT_TRUE(PollUntil("an end", [&] { return std::ranges::count(is_over(), true) > 0; }));
  // The last answers came before the path fell silent.
  EXPECT_GE(steady_clock::now() - begin, std::chrono::nanoseconds(kRankNoticesWithinNs) - std::chrono::seconds(1));
  ASSERT_TRUE(PollUntil("the ends", [&] { return std::ranges::count(is_over(), true) == 3; }));
  for (const absl::Status& why : {near.WhyDown(sends.to_b), far.WhyDown(is_sent_to.to_a), near.WhyDown(is_idle.to_b)}) {
    EXPECT_TRUE(absl::IsUnavailable(why)) << why;
    EXPECT_NE(why.ToString().find("has fallen silent"), std::string::npos) << why;
  }

  EXPECT_FALSE(near.IsDown(does_not_read.to_b)) << near.WhyDown(does_not_read.to_b);
  nodes_.push_back(std::move(reader));
  Node& reads = *nodes_.back();
  reads.AcceptAll();
  ASSERT_TRUE(PollUntil("the payload", [&] { return reads.received().size() == 1; }));
  EXPECT_TRUE(reads.received()[0].status.ok()) << reads.received()[0].status;
  EXPECT_TRUE(reads.received()[0].payload == large);
}

// One that was idle has had no answer for as long: that is no silence of its path.
TEST_P(SilentPathTest, CountsFromWhenSomethingIsUnderWay) {
  far_->Enter();
  const absl::StatusOr<FileDescriptor> listener = ListenOn(*MakeSocketAddress(kFarIp, 0));
  near_->Enter();
  ASSERT_TRUE(listener.ok()) << listener.status();
  const SocketAddress to = *ParseSocketAddress(BoundAddress(listener->get()));
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(socket.get(), to.get(), to.length), 0);
  EXPECT_EQ(StateOfPath(socket.get(), kNoDeadline), PathState::kIdle);
  FallSilent();
  ASSERT_EQ(write(socket.get(), "word", 4), 4);
  EXPECT_EQ(StateOfPath(socket.get(), kNoDeadline), PathState::kInUse);
  const auto until = steady_clock::now() + std::chrono::seconds(20);
  while (StateOfPath(socket.get(), kNoDeadline) != PathState::kSilent && steady_clock::now() < until) usleep(10'000);
  EXPECT_EQ(StateOfPath(socket.get(), kNoDeadline), PathState::kSilent);
  EXPECT_EQ(StateOfPath(socket.get(), kRankNoticesWithinNs), PathState::kSilent);
  EXPECT_EQ(StateOfPath(socket.get(), kRankNoticesWithinNs - kNsPerS), PathState::kInUse);
}

}  // namespace
}  // namespace shoal
