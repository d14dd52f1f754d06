// The clauses T1 to T8 and T10 of net/transport.h, one or more tests each. (T9: transport_loans.cc, T11:
// transport_progress.cc.)

#include <set>

#include "core/flow_plan.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

TEST_P(TransportSuite, T1CompletesOnceWhenPeerDies) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const Bytes& payload = Keep(Pattern(1 << 20, 1));
  uint64_t sent = 0;
  for (size_t size : kSomeSizes) {
    ASSERT_TRUE(a.transport().Send(link.to_b, {}, std::span(payload).first(size), ++sent).ok());
  }
  ASSERT_TRUE(PollUntil("an offer", [&] { return b.Count(TransportEventKind::kOffered) > 0; }));
  b.Accept(b.All(TransportEventKind::kOffered).front());
  b.Destroy();
  ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(link.to_b); }));
  a.ExpectEachSentOnce(sent);
  a.ExpectPeerOrder();
  EXPECT_TRUE(absl::IsUnavailable(a.WhyDown(link.to_b))) << a.WhyDown(link.to_b);
  EXPECT_TRUE(absl::IsNotFound(a.transport().SendNote(link.to_b, AsBytes("x"))));
}

TEST_P(TransportSuite, T1AcceptCompletesOnceWhenSenderDies) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const Bytes& payload = Keep(Pattern(4 << 20, 1));
  for (uint64_t i = 1; i <= 8; ++i) ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, i).ok());
  ASSERT_TRUE(PollUntil("an offer", [&] { return b.Count(TransportEventKind::kOffered) > 0; }));
  b.AcceptAll();
  for (const Node::Seen& offer : b.All(TransportEventKind::kOffered)) b.Accept(offer);
  const size_t accepted = b.landings_in_flight();
  EXPECT_GT(accepted, 0u);
  a.Destroy();
  ASSERT_TRUE(PollUntil("the end", [&] { return b.IsDown(link.to_a); }));
  EXPECT_EQ(b.landings_in_flight(), 0u);  // Node::Poll refuses a second one
  EXPECT_GE(b.received().size(), accepted);
  for (const Node::Received& received : b.received()) {
    EXPECT_TRUE(!received.status.ok() || received.payload == payload);
  }
  b.ExpectPeerOrder();
}

TEST_P(TransportSuite, T1CompletesOnceAfterClose) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const Bytes& payload = Keep(Pattern(1 << 20, 1));
  for (uint64_t i = 1; i <= 50; ++i) ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, i).ok());
  a.transport().Close(link.to_b);
  EXPECT_TRUE(absl::IsNotFound(a.transport().Send(link.to_b, {}, payload, 51)));
  EXPECT_TRUE(absl::IsNotFound(a.transport().SendNote(link.to_b, AsBytes("x"))));
  a.transport().Close(link.to_b);
  ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(link.to_b) && b.IsDown(link.to_a); }));
  a.ExpectEachSentOnce(50);
  a.ExpectPeerOrder();
  b.ExpectPeerOrder();
  EXPECT_TRUE(a.WhyDown(link.to_b).ok()) << a.WhyDown(link.to_b);
}

TEST_P(TransportSuite, T1BuffersAreFreeAfterTheDestructor) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  Node& c = MakeNode();
  const Link link = ConnectNodes(a, b);
  const Link back = ConnectNodes(c, a);
  auto outgoing = std::make_unique<Bytes>(Pattern(2 << 20, 1));
  auto incoming = std::make_unique<Bytes>(2 << 20);
  for (uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(a.transport().Send(link.to_b, {}, *outgoing, i).ok());
  const Bytes& payload = Keep(Pattern(2 << 20, 2));
  ASSERT_TRUE(c.transport().Send(back.to_b, {}, payload, 1).ok());
  ASSERT_TRUE(PollUntil("an offer", [&] { return a.Count(TransportEventKind::kOffered) > 0; }));
  const OfferId offer = a.All(TransportEventKind::kOffered).front().event.offer;
  ASSERT_TRUE(a.transport().Accept(offer, *incoming, 1).ok());
  b.AcceptAll();
  a.Destroy();
  outgoing.reset();  // a late read or write of these is for the address sanitizer to see
  incoming.reset();
  ASSERT_TRUE(PollUntil("the end", [&] { return b.IsDown(link.to_a) && c.IsDown(back.to_b); }));
  c.ExpectEachSentOnce(1);
}

TEST_P(TransportSuite, T2SenderMayReuseItsBufferAfterSent) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  b.AcceptAll();
  uint64_t token = 0;
  for (size_t size : kSomeSizes) {
    const Bytes& original = Keep(Pattern(size, size));
    Bytes buffer = original;
    ASSERT_TRUE(a.transport().Send(link.to_b, {}, buffer, ++token).ok());
    ASSERT_TRUE(PollUntil("sent", [&] { return a.Count(TransportEventKind::kSent) == token; }));
    std::ranges::fill(buffer, std::byte{0xee});
    ASSERT_TRUE(PollUntil("received", [&] { return b.received().size() == token; }));
    EXPECT_TRUE(b.received().back().status.ok());
    EXPECT_EQ(b.received().back().payload, original) << size;
  }
}

TEST_P(TransportSuite, T2NothingIsWrittenAfterLandedEvenIfItFailed) {
  // The receiver gives up in the middle of a transfer and uses the buffer for something else.
  for (int rounds_before_close = 0; rounds_before_close < 6; ++rounds_before_close) {
    Node& a = MakeNode();
    Node& b = MakeNode();
    const Link link = ConnectNodes(a, b);
    const Bytes& payload = Keep(Pattern(16 << 20, 1));
    ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, 1).ok());
    ASSERT_TRUE(PollUntil("an offer", [&] { return b.Count(TransportEventKind::kOffered) == 1; }));
    Bytes buffer(payload.size());
    const OfferId offer = b.All(TransportEventKind::kOffered).front().event.offer;
    ASSERT_TRUE(b.transport().Accept(offer, buffer, 1).ok());
    for (int i = 0; i < rounds_before_close; ++i) {
      a.transport().Poll();
      b.transport().Poll();
    }
    b.transport().Close(link.to_a);
    bool down = false;
    while (!down) {
      for (const TransportEvent& event : b.transport().Poll()) down |= event.kind == TransportEventKind::kPeerDown;
    }
    const Bytes other(buffer.size(), std::byte{0xee});
    buffer = other;
    ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(link.to_b); }));
    PollFor(200);
    EXPECT_TRUE(buffer == other) << "written to after its kLanded";
    nodes_.clear();
  }
}

TEST_P(TransportSuite, T3PeerDownIsLastAndPeerIdsAreNotUsedAgain) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  std::set<PeerId> ids;
  for (int i = 0; i < 20; ++i) {
    const Link link = ConnectNodes(a, b);
    ASSERT_TRUE(a.transport().SendNote(link.to_b, AsBytes("hello")).ok());
    // From either side in turn.
    (i % 2 == 0 ? a : b).transport().Close(i % 2 == 0 ? link.to_b : link.to_a);
    ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(link.to_b) && b.IsDown(link.to_a); }));
    EXPECT_TRUE(ids.insert(link.to_b).second);
  }
  EXPECT_EQ(a.Count(TransportEventKind::kPeerDown), 20u);
  EXPECT_EQ(b.Count(TransportEventKind::kPeerDown), 20u);
  a.ExpectPeerOrder();
  b.ExpectPeerOrder();
}

TEST_P(TransportSuite, T4NothingHappensOutsidePoll) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  ASSERT_TRUE(a.transport().SendNote(link.to_b, AsBytes("first")).ok());
  std::span<const TransportEvent> events;
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (events.empty() && std::chrono::steady_clock::now() < deadline) {
    a.Poll();
    GetParam().idle();
    events = b.transport().Poll();
  }
  ASSERT_EQ(events.size(), 1u);
  // What Poll returned stays as it is whatever else is called.
  const Bytes& payload = Keep(Pattern(1000, 1));
  ASSERT_TRUE(b.transport().SendNote(link.to_a, AsBytes("x")).ok());
  ASSERT_TRUE(b.transport().Send(link.to_a, {}, payload, 7).ok());
  b.transport().Close(link.to_a);
  b.transport().Arm();
  EXPECT_EQ(AsText(events[0].bytes), "first");
  ASSERT_TRUE(PollUntil("the end", [&] { return b.IsDown(link.to_a); }));
  EXPECT_EQ(b.Count(TransportEventKind::kSent), 1u);
}

TEST_P(TransportSuite, T5NotesArriveInOrder) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  b.AcceptAll();
  const Bytes& payload = Keep(Pattern(300'000, 1));
  constexpr int kNotes = 5000;
  uint64_t payloads = 0;
  for (int i = 0; i < kNotes; ++i) {
    const std::string note = std::to_string(i) + std::string(i % 300, '.');
    absl::Status status;
    while (absl::IsResourceExhausted(status = a.transport().SendNote(link.to_b, AsBytes(note)))) PollAll();
    ASSERT_TRUE(status.ok()) << status;
    if (i % 500 == 0) {
      ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, ++payloads).ok());
    }
    if (i % 64 == 0) PollAll();
  }
  ASSERT_TRUE(PollUntil(
      "all", [&] { return b.Count(TransportEventKind::kNote) == kNotes && b.received().size() == payloads; }));
  int next = 0;
  for (const Node::Seen& note : b.All(TransportEventKind::kNote)) {
    ASSERT_EQ(AsText(note.bytes), std::to_string(next) + std::string(next % 300, '.'));
    ++next;
  }
}

TEST_P(TransportSuite, T6WhatDoesNotFitIsRefused) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const Bytes too_long(kMaxNoteBytes + 1);
  const Bytes& payload = Keep(Pattern(300'000, 1));
  EXPECT_TRUE(absl::IsInvalidArgument(a.transport().SendNote(link.to_b, too_long)));
  EXPECT_TRUE(absl::IsInvalidArgument(a.transport().SendNote(link.to_b, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(a.transport().Send(link.to_b, too_long, payload, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(a.transport().Send(link.to_b, {}, {}, 1)));
  EXPECT_TRUE(absl::IsNotFound(a.transport().SendNote(PeerId(4711), AsBytes("x"))));
  EXPECT_TRUE(absl::IsNotFound(a.transport().Accept(OfferId(4711), {}, 1)));
  a.transport().Decline(OfferId(4711));
  a.transport().Close(PeerId(4711));

  const Bytes& longest_header = Keep(Pattern(kMaxNoteBytes, 2));
  ASSERT_TRUE(a.transport().Send(link.to_b, longest_header, payload, 1).ok());
  ASSERT_TRUE(PollUntil("an offer", [&] { return b.Count(TransportEventKind::kOffered) == 1; }));
  const Node::Seen offer = b.All(TransportEventKind::kOffered).front();
  EXPECT_EQ(offer.bytes, longest_header);
  EXPECT_EQ(offer.event.payload_bytes, payload.size());
  Bytes buffer(payload.size() + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(b.transport().Accept(offer.event.offer, buffer, 1)));
  buffer.resize(payload.size() - 1);
  EXPECT_TRUE(absl::IsInvalidArgument(b.transport().Accept(offer.event.offer, buffer, 1)));
  b.Accept(offer);  // the offer stands
  ASSERT_TRUE(PollUntil("the payload", [&] { return b.received().size() == 1; }));
  EXPECT_TRUE(b.received().front().status.ok());
  EXPECT_EQ(b.received().front().payload, payload);
  buffer.resize(payload.size());
  EXPECT_TRUE(absl::IsNotFound(b.transport().Accept(offer.event.offer, buffer, 1)));
}

TEST_P(TransportSuite, T6DeclinedOffersEndAtTheSender) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const Bytes& payload = Keep(Pattern(1 << 20, 1));
  uint64_t sent = 0;
  for (size_t size : kSomeSizes) {
    ASSERT_TRUE(a.transport().Send(link.to_b, {}, std::span(payload).first(size), ++sent).ok());
  }
  ASSERT_TRUE(PollUntil("offers", [&] { return b.Count(TransportEventKind::kOffered) == sent; }));
  Bytes buffer(1 << 20);
  for (const Node::Seen& offer : b.All(TransportEventKind::kOffered)) {
    b.transport().Decline(offer.event.offer);
    EXPECT_TRUE(absl::IsNotFound(
        b.transport().Accept(offer.event.offer, std::span(buffer).first(offer.event.payload_bytes), 1)));
  }
  ASSERT_TRUE(PollUntil("sent", [&] { return a.Count(TransportEventKind::kSent) == sent; }));
  a.ExpectEachSentOnce(sent);
  EXPECT_EQ(b.Count(TransportEventKind::kLanded), 0u);
}

TEST_P(TransportSuite, T7LimitsHoldAndLift) {
  TransportSetup setup;
  setup.limits.max_notes_per_peer = 16;
  setup.limits.max_sends_per_peer = 16;
  Node& a = MakeNode(setup);
  // A transport may count at its sender what its receiver has not answered.
  TransportSetup receiver;
  receiver.limits.max_offers_per_peer = 4096;
  Node& b = MakeNode(receiver);
  const Link link = ConnectNodes(a, b);
  const Bytes& note = Keep(Pattern(kMaxNoteBytes, 1));
  const Bytes& payload = Keep(Pattern(100'000, 2));
  // b does not poll, so at some point the network takes no more.
  uint64_t notes = 0;
  absl::Status status;
  while (notes < 1'000'000 && (status = a.transport().SendNote(link.to_b, note)).ok()) ++notes;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status << " after " << notes;
  uint64_t sends = 0;
  while (sends < 10'000 && (status = a.transport().Send(link.to_b, {}, payload, sends + 1)).ok()) ++sends;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status << " after " << sends;
  b.AcceptAll();
  ASSERT_TRUE(PollUntil("all", [&] {
    return b.Count(TransportEventKind::kNote) == notes && b.received().size() == sends &&
           a.Count(TransportEventKind::kSent) == sends;
  }));
  a.ExpectEachSentOnce(sends);  // what was refused was not sent
  EXPECT_TRUE(a.transport().SendNote(link.to_b, note).ok());
  EXPECT_TRUE(a.transport().Send(link.to_b, {}, payload, sends + 1).ok());
  ASSERT_TRUE(PollUntil("one more", [&] { return b.received().size() == sends + 1; }));
}

// 256 groups that all wait for one rank, each with its whole window at the server.
TEST_P(TransportSuite, T7AllWindowsThatAWorkerMayHaveAreNotTooMuch) {
  constexpr uint64_t kPayloads = uint64_t{256} * kMaxCreditChunks;
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const Bytes& payload = Keep(Pattern(100, 1));
  for (uint64_t i = 1; i <= kPayloads; ++i) ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, i).ok()) << i;
  ASSERT_TRUE(PollUntil("offers", [&] { return b.Count(TransportEventKind::kOffered) == kPayloads; }));
  EXPECT_FALSE(a.IsDown(link.to_b) || b.IsDown(link.to_a));
  for (const Node::Seen& offer : b.All(TransportEventKind::kOffered)) b.Accept(offer);
  ASSERT_TRUE(PollUntil("landings", [&] { return b.received().size() == kPayloads; }));
  ASSERT_TRUE(PollUntil("sent", [&] { return a.Count(TransportEventKind::kSent) == kPayloads; }));
  a.ExpectEachSentOnce(kPayloads);
}

TEST_P(TransportSuite, T7PeersAreLimitedOnBothSides) {
  TransportSetup two;
  two.limits.max_peers = 2;
  Node& a = MakeNode(two);
  Node& b = MakeNode();
  Node& c = MakeNode();
  const Link first = ConnectNodes(a, b);
  ConnectNodes(a, b);
  EXPECT_TRUE(absl::IsResourceExhausted(a.transport().Connect(b.transport().listen_address()).status()));
  const absl::StatusOr<PeerId> refused = c.transport().Connect(a.transport().listen_address());
  ASSERT_TRUE(refused.ok());
  ASSERT_TRUE(PollUntil("the refusal", [&] { return c.IsDown(*refused); }));
  EXPECT_FALSE(c.IsUp(*refused));
  a.transport().Close(first.to_b);
  ASSERT_TRUE(PollUntil("room", [&] { return a.IsDown(first.to_b); }));
  ConnectNodes(c, a);
}

TEST_P(TransportSuite, T8CloseOfASilentPeerKeepsT1) {
  Node& a = MakeNode();
  std::unique_ptr<Transport> silent = GetParam().make({});
  const absl::StatusOr<PeerId> peer = a.transport().Connect(silent->listen_address());
  ASSERT_TRUE(peer.ok());
  ASSERT_TRUE(PollUntil("up", [&] {
    silent->Poll();
    return a.IsUp(*peer);
  }));
  const Bytes& payload = Keep(Pattern(1 << 20, 1));
  for (uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(a.transport().Send(*peer, {}, payload, i).ok());
  PollFor(100);
  EXPECT_FALSE(a.IsDown(*peer));
  a.transport().Close(*peer);
  ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(*peer); }));
  a.ExpectEachSentOnce(20);
  a.ExpectPeerOrder();
}

TEST_P(TransportSuite, T10IsCopiedWhenAcceptReturnsAndLandsWithTheNextPoll) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  ASSERT_NO_FATAL_FAILURE(SendSomeSizes(a, link.to_b, b));
  std::set<uint64_t> at_once = AcceptSomeSizes(b);
  EXPECT_EQ(!at_once.empty(), GetParam().accepts_at_once);
  for (const TransportEvent& event : b.transport().Poll()) {
    if (event.kind != TransportEventKind::kLanded || at_once.erase(event.token) == 0) continue;
    EXPECT_TRUE(event.status.ok()) << event.status;
  }
  EXPECT_TRUE(at_once.empty()) << at_once.size() << " have not landed";
  // The others may be written to until the end.
  b.Destroy();
}

TEST_P(TransportSuite, T10IsCopiedAlsoFromASenderThatIsGone) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  ASSERT_NO_FATAL_FAILURE(SendSomeSizes(a, link.to_b, b));
  a.Destroy();
  AcceptSomeSizes(b);
  b.Destroy();
}

}  // namespace
}  // namespace shoal
