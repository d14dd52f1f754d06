// Transports at work: all sizes, many peers, many payloads in flight, bad addresses, sleeping and waking.

#include <atomic>
#include <random>
#include <thread>

#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

TEST_P(TransportSuite, SizesArriveIntact) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  a.AcceptAll();
  b.AcceptAll();
  std::vector<size_t> sizes = {1, 2, 3, 7, 8, 63, 64, 65, 1000};
  for (size_t power = 1024; power <= 4 << 20; power *= 2) sizes.insert(sizes.end(), {power - 1, power, power + 1});
  size_t count = 0;
  for (size_t size : sizes) {
    const Bytes& payload = Keep(Pattern(size, size));
    const std::string header = "header of " + std::to_string(size);
    ++count;
    ASSERT_TRUE(a.transport().Send(link.to_b, AsBytes(header), payload, count).ok());
    ASSERT_TRUE(b.transport().Send(link.to_a, AsBytes(header), payload, count).ok());
    ASSERT_TRUE(PollUntil(header, [&] {
      return a.received().size() == count && b.received().size() == count &&
             a.Count(TransportEventKind::kSent) == count && b.Count(TransportEventKind::kSent) == count;
    }));
    for (const Node* node : {&a, &b}) {
      EXPECT_TRUE(node->received().back().status.ok()) << node->received().back().status;
      EXPECT_EQ(AsText(node->received().back().header), header);
      EXPECT_TRUE(node->received().back().payload == payload) << size;
    }
  }
}

TEST_P(TransportSuite, ManyInFlightAreAnsweredInAnyOrder) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  std::mt19937_64 random(7);
  constexpr uint64_t kPayloads = 600;
  std::vector<Bytes> payloads;
  for (uint64_t i = 0; i < kPayloads; ++i)
    payloads.push_back(Pattern(1 + random() % (i % 10 == 0 ? 400'000 : 9000), i));
  for (uint64_t i = 0; i < kPayloads; ++i) {
    ASSERT_TRUE(a.transport().Send(link.to_b, AsBytes(std::to_string(i)), payloads[i], i + 1).ok());
  }
  size_t looked_at = 0;
  size_t declined = 0;
  std::vector<Node::Seen> open;
  ASSERT_TRUE(PollUntil("all", [&] {
    for (; looked_at < b.seen().size(); ++looked_at) {
      if (b.seen()[looked_at].event.kind == TransportEventKind::kOffered) open.push_back(b.seen()[looked_at]);
    }
    // Some stay for a while, the others are taken or declined in a random order.
    const bool all_there = b.Count(TransportEventKind::kOffered) == kPayloads;
    std::shuffle(open.begin(), open.end(), random);
    while (open.size() > (all_there ? 0u : 100u)) {
      if (random() % 10 == 0) {
        b.transport().Decline(open.back().event.offer);
        ++declined;
      } else {
        b.Accept(open.back());
      }
      open.pop_back();
    }
    return b.received().size() + declined == kPayloads && a.Count(TransportEventKind::kSent) == kPayloads;
  }));
  a.ExpectEachSentOnce(kPayloads);
  EXPECT_GT(declined, 0u);
  for (const Node::Received& received : b.received()) {
    ASSERT_TRUE(received.status.ok()) << received.status;
    EXPECT_TRUE(received.payload == payloads[std::stoul(AsText(received.header))]);
  }
}

TEST_P(TransportSuite, ManyPeers) {
  TransportSetup client;
  client.listen = false;
  Node& hub = MakeNode();
  hub.AcceptAll();
  const size_t peers = GetParam().many;
  std::vector<PeerId> to_hub;
  for (size_t i = 0; i < peers; ++i) {
    Node& node = MakeNode(client);
    EXPECT_EQ(node.transport().listen_address(), "");
    node.AcceptAll();
    to_hub.push_back(*node.transport().Connect(hub.transport().listen_address()));
  }
  ASSERT_TRUE(PollUntil("all up", [&] { return hub.Count(TransportEventKind::kPeerUp) == peers; }));
  std::vector<Bytes> payloads;
  for (size_t i = 0; i < peers; ++i) payloads.push_back(Pattern(1000 + i * 5000, i));
  for (size_t i = 0; i < peers; ++i) {
    ASSERT_TRUE(PollUntil("up", [&] { return nodes_[i + 1]->IsUp(to_hub[i]); }));
    const std::string number = std::to_string(i);
    ASSERT_TRUE(nodes_[i + 1]->transport().Send(to_hub[i], AsBytes(number), payloads[i], 1).ok());
  }
  ASSERT_TRUE(PollUntil("all pushed", [&] { return hub.received().size() == peers; }));
  // Everything goes back to whom it came from.
  std::set<PeerId> senders;
  for (const Node::Received& received : hub.received()) {
    ASSERT_TRUE(received.status.ok()) << received.status;
    EXPECT_TRUE(received.payload == payloads[std::stoul(AsText(received.header))]);
    senders.insert(received.peer);
    ASSERT_TRUE(hub.transport().Send(received.peer, received.header, received.payload, senders.size()).ok());
  }
  EXPECT_EQ(senders.size(), peers);
  ASSERT_TRUE(PollUntil("all pulled", [&] {
    return std::all_of(nodes_.begin() + 1, nodes_.end(), [](const auto& node) { return node->received().size() == 1; });
  }));
  for (size_t i = 0; i < peers; ++i) EXPECT_TRUE(nodes_[i + 1]->received()[0].payload == payloads[i]);
  hub.ExpectPeerOrder();
}

TEST_P(TransportSuite, ConnectToNobodyIsReportedWithTheAddress) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const std::string address = b.transport().listen_address();
  b.Destroy();
  const absl::StatusOr<PeerId> peer = a.transport().Connect(address);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_FALSE(a.transport().SendNote(*peer, AsBytes("too early")).ok());
  ASSERT_TRUE(PollUntil("the refusal", [&] { return a.IsDown(*peer); }));
  EXPECT_FALSE(a.IsUp(*peer));
  EXPECT_TRUE(absl::IsUnavailable(a.WhyDown(*peer))) << a.WhyDown(*peer);
  EXPECT_NE(a.WhyDown(*peer).ToString().find(address), std::string::npos) << a.WhyDown(*peer);
}

TEST_P(TransportSuite, ConnectToNonsenseIsRefused) {
  Node& a = MakeNode();
  for (const char* address :
       {"", "nonsense", "127.0.0.1", "127.0.0.1:", ":7070", "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1:7070x",
        "localhost:7070", "300.0.0.1:1", "::1:7070", "[::1]", "[127.0.0.1]:1"}) {
    const absl::StatusOr<PeerId> peer = a.transport().Connect(address);
    EXPECT_TRUE(absl::IsInvalidArgument(peer.status())) << address << " gives " << peer.status();
  }
}

TEST_P(TransportSuite, CloseBeforeTheConnectionIsUp) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  for (int rounds = 0; rounds < 10; ++rounds) {
    const absl::StatusOr<PeerId> peer = a.transport().Connect(b.transport().listen_address());
    ASSERT_TRUE(peer.ok());
    PollFor(rounds);
    a.transport().Close(*peer);
    ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(*peer); }));
    EXPECT_TRUE(a.WhyDown(*peer).ok()) << a.WhyDown(*peer);
  }
  // b ends up with nobody, and still serves.
  ASSERT_TRUE(PollUntil(
      "quiet", [&] { return b.Count(TransportEventKind::kPeerUp) == b.Count(TransportEventKind::kPeerDown); }));
  a.ExpectPeerOrder();
  b.ExpectPeerOrder();
  ConnectNodes(a, b);
}

TEST_P(TransportOfferSuite, APeerThatIgnoresItsCreditIsClosedAndOthersAreNot) {
  TransportSetup few;
  few.limits.max_offers_per_peer = 10;
  Node& server = MakeNode(few);
  Node& greedy = MakeNode();
  Node& modest = MakeNode();
  const Link bad = ConnectNodes(greedy, server);
  const Link good = ConnectNodes(modest, server);
  const Bytes payload = Pattern(2000, 1);
  ASSERT_TRUE(modest.transport().Send(good.to_b, {}, payload, 1).ok());
  for (uint64_t i = 1; i <= 50; ++i) ASSERT_TRUE(greedy.transport().Send(bad.to_b, {}, payload, i).ok());
  ASSERT_TRUE(PollUntil("the end", [&] { return server.IsDown(bad.to_a) && greedy.IsDown(bad.to_b); }));
  EXPECT_TRUE(absl::IsResourceExhausted(server.WhyDown(bad.to_a))) << server.WhyDown(bad.to_a);
  greedy.ExpectEachSentOnce(50);
  server.AcceptAll();
  for (const Node::Seen& offer : server.All(TransportEventKind::kOffered)) server.Accept(offer);
  ASSERT_TRUE(PollUntil("the other's payload", [&] { return server.received().size() == 1; }));
  EXPECT_EQ(server.received()[0].peer, good.to_a);
  EXPECT_FALSE(server.IsDown(good.to_a));
}

TEST_P(TransportOfferSuite, HeldBytesAreLimited) {
  TransportSetup few;
  few.limits.max_held_bytes_per_peer = 1 << 20;
  Node& server = MakeNode(few);
  Node& greedy = MakeNode();
  const Link link = ConnectNodes(greedy, server);
  const Bytes payload = Pattern(100'000, 1);
  for (uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(greedy.transport().Send(link.to_b, {}, payload, i).ok());
  if (!GetParam().keeps_unanswered) {
    ASSERT_TRUE(PollUntil("offers", [&] { return server.Count(TransportEventKind::kOffered) == 20; }));
    EXPECT_FALSE(server.IsDown(link.to_a)) << "it holds no bytes";
  } else {
    ASSERT_TRUE(PollUntil("the end", [&] { return server.IsDown(link.to_a); }));
    EXPECT_TRUE(absl::IsResourceExhausted(server.WhyDown(link.to_a))) << server.WhyDown(link.to_a);
  }
}

TEST_P(TransportWakeSuite, NoEventIsLostBetweenArmAndSleep) {
  const int wanted_rounds = GetParam().many_rounds;
  std::unique_ptr<Transport> here = GetParam().make({});
  std::unique_ptr<Transport> there = GetParam().make({});
  int echo_sleeps = 0;
  std::atomic<bool> echo_ok = false;
  std::thread echo([&] {
    Bytes payload;
    echo_ok = RunAsleep(
        *there, Asleep::kOnWakeFd,
        [&](const TransportEvent& event) {
          if (event.kind == TransportEventKind::kNote) {
            EXPECT_TRUE(there->SendNote(event.peer, event.bytes).ok());
          } else if (event.kind == TransportEventKind::kOffered) {
            payload.resize(event.payload_bytes);
            EXPECT_TRUE(there->Accept(event.offer, payload, 1).ok());
          } else if (event.kind == TransportEventKind::kLanded) {
            EXPECT_TRUE(there->SendNote(event.peer, AsBytes("landed")).ok());
          }
          return event.kind == TransportEventKind::kPeerDown;
        },
        &echo_sleeps);
  });
  const Bytes& payload = Keep(Pattern(200'000, 1));
  int sleeps = 0;
  int rounds = 0;
  const PeerId peer = *here->Connect(there->listen_address());
  EXPECT_TRUE(RunAsleep(
      *here, Asleep::kInSleep,
      [&](const TransportEvent& event) {
        if (event.kind != TransportEventKind::kPeerUp && event.kind != TransportEventKind::kNote) return false;
        if (++rounds == wanted_rounds) return true;
        const absl::Status status =
            rounds % 10 == 0 ? here->Send(peer, {}, payload, rounds) : here->SendNote(peer, AsBytes("ping"));
        EXPECT_TRUE(status.ok()) << status;
        return !status.ok();
      },
      &sleeps));
  EXPECT_EQ(rounds, wanted_rounds);
  here.reset();
  echo.join();
  EXPECT_TRUE(echo_ok) << "an event was lost";
  EXPECT_GT(sleeps + echo_sleeps, 0);
}

TEST_P(TransportWakeSuite, AnIdleTransportSleeps) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  ConnectNodes(a, b);
  int wakes = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) {
    EXPECT_TRUE(a.transport().Poll().empty());
    if (a.transport().Arm()) WaitReadable({a.transport().wake_fd()}, 20'000'000);
    ++wakes;
  }
  // One per 20 ms, and what the last traffic of the connection left behind.
  EXPECT_LE(wakes, 100);
}

TEST_P(TransportWakeSuite, AnyThreadCanWakeIt) {
  for (const Asleep how : {Asleep::kOnWakeFd, Asleep::kInSleep}) {
    std::unique_ptr<Transport> transport = GetParam().make({});
    std::atomic<int> asked = 0;
    constexpr int kWakes = 200;
    std::atomic<int> seen = 0;
    std::thread waker([&] {
      for (int i = 1; i <= kWakes; ++i) {
        asked = i;
        transport->Wake();
        while (seen != i) sched_yield();
      }
    });
    while (seen < kWakes) {
      transport->Poll();
      const int now = asked;
      if (now != seen) {
        seen = now;
        continue;
      }
      if (transport->Arm()) {
        EXPECT_TRUE(SleepBriefly(*transport, how)) << "a wake-up was lost";
      }
    }
    waker.join();
  }
}

TEST_P(TransportWakeSuite, ASleepEndsForTheCallersDescriptorToo) {
  const std::unique_ptr<WakeUp> other = WakeUp::Make().value();
  std::unique_ptr<Transport> transport = GetParam().make({});
  const auto sleep = [&](int64_t timeout_ns) {
    while (!transport->Arm()) transport->Poll();
    return transport->Sleep(timeout_ns, other->fd());
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(sleep(1'000'000)) << "only the time ended it";
    other->Signal();
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(sleep(10'000'000'000));
      EXPECT_TRUE(transport->Poll().empty());
    }
    other->Drain();
    EXPECT_FALSE(sleep(0)) << "it sleeps on";
  }
}

}  // namespace
}  // namespace shoal
