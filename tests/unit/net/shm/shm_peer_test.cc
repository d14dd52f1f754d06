// The objects of which the shared-memory transport is made, without one: two peers at the ends of a socket pair.
#include "net/shm/shm_peer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/transport/transport_harness.h"

namespace shoal {
namespace {

constexpr uint64_t kPageBytes = PageArena::kPageBytes;

TEST(LentMemoryTest, APayloadIsInTheRegionOrInFreePagesOrNowhere) {
  const std::unique_ptr<OwnedMemory> region = *OwnedMemory::Make("test-region", 1000);
  const std::unique_ptr<LentMemory> lent = *LentMemory::Make(2 * kPageBytes + 1, region.get());
  EXPECT_EQ(lent->arena().bytes().size(), kStatusPageBytes + 2 * kPageBytes);
  EXPECT_EQ(lent->Find(region->bytes().subspan(300, 700)), 300 | kInRegionBit);
  const Bytes page(kPageBytes);
  EXPECT_EQ(lent->Find(page), 0u);
  EXPECT_EQ(lent->Find(page), kPageBytes);
  EXPECT_EQ(lent->Find(page), std::nullopt);
  lent->Give(300 | kInRegionBit, 700);
  EXPECT_EQ(lent->Find(page), std::nullopt);
  lent->Give(0, kPageBytes);
  EXPECT_EQ(lent->Find(page), 0u);
}

struct Side {
  Side(int socket, OwnedMemory* region) : lent(*LentMemory::Make(kPageBytes, region)) {
    EXPECT_TRUE(peer.connection().Start(FileDescriptor(socket), epoll.get()).ok());
    EXPECT_TRUE(peer.connection().Greet(*lent).ok());
  }

  // What was added since the last call.
  std::vector<TransportEvent> Events() {
    const std::span<const TransportEvent> added = events.events();
    std::vector<TransportEvent> copy(added.begin(), added.end());
    events.Clear();
    return copy;
  }

  FileDescriptor epoll = *MakeEpoll();
  std::unique_ptr<LentMemory> lent;
  TransportLimits limits;
  EventList events;
  ShmOffers offers{1};
  ShmPeer peer{PeerId(7),
               ShmPeer::State::kGreeting,
               "the other end",
               {.limits = &limits, .lent = lent.get(), .events = &events, .offers = &offers}};
};

class ShmPeerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> sockets{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()), 0);
    from_ = std::make_unique<Side>(sockets[0], region_.get());
    to_ = std::make_unique<Side>(sockets[1], nullptr);
    for (Side* const side : {from_.get(), to_.get()}) {
      EXPECT_TRUE(*side->peer.connection().ReadGreeting(1 << 30));
      side->peer.SetUp();
      EXPECT_EQ(side->Events().size(), 1u);
    }
    // By the ring, by the arena, by the region, and, since there is no room in the arena, in pieces.
    const std::span<std::byte> in_region = region_->bytes().first(20'000);
    std::ranges::copy(Pattern(20'000, 3), in_region.begin());
    payloads_ = {in_ring_, in_arena_, in_region, kept_};
    for (size_t i = 0; i < payloads_.size(); ++i) EXPECT_TRUE(from_->peer.outgoing().Send({}, payloads_[i], i).ok());
  }

  // The tokens of the events of one kind that `side` has got, those that failed negative.
  static std::vector<int> Tokens(Side& side, TransportEventKind kind) {
    std::vector<int> tokens;
    for (const TransportEvent& event : side.Events()) {
      const int token = static_cast<int>(event.token);
      if (event.kind == kind) tokens.push_back(event.status.ok() ? token : -token);
    }
    return tokens;
  }

  const std::unique_ptr<OwnedMemory> region_ = *OwnedMemory::Make("test-region", 1 << 20);
  const Bytes in_ring_ = Pattern(100, 1);
  const Bytes in_arena_ = Pattern(kPageBytes, 2);
  const Bytes kept_ = Pattern(100'000, 4);
  std::vector<std::span<const std::byte>> payloads_;
  std::unique_ptr<Side> from_;
  std::unique_ptr<Side> to_;
};

TEST_F(ShmPeerTest, ACopyCountsUntilItsOwnerIsClosed) {
  ShmConnection& from = from_->peer.connection();
  ShmConnection& to = to_->peer.connection();
  ASSERT_TRUE(to.BeginCopy());
  EXPECT_TRUE(to.EndCopy());
  ASSERT_TRUE(to.BeginCopy());
  from.SayClosing(/*lends=*/false);
  EXPECT_TRUE(to.EndCopy()) << "it was there until the end";
  EXPECT_FALSE(to.BeginCopy()) << "it would not be waited for";
}

TEST_F(ShmPeerTest, WhatIsClosedDoesNotBeginToClose) {
  ShmConnection& to = to_->peer.connection();
  ASSERT_TRUE(to.BeginCopy());
  from_->peer.End(absl::OkStatus(), absl::OkStatus());  // waits in vain
  from_->peer.connection().SayClosing(/*lends=*/false);
  EXPECT_EQ(to.their_stage(), SideStage::kClosed);
  EXPECT_FALSE(to.EndCopy()) << "the memory may hold something else by now";
}

TEST_F(ShmPeerTest, APayloadArrivesByWhicheverWayItGoes) {
  EXPECT_EQ(Tokens(*from_, TransportEventKind::kSent), (std::vector<int>{0, 1})) << "the others wait for the peer";
  ASSERT_TRUE(to_->peer.Read().ok());
  std::vector<Bytes> buffers;
  for (const TransportEvent& offered : to_->Events()) {
    ASSERT_EQ(offered.kind, TransportEventKind::kOffered);
    const ShmOffers::Iterator offer = to_->offers.Find(offered.offer).value();
    EXPECT_TRUE(absl::IsInvalidArgument(to_->peer.incoming().Accept(offer, {}, 0)));
    Bytes& buffer = buffers.emplace_back(offered.payload_bytes);
    ASSERT_TRUE(to_->peer.incoming().Accept(offer, buffer, buffers.size() - 1).ok());
    EXPECT_FALSE(to_->offers.Find(offered.offer).has_value());
  }
  EXPECT_EQ(Tokens(*to_, TransportEventKind::kLanded), (std::vector<int>{0, 1, 2})) << "the last was asked for";
  ASSERT_TRUE(from_->peer.Read().ok());
  EXPECT_TRUE(*from_->peer.Flush());
  EXPECT_EQ(Tokens(*from_, TransportEventKind::kSent), (std::vector<int>{2, 3}));
  EXPECT_FALSE(from_->peer.outgoing().lends());
  ASSERT_TRUE(to_->peer.Read().ok());
  EXPECT_EQ(Tokens(*to_, TransportEventKind::kLanded), (std::vector<int>{3}));
  for (size_t i = 0; i < payloads_.size(); ++i) EXPECT_TRUE(std::ranges::equal(buffers[i], payloads_[i])) << i;
}

TEST_F(ShmPeerTest, WhatIsBorrowedOutlivesTheConnection) {
  ASSERT_TRUE(to_->peer.Read().ok());
  std::vector<OfferId> borrowed;
  for (const TransportEvent& offered : to_->Events()) {
    ShmOffer& offer = to_->offers.Find(offered.offer).value()->second;
    if (to_->peer.incoming().Borrow(offer) != nullptr) borrowed.push_back(offered.offer);
  }
  ASSERT_EQ(borrowed.size(), 2u) << "the region may be used for something else, and what is kept is not here";
  from_->Events();
  from_->peer.End(absl::CancelledError(), absl::OkStatus());
  EXPECT_EQ(Tokens(*from_, TransportEventKind::kSent), (std::vector<int>{-2, -3}));
  EXPECT_FALSE(from_->peer.Settle()) << "the peer reads in our arena";
  EXPECT_EQ(from_->lent->Find(in_arena_), std::nullopt);

  const absl::Status closed = to_->peer.Read();
  EXPECT_TRUE(absl::IsUnavailable(closed)) << closed;
  to_->peer.End(closed, closed);
  EXPECT_FALSE(to_->peer.Settle());
  for (const OfferId id : borrowed) {
    const ShmOffers::Iterator loan = to_->offers.Find(id, /*is_borrowed=*/true).value();
    const ShmOffer& offer = loan->second;
    const bool is_lent = offer.send_number != 0;
    EXPECT_TRUE(std::ranges::equal(std::span(offer.payload, offer.payload_bytes), is_lent ? in_arena_ : in_ring_));
    to_->peer.incoming().GiveBack(loan);
  }
  EXPECT_TRUE(to_->peer.Settle());
  EXPECT_TRUE(from_->peer.Settle());
  EXPECT_EQ(from_->lent->Find(in_arena_), 0u);
}

}  // namespace
}  // namespace shoal
