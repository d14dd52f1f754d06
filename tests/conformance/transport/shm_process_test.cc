// Real processes of this node that are killed or stopped in the middle of traffic. Clauses as in net/transport.h.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <thread>

#include "net/shm/same_node_socket.h"
#include "net/wake_up.h"
#include "tests/conformance/forbidden_call.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/transport/shm_under_test.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {
namespace {

// A death is noticed at once; this is for a machine that is busy with something else.
constexpr auto kAtOnce = std::chrono::seconds(5);

class ShmProcess : public testing::Test {
 protected:
  static constexpr size_t kRegionBytes = 512 << 10;

  ShmProcess()
      : region_(*OwnedMemory::Make("test-region", kRegionBytes)),
        node_(MakeShmUnderTest({.listen_address = NextAddress(), .arena_bytes = 8 << 20, .region = region_.get()})) {
    const Bytes content = Pattern(kRegionBytes, 1);
    std::ranges::copy(content, region_->bytes().begin());
  }

  std::unique_ptr<PeerProcess> MakePeer(const std::string& mode) {
    return std::make_unique<PeerProcess>(
        std::vector<std::string>{SHOAL_SAME_NODE_PEER, node_.transport().listen_address(), mode});
  }

  PeerId Start(const char* mode) {
    process_ = MakePeer(mode);
    EXPECT_TRUE(PollUntil([&] { return node_.Count(TransportEventKind::kPeerUp) == 1; }));
    return node_.LastPeer();
  }

  bool PollUntil(const std::function<bool()>& done,
                 std::chrono::steady_clock::duration within = std::chrono::seconds(30)) {
    const auto deadline = std::chrono::steady_clock::now() + within;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      node_.Poll();
      TakeOffers();
      sched_yield();
    }
    return true;
  }

  // Accepts and borrows in turn; a loan is returned when the sixth after it is taken.
  void TakeOffers() {
    for (; looked_at_ < node_.seen().size(); ++looked_at_) {
      const Node::Seen seen = node_.seen()[looked_at_];
      if (seen.event.kind != TransportEventKind::kOffered) continue;
      const std::byte* const data = ++offers_ % 2 == 0 ? node_.transport().lender()->Borrow(seen.event.offer) : nullptr;
      if (data == nullptr) {
        node_.Accept(seen);
        continue;
      }
      loans_.push_back({seen.event.offer, data, Bytes(seen.event.payload_bytes, std::byte{0x5a})});
      if (loans_.size() > 6) ReturnFirst();
    }
  }

  void ReturnFirst() {
    EXPECT_TRUE(loans_.front().IsIntact());
    node_.transport().lender()->Return(loans_.front().offer);
    loans_.erase(loans_.begin());
  }

  void ExpectReceivedIsWhole() const {
    for (const Node::Received& received : node_.received()) {
      if (!received.status.ok()) continue;
      ASSERT_TRUE(std::ranges::all_of(received.payload, [](std::byte byte) { return byte == std::byte{0x5a}; }));
    }
  }

  std::unique_ptr<OwnedMemory> region_;
  Node node_;
  std::unique_ptr<PeerProcess> process_;
  size_t looked_at_ = 0;
  uint64_t offers_ = 0;
  std::vector<Loan> loans_;
};

class ShmSenderProcess : public ShmProcess, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, ShmSenderProcess, testing::Values("send", "region", "fork"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ShmSenderProcess, KilledInMidTrafficIsNoticedAtOnce) {
  const PeerId peer = Start(GetParam());
  ASSERT_TRUE(PollUntil([&] { return node_.received().size() > 200; }));
  process_->Kill();
  ASSERT_TRUE(PollUntil([&] { return node_.IsDown(peer); }, kAtOnce));
  EXPECT_TRUE(absl::IsUnavailable(node_.WhyDown(peer))) << node_.WhyDown(peer);
  EXPECT_EQ(node_.landings_in_flight(), 0u);
  node_.ExpectPeerOrder();
  ExpectReceivedIsWhole();
  // What it lent outlives it.
  while (!loans_.empty()) ReturnFirst();
}

TEST_P(ShmSenderProcess, KilledWhileStoppedIsNoticedAtOnce) {
  const PeerId peer = Start(GetParam());
  ASSERT_TRUE(PollUntil([&] { return node_.received().size() > 20; }));
  process_->Send(SIGSTOP);
  ASSERT_TRUE(PollUntil([&] { return process_->IsStopped(); }));
  PollUntil([] { return false; }, std::chrono::milliseconds(50));
  EXPECT_FALSE(node_.IsDown(peer)) << "T8: silence is not death";
  process_->Kill();
  ASSERT_TRUE(PollUntil([&] { return node_.IsDown(peer); }, kAtOnce));
  node_.ExpectPeerOrder();
}

// As a training program that starts a DataLoader's workers while it is connected.
class ForkedChild {
 public:
  ForkedChild() : process_(fork()) {
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause();
    _exit(0);
  }
  ~ForkedChild() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

 private:
  const pid_t process_;
};

class ShmPeerEnd : public ShmProcess, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ends, ShmPeerEnd, testing::Values("killed", "closed"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ShmPeerEnd, LetsTheLoopSleepAlthoughAForkedChildHasCopiesOfEverything) {
  const PeerId peer = Start("accept");
  const ForkedChild child;
  GetParam() == std::string("killed") ? process_->Kill() : node_.transport().Close(peer);
  ASSERT_TRUE(PollUntil([&] { return node_.IsDown(peer); }, kAtOnce));
  EXPECT_TRUE(PollUntil(
      [&] { return node_.transport().Arm() && !WaitReadable({node_.transport().wake_fd()}, /*timeout_ns=*/0); },
      kAtOnce));
}

TEST_F(ShmProcess, ReceiverKilledInMidTrafficIsNoticedAtOnceAndEverySendEnds) {
  const PeerId peer = Start("accept");
  const Bytes payload = Pattern(400'000, 1);
  uint64_t sent = 0;
  const auto send_more = [&] {
    while (sent - node_.Count(TransportEventKind::kSent) < 30) {
      const std::span<const std::byte> what = sent % 3 == 0 ? region_->bytes() : std::span<const std::byte>(payload);
      if (!node_.transport().Send(peer, {}, what, sent + 1).ok()) return;
      ++sent;
    }
  };
  ASSERT_TRUE(PollUntil([&] {
    send_more();
    return node_.Count(TransportEventKind::kSent) > 200;
  }));
  process_->Kill();
  send_more();
  ASSERT_TRUE(PollUntil([&] { return node_.IsDown(peer); }, kAtOnce));
  node_.ExpectEachSentOnce(sent);
  node_.ExpectPeerOrder();
  EXPECT_TRUE(absl::IsUnavailable(node_.WhyDown(peer))) << node_.WhyDown(peer);
}

// It holds loans when it dies, and the memory that was lent is used again.
TEST_F(ShmProcess, MemoryThatADeadProcessHadBorrowedIsUsedAgain) {
  for (int round = 0; round < 3; ++round) {
    process_ = MakePeer("accept");
    const size_t peers = static_cast<size_t>(round) + 1;
    ASSERT_TRUE(PollUntil([&] { return node_.Count(TransportEventKind::kPeerUp) == peers; }));
    const PeerId peer = node_.LastPeer();
    process_->Send(SIGSTOP);
    ASSERT_TRUE(PollUntil([&] { return process_->IsStopped(); }));
    // More than the arena holds: the rest waits for what a stopped process won't return.
    const Bytes payload = Pattern(1 << 20, 1);
    const size_t sent_before = node_.Count(TransportEventKind::kSent);
    for (uint64_t i = 1; i <= 12; ++i) ASSERT_TRUE(node_.transport().Send(peer, {}, payload, 100 * peers + i).ok());
    PollUntil([] { return false; }, std::chrono::milliseconds(20));
    EXPECT_EQ(node_.Count(TransportEventKind::kSent), sent_before + 8);
    process_->Kill();
    ASSERT_TRUE(PollUntil([&] { return node_.IsDown(peer); }, kAtOnce));
    EXPECT_EQ(node_.Count(TransportEventKind::kSent), sent_before + 12);
  }
  node_.ExpectPeerOrder();
}

TEST_F(ShmProcess, AProcessThatItMayNotConnectToIsLeftToTheNetwork) {
  absl::Status status;
  std::thread([&] {
    ForbidThisThread(SYS_connect, EACCES);
    status = (*MakeShmTransport({}))->ConnectIfOnThisNode(node_.transport().listen_address()).status();
  }).join();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

// Connects to the Unix socket of `address`, unlike ConnectOnThisNode without looking who listens there, and says a
// byte. True if it is hung up on.
bool IsHungUpOn(const std::string& address) {
  const int stranger = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "shoal-" + address;
  std::ranges::copy(text, name.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (connect(stranger, reinterpret_cast<const sockaddr*>(&name), length) != 0) return false;
  char byte = 1;
  send(stranger, &byte, sizeof(byte), MSG_NOSIGNAL);
  return recv(stranger, &byte, sizeof(byte), 0) <= 0;
}

// The fall-back to the network is in combined_transport_test.cc.
TEST_F(ShmProcess, AnotherUsersProcessIsTurnedAway) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const std::string address = node_.transport().listen_address();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (setresuid(65534, 65534, 65534) != 0) _exit(2);
    if (!absl::IsNotFound(ConnectOnThisNode(address).status())) _exit(3);
    _exit(IsHungUpOn(address) ? 0 : 4);
  }
  int status = 0;
  ASSERT_TRUE(PollUntil([&] { return waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(node_.seen().empty());
}

}  // namespace
}  // namespace shoal
