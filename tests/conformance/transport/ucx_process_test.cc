// Real processes that are killed or stopped at the worst moments. The clauses are those of net/transport.h.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/conformance/transport/transport_harness.h"
#include "tests/conformance/transport/ucx_under_test.h"

namespace shoal {
namespace {

struct Protocol {
  std::string name;
  size_t rendezvous_threshold_bytes;

  friend std::ostream& operator<<(std::ostream& out, const Protocol& protocol) { return out << protocol.name; }
};

class UcxProcessTest : public testing::TestWithParam<Protocol> {
 protected:
  UcxProcessTest() {
    UcxTransportOptions options = UcxUnderTest();
    options.rendezvous_threshold_bytes = GetParam().rendezvous_threshold_bytes;
    absl::StatusOr<std::unique_ptr<Transport>> transport = MakeUcxTransport(options);
    EXPECT_TRUE(transport.ok()) << transport.status();
    node_ = std::make_unique<Node>(*std::move(transport));
  }

  ~UcxProcessTest() override { Kill(); }

  // Starts a peer and waits until it is connected.
  PeerId StartPeer(const char* mode) {
    const std::string address = node_->transport().listen_address();
    const std::string threshold = std::to_string(GetParam().rendezvous_threshold_bytes);
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      // Our sockets: a copy of one in the child would keep its connection alive.
      close_range(3, ~0u, 0);
      execl(SHOAL_TRANSPORT_PEER, SHOAL_TRANSPORT_PEER, address.c_str(), mode, threshold.c_str(), nullptr);
      _exit(1);
    }
    EXPECT_TRUE(PollUntil("the peer", [&] { return node_->Count(TransportEventKind::kPeerUp) == 1; }));
    return node_->LastPeer();
  }

  void Kill() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

  bool PollUntil(const std::string& what, const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "waited in vain for: " << what;
        return false;
      }
      node_->Poll();
      sched_yield();
    }
    return true;
  }

  pid_t process_ = 0;
  std::unique_ptr<Node> node_;
};

INSTANTIATE_TEST_SUITE_P(UcxTcp, UcxProcessTest,
                         testing::Values(Protocol{"Rendezvous", 0}, Protocol{"Eager", SIZE_MAX}),
                         [](const auto& test) { return test.param.name; });

TEST_P(UcxProcessTest, T1KilledBetweenOfferAndAccept) {
  const PeerId peer = StartPeer("offer");
  ASSERT_TRUE(PollUntil("an offer", [&] { return node_->Count(TransportEventKind::kOffered) > 0; }));
  Kill();
  // We don't know of it yet.
  for (const Node::Seen& offer : node_->All(TransportEventKind::kOffered)) node_->Accept(offer);
  ASSERT_TRUE(PollUntil("the end", [&] { return node_->IsDown(peer); }));
  EXPECT_EQ(node_->landings_in_flight(), 0u);
  EXPECT_GT(node_->received().size(), 0u);
  node_->ExpectPeerOrder();
  EXPECT_TRUE(absl::IsUnavailable(node_->WhyDown(peer))) << node_->WhyDown(peer);
}

TEST_P(UcxProcessTest, T1SenderKilledInMidTransfer) {
  node_->AcceptAll();
  const PeerId peer = StartPeer("offer");
  ASSERT_TRUE(PollUntil("a payload", [&] { return node_->received().size() > 0; }));
  Kill();
  ASSERT_TRUE(PollUntil("the end", [&] { return node_->IsDown(peer); }));
  EXPECT_EQ(node_->landings_in_flight(), 0u);
  const Bytes expected(4 << 20, std::byte{0x5a});
  for (const Node::Received& received : node_->received()) {
    EXPECT_TRUE(!received.status.ok() || received.payload == expected);
  }
  node_->ExpectPeerOrder();
}

TEST_P(UcxProcessTest, T1ReceiverKilledInMidTransfer) {
  const PeerId peer = StartPeer("accept");
  const Bytes payload = Pattern(4 << 20, 1);
  for (uint64_t i = 1; i <= 30; ++i) ASSERT_TRUE(node_->transport().Send(peer, {}, payload, i).ok());
  ASSERT_TRUE(PollUntil("progress", [&] { return node_->Count(TransportEventKind::kSent) > 0; }));
  Kill();
  ASSERT_TRUE(PollUntil("the end", [&] { return node_->IsDown(peer); }));
  node_->ExpectEachSentOnce(30);
  node_->ExpectPeerOrder();
}

TEST_P(UcxProcessTest, T8StoppedPeerThenCloseKeepsT1) {
  const PeerId peer = StartPeer("stop");
  ASSERT_TRUE(node_->transport().SendNote(peer, AsBytes("stop")).ok());
  ASSERT_TRUE(PollUntil("the stop", [&] {
    int status = 0;
    return waitpid(process_, &status, WUNTRACED | WNOHANG) == process_ && WIFSTOPPED(status);
  }));
  const Bytes payload = Pattern(4 << 20, 1);
  for (uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(node_->transport().Send(peer, {}, payload, i).ok());
  for (int i = 0; i < 1000; ++i) node_->Poll();
  EXPECT_FALSE(node_->IsDown(peer));
  EXPECT_LT(node_->Count(TransportEventKind::kSent), 20u);
  node_->transport().Close(peer);
  ASSERT_TRUE(PollUntil("the end", [&] { return node_->IsDown(peer); }));
  node_->ExpectEachSentOnce(20);
  node_->ExpectPeerOrder();
}

TEST_P(UcxProcessTest, T1DestructorDoesNotWaitForAStoppedPeer) {
  const PeerId peer = StartPeer("stop");
  ASSERT_TRUE(node_->transport().SendNote(peer, AsBytes("stop")).ok());
  ASSERT_TRUE(PollUntil("the stop", [&] {
    int status = 0;
    return waitpid(process_, &status, WUNTRACED | WNOHANG) == process_ && WIFSTOPPED(status);
  }));
  auto payload = std::make_unique<Bytes>(Pattern(4 << 20, 1));
  for (uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(node_->transport().Send(peer, {}, *payload, i).ok());
  const auto begin = std::chrono::steady_clock::now();
  node_->Destroy();
  payload.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

}  // namespace
}  // namespace shoal
