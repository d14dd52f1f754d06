#include "net/shm/shm_transport.h"

#include <atomic>
#include <random>
#include <thread>

#include "core/page_arena.h"
#include "tests/conformance/transport/shm_under_test.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

TransportKind ShmKind(const std::string& name, uint64_t arena_bytes) {
  return {.name = name,
          .make =
              [arena_bytes](const TransportSetup& setup) {
                ShmTransportOptions options;
                options.arena_bytes = arena_bytes;
                if (setup.listen) options.listen_address = NextAddress();
                if (setup.most_lent_bytes != 0) options.arena_bytes = setup.most_lent_bytes;
                options.limits = setup.limits;
                return MakeShmUnderTest(options);
              },
          .lends = true};
}

const auto kKinds =
    testing::Values(ShmKind("Shm", ShmTransportOptions().arena_bytes),
                    // Whose large payloads mostly stay with their sender.
                    ShmKind("ShmWithLittleToLend", 8 * PageArena::kPageBytes), ShmKind("ShmWithNothingToLend", 0));
INSTANTIATE_TEST_SUITE_P(Shm, TransportSuite, kKinds, TransportKindName);
INSTANTIATE_TEST_SUITE_P(Shm, TransportWakeSuite, kKinds, TransportKindName);

bool PollUntil(std::initializer_list<Node*> nodes, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    for (Node* node : nodes) node->Poll();
    sched_yield();
  }
  return true;
}

// A sender with a region and a receiver, connected.
class ShmRegion : public testing::Test {
 protected:
  static constexpr size_t kRegionBytes = 1 << 20;

  ShmRegion()
      : region_(*OwnedMemory::Make("test-region", kRegionBytes)),
        sender_(MakeShmUnderTest({.region = region_.get()})),
        receiver_(MakeShmUnderTest({.listen_address = NextAddress()})) {
    to_receiver_ = *sender_.transport().Connect(receiver_.transport().listen_address());
    EXPECT_TRUE(PollUntil({&sender_, &receiver_},
                          [&] { return sender_.IsUp(to_receiver_) && receiver_.Count(TransportEventKind::kPeerUp); }));
  }

  // Fills the region and sends it.
  Node::Seen Offer(const Bytes& content) {
    std::ranges::copy(content, region_->bytes().begin());
    EXPECT_TRUE(sender_.transport().Send(to_receiver_, {}, region_->bytes().first(content.size()), ++token_).ok());
    const size_t before = receiver_.Count(TransportEventKind::kOffered);
    EXPECT_TRUE(PollUntil({&receiver_}, [&] { return receiver_.Count(TransportEventKind::kOffered) > before; }));
    return receiver_.All(TransportEventKind::kOffered).back();
  }

  std::unique_ptr<OwnedMemory> region_;
  Node sender_;
  Node receiver_;
  PeerId to_receiver_;
  uint64_t token_ = 0;
};

TEST_F(ShmRegion, IsReadWhereItLiesAndSentWhenItWasRead) {
  const Bytes content = Pattern(kRegionBytes, 1);
  const Node::Seen offer = Offer(content);
  EXPECT_EQ(receiver_.transport().lender()->Borrow(offer.event.offer), nullptr)
      << "it may be used again when its sender closes";
  for (int i = 0; i < 100; ++i) sender_.Poll();
  EXPECT_EQ(sender_.Count(TransportEventKind::kSent), 0u) << "nobody has read it yet";
  receiver_.Accept(offer);
  ASSERT_TRUE(PollUntil({&sender_, &receiver_}, [&] { return sender_.Count(TransportEventKind::kSent) == 1; }));
  ASSERT_TRUE(PollUntil({&receiver_}, [&] { return receiver_.received().size() == 1; }));
  EXPECT_TRUE(receiver_.received()[0].status.ok()) << receiver_.received()[0].status;
  EXPECT_TRUE(receiver_.received()[0].payload == content);
}

TEST_F(ShmRegion, ReadAfterItsSenderClosedIsAnError) {
  for (const bool destroyed : {false, true}) {
    const Node::Seen offer = Offer(Pattern(kRegionBytes, 1));
    if (destroyed) {
      sender_.Destroy();
    } else {
      sender_.transport().Close(to_receiver_);
      ASSERT_TRUE(PollUntil({&sender_}, [&] { return sender_.IsDown(to_receiver_); }));
      sender_.ExpectEachSentOnce(token_);
    }
    // It is the sender's again, who uses it for something else. The receiver has not heard of that.
    std::ranges::fill(region_->bytes(), std::byte{0xee});
    Bytes buffer(kRegionBytes);
    const absl::Status status = receiver_.transport().Accept(offer.event.offer, buffer, 1);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(buffer == Bytes(kRegionBytes)) << "it may hold what the receiver still needs";
    if (destroyed) return;
    to_receiver_ = *sender_.transport().Connect(receiver_.transport().listen_address());
    ASSERT_TRUE(PollUntil({&sender_, &receiver_}, [&] { return sender_.IsUp(to_receiver_); }));
  }
}

// The sender closes at any moment and overwrites at once what it had sent; the receiver reads in another thread. What
// it takes must be what was sent, whole: a copy that has begun is waited for, since what lay there is lost.
TEST(ShmRegionRace, NothingStaleIsEverTakenForGood) {
  constexpr size_t kPayloadBytes = 256 << 10;
  constexpr int kConnections = 200;
  const std::unique_ptr<OwnedMemory> region = *OwnedMemory::Make("test-region", kPayloadBytes);
  const std::unique_ptr<ShmTransport> receiver = MakeShmUnderTest({.listen_address = NextAddress()});
  std::atomic<bool> over = false;
  uint64_t good = 0;
  uint64_t refused = 0;
  uint64_t torn = 0;
  std::thread reading([&] {
    Bytes buffer(kPayloadBytes);
    std::byte expected{};
    while (!over) {
      for (const TransportEvent& event : receiver->Poll()) {
        if (event.kind == TransportEventKind::kOffered) {
          expected = event.bytes[0];
          receiver->Accept(event.offer, buffer, 1).IgnoreError();
          break;  // one buffer
        }
        if (event.kind != TransportEventKind::kLanded) continue;
        ++(event.status.ok() ? good : refused);
        if (event.status.ok() && std::ranges::count(buffer, expected) != std::ssize(buffer)) ++torn;
      }
    }
  });
  std::mt19937_64 random(1);
  for (int i = 0; i < kConnections; ++i) {
    const std::unique_ptr<ShmTransport> sender = MakeShmUnderTest({.arena_bytes = 1 << 20, .region = region.get()});
    const PeerId peer = *sender->Connect(receiver->listen_address());
    bool up = false;
    while (!up) {
      for (const TransportEvent& event : sender->Poll()) up |= event.kind == TransportEventKind::kPeerUp;
    }
    const std::byte content{static_cast<uint8_t>(1 + i % 255)};
    std::ranges::fill(region->bytes(), content);
    ASSERT_TRUE(sender->Send(peer, {&content, 1}, region->bytes(), 1).ok());
    bool sent = false;
    const bool waits = i % 4 == 0;
    for (uint64_t polls = random() % 300; waits ? !sent : polls > 0; polls -= waits ? 0 : 1) {
      for (const TransportEvent& event : sender->Poll()) sent |= event.kind == TransportEventKind::kSent;
    }
    sender->Close(peer);
    sender->Poll();  // says that the region is ours again
    std::ranges::fill(region->bytes(), std::byte{0});
  }
  over = true;
  reading.join();
  EXPECT_EQ(torn, 0u) << "of " << good << " that were taken for good; " << refused << " were refused";
  EXPECT_EQ(refused, 0u);
  EXPECT_GE(good, static_cast<uint64_t>(kConnections) / 4);
}

}  // namespace
}  // namespace shoal
