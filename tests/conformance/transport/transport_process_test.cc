// Real processes that are killed or stopped at the worst moments. The clauses are those of net/transport.h.
#include "tests/conformance/peer_process.h"
#include "tests/conformance/transport/transports_of_processes.h"

namespace shoal {
namespace {

class TransportProcessTest : public testing::TestWithParam<TransportKind> {
 protected:
  TransportProcessTest() : node_(std::make_unique<Node>(GetParam().make({}))) {}

  // Starts a peer and waits until it is connected.
  PeerId StartPeer(const std::string& mode) {
    process_ = std::make_unique<PeerProcess>(
        std::vector<std::string>{SHOAL_TRANSPORT_PEER, node_->transport().listen_address(), mode, GetParam().name});
    EXPECT_TRUE(PollUntil("the peer", [&] { return node_->Count(TransportEventKind::kPeerUp) == 1; }));
    return node_->LastPeer();
  }

  // Tells a peer that was started as "stop" to stop its own process, and waits until it has.
  void Stop(PeerId peer) {
    ASSERT_TRUE(node_->transport().SendNote(peer, AsBytes("stop")).ok());
    ASSERT_TRUE(PollUntil("the stop", [&] { return process_->IsStopped(); }));
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

  std::unique_ptr<Node> node_;
  std::unique_ptr<PeerProcess> process_;  // ends before the node
};

INSTANTIATE_TEST_SUITE_P(Ucx, TransportProcessTest, testing::ValuesIn(UcxOfProcesses()), TransportKindName);
INSTANTIATE_TEST_SUITE_P(Tcp, TransportProcessTest, testing::ValuesIn(TcpOfProcesses()), TransportKindName);

TEST_P(TransportProcessTest, T1KilledBetweenOfferAndAccept) {
  const PeerId peer = StartPeer("offer");
  ASSERT_TRUE(PollUntil("an offer", [&] { return node_->Count(TransportEventKind::kOffered) > 0; }));
  process_->Kill();
  // We don't know of it yet.
  for (const Node::Seen& offer : node_->All(TransportEventKind::kOffered)) node_->Accept(offer);
  ASSERT_TRUE(PollUntil("the end", [&] { return node_->IsDown(peer); }));
  EXPECT_EQ(node_->landings_in_flight(), 0u);
  EXPECT_GT(node_->received().size(), 0u);
  node_->ExpectPeerOrder();
  EXPECT_TRUE(absl::IsUnavailable(node_->WhyDown(peer))) << node_->WhyDown(peer);
}

TEST_P(TransportProcessTest, T1SenderKilledInMidTransfer) {
  node_->AcceptAll();
  const PeerId peer = StartPeer("offer");
  ASSERT_TRUE(PollUntil("a payload", [&] { return node_->received().size() > 0; }));
  process_->Kill();
  ASSERT_TRUE(PollUntil("the end", [&] { return node_->IsDown(peer); }));
  EXPECT_EQ(node_->landings_in_flight(), 0u);
  const Bytes expected(4 << 20, std::byte{0x5a});
  for (const Node::Received& received : node_->received()) {
    EXPECT_TRUE(!received.status.ok() || received.payload == expected);
  }
  node_->ExpectPeerOrder();
}

TEST_P(TransportProcessTest, T1ReceiverKilledInMidTransfer) {
  const PeerId peer = StartPeer("accept");
  const Bytes payload = Pattern(4 << 20, 1);
  for (uint64_t i = 1; i <= 30; ++i) ASSERT_TRUE(node_->transport().Send(peer, {}, payload, i).ok());
  ASSERT_TRUE(PollUntil("progress", [&] { return node_->Count(TransportEventKind::kSent) > 0; }));
  process_->Kill();
  ASSERT_TRUE(PollUntil("the end", [&] { return node_->IsDown(peer); }));
  node_->ExpectEachSentOnce(30);
  node_->ExpectPeerOrder();
}

TEST_P(TransportProcessTest, T8StoppedPeerThenCloseKeepsT1) {
  const PeerId peer = StartPeer("stop");
  ASSERT_NO_FATAL_FAILURE(Stop(peer));
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

TEST_P(TransportProcessTest, T1DestructorDoesNotWaitForAStoppedPeer) {
  const PeerId peer = StartPeer("stop");
  ASSERT_NO_FATAL_FAILURE(Stop(peer));
  auto payload = std::make_unique<Bytes>(Pattern(4 << 20, 1));
  for (uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(node_->transport().Send(peer, {}, *payload, i).ok());
  const auto begin = std::chrono::steady_clock::now();
  node_->Destroy();
  payload.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

}  // namespace
}  // namespace shoal
