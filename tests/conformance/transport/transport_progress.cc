// Clause T11 of net/transport.h: no payload waits for another one to be taken.
//
// The receivers of these tests keep what they are offered, as a server does that waits for a late rank, or read nothing
// at all, as one that is stopped.

#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

// Far more payloads than a lender of so little memory can lend.
TransportSetup LendsLittle() {
  TransportSetup setup;
  setup.most_lent_bytes = 1 << 20;
  return setup;
}
constexpr size_t kLargePayload = 300'000;
constexpr uint64_t kManyPayloads = 40;

TEST_P(TransportSuite, T11AllIsOfferedWhileNothingIsTaken) {
  Node& a = MakeNode(LendsLittle());
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  std::vector<Bytes> payloads;
  for (uint64_t i = 0; i < kManyPayloads; ++i) payloads.push_back(Pattern(kLargePayload, i));
  for (uint64_t i = 0; i < kManyPayloads; ++i) {
    ASSERT_TRUE(a.transport().Send(link.to_b, AsBytes(std::to_string(i)), payloads[i], i + 1).ok());
  }
  ASSERT_TRUE(PollUntil("offers", [&] { return b.Count(TransportEventKind::kOffered) == kManyPayloads; }));
  // The last one first, while all others stand.
  std::vector<Node::Seen> offers = b.All(TransportEventKind::kOffered);
  for (; !offers.empty(); offers.pop_back()) {
    const size_t before = b.received().size();
    b.Accept(offers.back());
    ASSERT_TRUE(PollUntil("a landing", [&] { return b.received().size() == before + 1; })) << offers.size();
    EXPECT_TRUE(b.received().back().status.ok()) << b.received().back().status;
    EXPECT_TRUE(b.received().back().payload == payloads[std::stoul(AsText(b.received().back().header))]);
  }
  ASSERT_TRUE(PollUntil("sent", [&] { return a.Count(TransportEventKind::kSent) == kManyPayloads; }));
  a.ExpectEachSentOnce(kManyPayloads);
}

// Two ranks push to two servers in opposite orders; a server takes a payload when it has both ranks' of that number,
// and keeps it borrowed until then. That is two groups of which one rank is late in one and the other in the other.
TEST_P(TransportSuite, T11RanksThatPushInOppositeOrdersDoNotWaitForEachOther) {
  Node* ranks[2] = {&MakeNode(LendsLittle()), &MakeNode(LendsLittle())};
  Node* servers[2] = {&MakeNode(), &MakeNode()};
  Link links[2][2];
  for (const int rank : {0, 1}) {
    for (const int server : {0, 1}) links[rank][server] = ConnectNodes(*ranks[rank], *servers[server]);
  }
  const Bytes& payload = Keep(Pattern(kLargePayload, 1));
  for (const int rank : {0, 1}) {
    uint64_t token = 0;
    for (const int turn : {0, 1}) {
      const int server = (rank + turn) % 2;
      for (uint64_t i = 0; i < kManyPayloads; ++i) {
        const std::string header = std::to_string(i);
        ASSERT_TRUE(ranks[rank]->transport().Send(links[rank][server].to_b, AsBytes(header), payload, ++token).ok());
      }
    }
  }
  size_t looked_at[2] = {0, 0};
  std::map<std::string, std::vector<OfferId>> kept[2];  // by header
  uint64_t loans = 0;
  ASSERT_TRUE(PollUntil("all", [&] {
    for (const int s : {0, 1}) {
      Node& server = *servers[s];
      for (; looked_at[s] < server.seen().size(); ++looked_at[s]) {
        const Node::Seen seen = server.seen()[looked_at[s]];
        if (seen.event.kind != TransportEventKind::kOffered) continue;
        if (Borrow(server, seen.event.offer) != nullptr) {
          ++loans;
        } else {
          server.Accept(seen);
        }
        std::vector<OfferId>& both = kept[s][AsText(seen.bytes)];
        both.push_back(seen.event.offer);
        if (both.size() < 2) continue;
        for (const OfferId offer : both) Return(server, offer);
      }
    }
    return servers[0]->received().size() + servers[1]->received().size() + loans == 4 * kManyPayloads;
  }));
  for (const int rank : {0, 1}) {
    ASSERT_TRUE(PollUntil("sent", [&] { return ranks[rank]->Count(TransportEventKind::kSent) == 2 * kManyPayloads; }));
    ranks[rank]->ExpectEachSentOnce(2 * kManyPayloads);
  }
  for (const Node* server : servers) {
    for (const Node::Received& received : server->received()) EXPECT_TRUE(received.payload == payload);
  }
}

TEST_P(TransportSuite, T11ASilentPeerKeepsNobodyElseWaiting) {
  Node& a = MakeNode(LendsLittle());
  Node& c = MakeNode();
  std::unique_ptr<Transport> silent = GetParam().make({});
  const PeerId to_silent = *a.transport().Connect(silent->listen_address());
  ASSERT_TRUE(PollUntil("up", [&] {
    silent->Poll();
    return a.IsUp(to_silent);
  }));
  const Link link = ConnectNodes(a, c);
  c.AcceptAll();
  const Bytes& payload = Keep(Pattern(kLargePayload, 1));
  for (uint64_t i = 1; i <= kManyPayloads; ++i) ASSERT_TRUE(a.transport().Send(to_silent, {}, payload, i).ok());
  PollFor(100);
  for (uint64_t i = 1; i <= kManyPayloads; ++i) {
    ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, kManyPayloads + i).ok());
  }
  ASSERT_TRUE(PollUntil("the others", [&] { return c.received().size() == kManyPayloads; }));
  for (const Node::Received& received : c.received()) EXPECT_TRUE(received.status.ok() && received.payload == payload);
  a.transport().Close(to_silent);
  ASSERT_TRUE(PollUntil("the end of all", [&] {
    return a.IsDown(to_silent) && a.Count(TransportEventKind::kSent) == 2 * kManyPayloads;
  }));
  a.ExpectEachSentOnce(2 * kManyPayloads);
}

// T1 and T2 where nothing could be lent: whoever goes while a payload lands, either side has one event for it.
TEST_P(TransportSuite, T11WhoeverGoesWhileThingsLandHasOneEventForEach) {
  for (const bool sender_goes : {true, false}) {
    for (const bool by_death : {true, false}) {
      Node& a = MakeNode(LendsLittle());
      Node& b = MakeNode();
      const Link link = ConnectNodes(a, b);
      const Bytes& payload = Keep(Pattern(4 << 20, 1));
      for (uint64_t i = 1; i <= 8; ++i) ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, i).ok());
      ASSERT_TRUE(PollUntil("an offer", [&] { return b.Count(TransportEventKind::kOffered) > 0; }));
      const std::vector<Node::Seen> offers = b.All(TransportEventKind::kOffered);
      for (const Node::Seen& offer : offers) b.Accept(offer);
      PollFor(3);
      Node& goes = sender_goes ? a : b;
      Node& stays = sender_goes ? b : a;
      if (by_death) {
        goes.Destroy();
      } else {
        goes.transport().Close(sender_goes ? link.to_b : link.to_a);
        ASSERT_TRUE(PollUntil("the end", [&] { return goes.IsDown(sender_goes ? link.to_b : link.to_a); }));
      }
      ASSERT_TRUE(PollUntil("the other end", [&] { return stays.IsDown(sender_goes ? link.to_a : link.to_b); }));
      for (const Node* node : {&a, &b}) {
        if (by_death && node == &goes) continue;
        node->ExpectPeerOrder();
        EXPECT_EQ(node->landings_in_flight(), 0u);
      }
      if (!by_death || !sender_goes) a.ExpectEachSentOnce(8);
      for (const Node::Received& received : b.received()) {
        EXPECT_TRUE(!received.status.ok() || received.payload == payload);
      }
    }
  }
}

}  // namespace
}  // namespace shoal
