// Clause T9 of net/lending.h: payloads that are read where they lie. A transport that never lends passes if its offers
// can be accepted instead.

#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

TEST_P(TransportSuite, T9IsReadableUntilReturnedAndNoEventTellsOfIt) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const std::vector<Loan> loans = SendAndBorrow(a, link.to_b, b, 1);
  ASSERT_TRUE(PollUntil("sent", [&] {
    return a.Count(TransportEventKind::kSent) == last_token_ - loans.size() ||
           a.Count(TransportEventKind::kSent) == last_token_;
  }));
  // The lender goes on with other payloads.
  b.AcceptAll();
  const Bytes& other = Keep(Pattern(200'000, 99));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(a.transport().Send(link.to_b, {}, other, ++last_token_).ok());
  const size_t landed = kSomeSizes.size() - loans.size() + 20;
  ASSERT_TRUE(PollUntil("the others", [&] { return b.received().size() == landed; }));
  ExpectIntact(loans);
  for (const Loan& loan : loans) {
    Bytes buffer(loan.expected.size());
    EXPECT_TRUE(absl::IsNotFound(b.transport().Accept(loan.offer, buffer, 1))) << "it was borrowed";
    EXPECT_EQ(Borrow(b, loan.offer), nullptr) << "it was borrowed";
    b.transport().Decline(loan.offer);
    EXPECT_TRUE(loan.IsIntact());
  }
  Return(b, loans);
  ASSERT_TRUE(PollUntil("sent", [&] { return a.Count(TransportEventKind::kSent) == last_token_; }));
  PollFor(100);
  a.ExpectEachSentOnce(last_token_);
  EXPECT_EQ(b.Count(TransportEventKind::kLanded), landed);
}

TEST_P(TransportSuite, T9OutlivesAConnectionThatTheBorrowerOrTheLenderCloses) {
  for (const bool lender_closes : {true, false}) {
    TransportSetup small;
    small.most_lent_bytes = 4 << 20;
    Node& a = MakeNode(small);
    Node& b = MakeNode();
    Node& c = MakeNode();
    const Link link = ConnectNodes(a, b);
    const Link other = ConnectNodes(a, c);
    const std::vector<Loan> loans = SendAndBorrow(a, link.to_b, b, 1);
    if (lender_closes) {
      a.transport().Close(link.to_b);
    } else {
      b.transport().Close(link.to_a);
    }
    ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(link.to_b) && b.IsDown(link.to_a); }));
    // The lender needs all its memory for somebody else, again and again.
    c.AcceptAll();
    const Bytes& payload = Keep(Pattern(500'000, 99));
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(a.transport().Send(other.to_b, {}, payload, ++last_token_).ok());
    ASSERT_TRUE(PollUntil("the others", [&] { return c.received().size() == 30; }));
    ExpectIntact(loans);
    Return(b, loans);
    PollFor(100);
    ConnectNodes(b, a);
    a.ExpectPeerOrder();
    b.ExpectPeerOrder();
    nodes_.clear();
    last_token_ = 0;
  }
}

TEST_P(TransportSuite, T9OutlivesItsLender) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const std::vector<Loan> loans = SendAndBorrow(a, link.to_b, b, 1);
  a.Destroy();
  ASSERT_TRUE(PollUntil("the end", [&] { return b.IsDown(link.to_a); }));
  Node& next = MakeNode();
  const Link again = ConnectNodes(next, b);
  const std::vector<Loan> more = SendAndBorrow(next, again.to_b, b, 2);
  ExpectIntact(loans);
  ExpectIntact(more);
  Return(b, more);
  Return(b, loans);
}

TEST_P(TransportSuite, T9WhatBorrowDoesNotGiveStands) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const Bytes& payload = Keep(Pattern(100'000, 1));
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(a.transport().Send(link.to_b, {}, payload, i).ok());
  ASSERT_TRUE(PollUntil("offers", [&] { return b.Count(TransportEventKind::kOffered) == 3; }));
  const std::vector<Node::Seen> offers = b.All(TransportEventKind::kOffered);
  EXPECT_EQ(Borrow(b, OfferId(4711)), nullptr);
  Return(b, OfferId(4711));
  Return(b, offers[0].event.offer);  // never borrowed: it stands
  b.Accept(offers[0]);
  ASSERT_TRUE(PollUntil("the payload", [&] { return b.received().size() == 1; }));
  EXPECT_TRUE(b.received()[0].status.ok() && b.received()[0].payload == payload);
  EXPECT_EQ(Borrow(b, offers[0].event.offer), nullptr) << "it was accepted";
  b.transport().Decline(offers[1].event.offer);
  EXPECT_EQ(Borrow(b, offers[1].event.offer), nullptr) << "it was declined";
  a.transport().Close(link.to_b);
  ASSERT_TRUE(PollUntil("the end", [&] { return b.IsDown(link.to_a); }));
  EXPECT_EQ(Borrow(b, offers[2].event.offer), nullptr) << "it went with its peer";
}

TEST_P(TransportSuite, T9ReturnIsHarmlessAtAnyTime) {
  Node& a = MakeNode();
  Node& b = MakeNode();
  const Link link = ConnectNodes(a, b);
  const std::vector<Loan> loans = SendAndBorrow(a, link.to_b, b, 1);
  Return(b, loans);
  Return(b, loans);
  const std::vector<Loan> more = SendAndBorrow(a, link.to_b, b, 2);
  Return(b, loans);  // these don't end the new ones
  PollFor(20);
  ExpectIntact(more);
  b.transport().Close(link.to_a);
  Return(b, more);
  Return(b, more);
  ASSERT_TRUE(PollUntil("the end", [&] { return a.IsDown(link.to_b) && b.IsDown(link.to_a); }));
  Return(b, more);
  a.ExpectEachSentOnce(last_token_);
}

// Either side has more to send than it can lend, and can go on only because the other returns what it was lent.
TEST_P(TransportSuite, T9BothSidesLendAllThatTheyCanAndNobodyWaitsForEver) {
  TransportSetup small;
  small.most_lent_bytes = 1 << 20;
  Node& a = MakeNode(small);
  Node& b = MakeNode(small);
  const Link link = ConnectNodes(a, b);
  const Bytes& from_a = Keep(Pattern(300'000, 1));
  const Bytes& from_b = Keep(Pattern(300'000, 2));
  constexpr uint64_t kPayloads = 60;
  for (uint64_t i = 1; i <= kPayloads; ++i) {
    ASSERT_TRUE(a.transport().Send(link.to_b, {}, from_a, i).ok());
    ASSERT_TRUE(b.transport().Send(link.to_a, {}, from_b, i).ok());
  }
  size_t done[2] = {0, 0};
  size_t looked_at[2] = {0, 0};
  std::vector<Loan> open[2];
  ASSERT_TRUE(PollUntil("all", [&] {
    for (const int side : {0, 1}) {
      Node& node = side == 0 ? a : b;
      // What was borrowed stays so for some rounds.
      if (open[side].size() >= 2 || looked_at[side] == node.seen().size()) {
        ExpectIntact(open[side]);
        Return(node, open[side]);
        done[side] += open[side].size();
        open[side].clear();
      }
      for (; looked_at[side] < node.seen().size(); ++looked_at[side]) {
        const Node::Seen seen = node.seen()[looked_at[side]];
        if (seen.event.kind == TransportEventKind::kLanded) ++done[side];
        if (seen.event.kind != TransportEventKind::kOffered) continue;
        const std::byte* const data = looked_at[side] % 2 == 0 ? Borrow(node, seen.event.offer) : nullptr;
        if (data != nullptr) {
          open[side].push_back({seen.event.offer, data, side == 0 ? from_b : from_a});
        } else {
          node.Accept(seen);
        }
      }
    }
    return done[0] == kPayloads && done[1] == kPayloads;
  }));
  ASSERT_TRUE(PollUntil("sent", [&] {
    return a.Count(TransportEventKind::kSent) == kPayloads && b.Count(TransportEventKind::kSent) == kPayloads;
  }));
}

}  // namespace
}  // namespace shoal
