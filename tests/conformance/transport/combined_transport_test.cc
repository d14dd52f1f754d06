// The transport that the product runs on: sockets between nodes, shared memory within one, here over the loopback
// device.
#include "net/data_plane/combined_transport.h"

#include <atomic>
#include <thread>

#include "net/data_plane/data_plane.h"
#include "tests/conformance/peer_process.h"
#include "tests/conformance/transport/tcp_under_test.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

std::unique_ptr<Transport> MakeDataPlane(const TransportSetup& setup, bool same_node) {
  DataPlaneOptions options;
  if (setup.listen) options.network.listen_ip = "127.0.0.1";
  options.network.net_device = "lo";
  options.network.limits = setup.limits;
  options.keys = TcpUnderTest(false).keys;
  options.same_node = same_node;
  absl::StatusOr<std::unique_ptr<Transport>> transport = MakeDataPlaneTransport(options);
  EXPECT_TRUE(transport.ok()) << transport.status();
  return transport.ok() ? *std::move(transport) : nullptr;
}

TransportKind DataPlaneKind() {
  return {.name = "DataPlane",
          .make = [](const TransportSetup& setup) { return MakeDataPlane(setup, true); },
          .lends = true};
}

INSTANTIATE_TEST_SUITE_P(DataPlane, TransportSuite, testing::Values(DataPlaneKind()), TransportKindName);
INSTANTIATE_TEST_SUITE_P(DataPlane, TransportWakeSuite, testing::Values(DataPlaneKind()), TransportKindName);

bool IsBySharedMemory(PeerId peer) { return peer.value() >= kSameNodeFirstId; }

bool PollUntil(std::initializer_list<Node*> nodes, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    for (Node* node : nodes) node->Poll();
    sched_yield();
  }
  return true;
}

TEST(CombinedTransport, TakesSharedMemoryByItselfUnlessOneSideIsToldNotTo) {
  for (const bool connector_may : {true, false}) {
    for (const bool listener_may : {true, false}) {
      Node connector(MakeDataPlane({.listen = false}, connector_may));
      Node listener(MakeDataPlane({}, listener_may));
      const PeerId peer = *connector.transport().Connect(listener.transport().listen_address());
      ASSERT_TRUE(PollUntil({&connector, &listener},
                            [&] { return connector.IsUp(peer) && listener.Count(TransportEventKind::kPeerUp) == 1; }));
      EXPECT_EQ(IsBySharedMemory(peer), connector_may && listener_may);
      EXPECT_EQ(IsBySharedMemory(listener.LastPeer()), connector_may && listener_may);
      const size_t by_shared_memory = connector_may && listener_may ? 1 : 0;
      EXPECT_EQ(connector.transport().Report({}).shared_memory_peers, by_shared_memory);
      EXPECT_EQ(listener.transport().Report({}).shared_memory_peers, by_shared_memory);
      EXPECT_EQ(connector.transport().Report({}).description.find("shared memory") != std::string::npos, connector_may);
    }
  }
}

// One hub with a peer on either side: payloads of all sizes both ways at once, and then one of them goes.
TEST(CombinedTransport, PeersOnBothSidesAreServedTogether) {
  Node hub(MakeDataPlane({}, true));
  Node near(MakeDataPlane({.listen = false}, true));
  Node far(MakeDataPlane({.listen = false}, false));
  for (Node* node : {&hub, &near, &far}) node->AcceptAll();
  const PeerId near_to_hub = *near.transport().Connect(hub.transport().listen_address());
  ASSERT_TRUE(PollUntil({&hub, &near}, [&] { return hub.Count(TransportEventKind::kPeerUp) == 1; }));
  const PeerId hub_to_near = hub.LastPeer();
  const PeerId far_to_hub = *far.transport().Connect(hub.transport().listen_address());
  ASSERT_TRUE(PollUntil({&hub, &near, &far}, [&] {
    return hub.Count(TransportEventKind::kPeerUp) == 2 && near.IsUp(near_to_hub) && far.IsUp(far_to_hub);
  }));
  const PeerId hub_to_far = hub.LastPeer();
  ASSERT_TRUE(IsBySharedMemory(hub_to_near) && !IsBySharedMemory(hub_to_far));

  constexpr size_t kRounds = 40;
  std::vector<Bytes> payloads;
  for (size_t i = 0; i < kRounds; ++i) payloads.push_back(Pattern(kSomeSizes[i % kSomeSizes.size()], i));
  for (size_t i = 0; i < kRounds; ++i) {
    const std::string header = std::to_string(i);
    ASSERT_TRUE(near.transport().Send(near_to_hub, AsBytes(header), payloads[i], i + 1).ok());
    ASSERT_TRUE(far.transport().Send(far_to_hub, AsBytes(header), payloads[i], i + 1).ok());
    ASSERT_TRUE(hub.transport().Send(hub_to_near, AsBytes(header), payloads[i], 2 * i + 1).ok());
    ASSERT_TRUE(hub.transport().Send(hub_to_far, AsBytes(header), payloads[i], 2 * i + 2).ok());
  }
  ASSERT_TRUE(PollUntil({&hub, &near, &far}, [&] {
    return hub.received().size() == 2 * kRounds && near.received().size() == kRounds &&
           far.received().size() == kRounds && hub.Count(TransportEventKind::kSent) == 2 * kRounds;
  }));
  for (const Node* node : {&hub, &near, &far}) {
    for (const Node::Received& received : node->received()) {
      EXPECT_TRUE(received.status.ok()) << received.status;
      EXPECT_TRUE(received.payload == payloads[std::stoul(AsText(received.header))]);
    }
  }
  hub.ExpectEachSentOnce(2 * kRounds);

  // The end of one is none of the other's business.
  near.Destroy();
  ASSERT_TRUE(PollUntil({&hub, &far}, [&] { return hub.IsDown(hub_to_near); }));
  EXPECT_FALSE(hub.IsDown(hub_to_far));
  ASSERT_TRUE(hub.transport().SendNote(hub_to_far, AsBytes("still there")).ok());
  ASSERT_TRUE(PollUntil({&hub, &far}, [&] { return far.Count(TransportEventKind::kNote) == 1; }));
  far.Destroy();
  ASSERT_TRUE(PollUntil({&hub}, [&] { return hub.IsDown(hub_to_far); }));
  hub.ExpectPeerOrder();
}

// Sleeps between events, until `on_event` says that it is over or nothing came for longer than anything takes (false).
bool RunAsleep(Transport& transport, const std::function<bool(const TransportEvent&)>& on_event) {
  for (;;) {
    for (const TransportEvent& event : transport.Poll()) {
      if (on_event(event)) return true;
    }
    if (transport.Arm() && !WaitReadable({transport.wake_fd()}, 10'000'000'000)) return false;
  }
}

// A hub that answers notes of two peers, one on either side, each of which sends the next when it has an answer. All
// three sleep whenever they can.
TEST(CombinedTransport, NoEventIsLostWithBothSidesBusy) {
  constexpr int kRounds = 3000;
  const std::unique_ptr<Transport> hub = MakeDataPlane({}, true);
  const std::string address = hub->listen_address();
  std::atomic<bool> hub_ok = false;
  std::thread answering([&] {
    int gone = 0;
    RunAsleep(*hub, [&](const TransportEvent& event) {
      if (event.kind == TransportEventKind::kNote && !hub->SendNote(event.peer, event.bytes).ok()) return true;
      if (event.kind == TransportEventKind::kPeerDown) ++gone;
      return gone == 2;
    });
    hub_ok = gone == 2;
  });
  const auto ask = [&](bool same_node) {
    const std::unique_ptr<Transport> transport = MakeDataPlane({.listen = false}, same_node);
    const PeerId peer = *transport->Connect(address);
    EXPECT_EQ(IsBySharedMemory(peer), same_node);
    int rounds = 0;
    const bool answered = RunAsleep(*transport, [&](const TransportEvent& event) {
      if (event.kind != TransportEventKind::kPeerUp && event.kind != TransportEventKind::kNote) return false;
      if (++rounds == kRounds) return true;
      EXPECT_TRUE(transport->SendNote(peer, AsBytes("ask")).ok());
      return false;
    });
    EXPECT_TRUE(answered) << "an event was lost after " << rounds << " rounds, same node: " << same_node;
  };
  std::thread near([&] { ask(true); });
  ask(false);
  near.join();
  answering.join();
  EXPECT_TRUE(hub_ok);
}

// As the product's processes connect: the same user's by shared memory, another's over the network.
TEST(CombinedTransport, AnotherUsersProcessTakesTheNetwork) {
  Node hub(MakeDataPlane({}, true));
  hub.AcceptAll();
  const std::string address = hub.transport().listen_address();
  {
    const PeerProcess ours({SHOAL_SAME_NODE_PEER, address, "send"});
    ASSERT_TRUE(PollUntil({&hub}, [&] { return hub.received().size() > 10; }));
    EXPECT_TRUE(IsBySharedMemory(hub.LastPeer()));
  }
  ASSERT_TRUE(PollUntil({&hub}, [&] { return hub.IsDown(hub.LastPeer()); }));
  if (geteuid() != 0) GTEST_SKIP() << "only root can start another user's process";
  const size_t before = hub.received().size();
  const PeerProcess another({SHOAL_SAME_NODE_PEER, address, "send", "65534"});
  ASSERT_TRUE(PollUntil({&hub}, [&] { return hub.received().size() > before + 10; }));
  EXPECT_FALSE(IsBySharedMemory(hub.LastPeer()));
}

}  // namespace
}  // namespace shoal
