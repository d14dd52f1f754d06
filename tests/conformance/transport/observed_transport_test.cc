// The layer over the loopback transport: the suite's clauses, what checksums are for, and what the recorder gets.
#include "net/observed_transport.h"

#include <deque>
#include <memory>

#include "gmock/gmock.h"
#include "net/shm/shm_transport.h"
#include "process/mutex.h"
#include "tests/conformance/transport/loopback_under_test.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// One for each transport: it is of the transport's thread. They outlive the transports.
class Recorders {
 public:
  FlightRecorder* Make() {
    const MutexLock lock(mutex_);
    return &recorders_.emplace_back();
  }

 private:
  Mutex mutex_;
  std::deque<FlightRecorder> recorders_ SHOAL_GUARDED_BY(mutex_);
};

TransportKind ObservedKind(std::string name, Checksums checksums, bool is_recorded) {
  auto network = std::make_shared<LoopbackNetwork>();
  auto recorders = std::make_shared<Recorders>();
  return {.name = std::move(name), .make = [=](const TransportSetup& setup) {
            return MakeObservedTransport(
                MakeLoopbackUnderTest(network.get(), setup),
                {.checksums = checksums, .recorder = is_recorded ? recorders->Make() : nullptr});
          }};
}

const TransportKind kKinds[] = {ObservedKind("Checked", Checksums::kToAll, false),
                                ObservedKind("Recorded", Checksums::kToAskers, true),
                                ObservedKind("Both", Checksums::kToAll, true)};
INSTANTIATE_TEST_SUITE_P(Observed, TransportSuite, testing::ValuesIn(kKinds), TransportKindName);
INSTANTIATE_TEST_SUITE_P(Observed, TransportWakeSuite, testing::ValuesIn(kKinds), TransportKindName);

FrameHeaderBytes PushHeader(uint32_t checksum = 0) {
  return EncodeHeader({.type = FrameType::kPush,
                       .op = OpNumber(1),
                       .bucket_elements = 100,
                       .chunk_elements = 100,
                       .payload_crc32c = checksum});
}

// Two transports that are connected, driven by hand.
class ObservedTransportTest : public testing::Test {
 protected:
  std::unique_ptr<Transport> Plain(bool listen) { return MakeLoopbackUnderTest(&network_, {.listen = listen}); }
  std::unique_ptr<Transport> Checked(bool listen, Checksums mode) {
    return MakeObservedTransport(Plain(listen), {.checksums = mode});
  }

  void Connect(std::unique_ptr<Transport> from, std::unique_ptr<Transport> to) {
    from_ = std::make_unique<Node>(std::move(from));
    to_ = std::make_unique<Node>(std::move(to));
    to_->AcceptAll();
    to_peer_ = from_->transport().Connect(to_->transport().listen_address()).value();
    ASSERT_TRUE(PollUntil([&] { return from_->IsUp(to_peer_) && to_->Count(TransportEventKind::kPeerUp) == 1; }));
  }

  bool PollUntil(const std::function<bool()>& done) {
    for (int round = 0; round < 10'000; ++round) {
      if (done()) return true;
      from_->Poll();
      to_->Poll();
    }
    return false;
  }

  LoopbackNetwork network_;
  FlightRecorder recorder_;
  std::unique_ptr<Node> from_;
  std::unique_ptr<Node> to_;
  PeerId to_peer_;
  const Bytes payload_ = Pattern(400, 1);
};

TEST(PayloadChecksum, IsCrc32c) {
  // The check value of the polynomial, and the examples of RFC 3720, appendix B.4.
  EXPECT_EQ(PayloadChecksum(AsBytes("123456789")), 0xe3069283u);
  EXPECT_EQ(PayloadChecksum(Bytes(32, std::byte{0})), 0x8a9136aau);
  EXPECT_EQ(PayloadChecksum(Bytes(32, std::byte{0xff})), 0x62a8ab43u);
}

TEST_F(ObservedTransportTest, WhatArrivesAsItWasSentLands) {
  Connect(Checked(false, Checksums::kToAll), Checked(true, Checksums::kToAskers));
  ASSERT_TRUE(from_->transport().Send(to_peer_, PushHeader(), payload_, 1).ok());
  ASSERT_TRUE(PollUntil([&] { return to_->received().size() == 1; }));
  EXPECT_TRUE(to_->received()[0].status.ok()) << to_->received()[0].status;
  EXPECT_EQ(to_->received()[0].payload, payload_);
  EXPECT_EQ(DecodeHeader(to_->received()[0].header)->payload_crc32c, PayloadChecksum(payload_));
}

TEST_F(ObservedTransportTest, WhatArrivesChangedIsALossOfDataAndCutsTheConnection) {
  Connect(Plain(false), MakeObservedTransport(Plain(true), {.recorder = &recorder_}));
  ASSERT_TRUE(from_->transport().Send(to_peer_, PushHeader(PayloadChecksum(payload_) ^ 1), payload_, 1).ok());
  ASSERT_TRUE(PollUntil([&] { return from_->IsDown(to_peer_) && to_->Count(TransportEventKind::kPeerDown) == 1; }));
  ASSERT_EQ(to_->received().size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(to_->received()[0].status)) << to_->received()[0].status;
  EXPECT_THAT(std::string(to_->received()[0].status.message()), HasSubstr("400 bytes was changed on its way"));
  EXPECT_TRUE(absl::IsDataLoss(to_->All(TransportEventKind::kPeerDown)[0].event.status));
  EXPECT_EQ(to_->transport().Report({}).corrupted_payloads, 1u);
  EXPECT_THAT(recorder_.Text({}), ContainsRegex(" landed .*FAILED\n.* peer down .*FAILED\n")) << "what the user sees";
  to_->ExpectPeerOrder();
}

TEST_F(ObservedTransportTest, AnswersWithChecksumsThoseWhoSendThem) {
  for (const bool asks : {true, false}) {
    Connect(asks ? Checked(false, Checksums::kToAll) : Plain(false), Checked(true, Checksums::kToAskers));
    from_->AcceptAll();
    ASSERT_TRUE(from_->transport().Send(to_peer_, PushHeader(), payload_, 1).ok());
    ASSERT_TRUE(PollUntil([&] { return to_->received().size() == 1; }));
    ASSERT_TRUE(to_->transport().Send(to_->LastPeer(), PushHeader(), payload_, 1).ok());
    ASSERT_TRUE(PollUntil([&] { return from_->received().size() == 1; }));
    EXPECT_EQ(DecodeHeader(from_->received()[0].header)->payload_crc32c != 0, asks);
  }
}

TEST_F(ObservedTransportTest, LetsPassWhatIsNoFrame) {
  Connect(Checked(false, Checksums::kToAll), Checked(true, Checksums::kToAll));
  const Bytes no_frame = Pattern(kFrameHeaderBytes, 7);
  ASSERT_TRUE(from_->transport().Send(to_peer_, no_frame, payload_, 1).ok());
  ASSERT_TRUE(PollUntil([&] { return to_->received().size() == 1; }));
  EXPECT_EQ(to_->received()[0].header, no_frame);
  EXPECT_TRUE(to_->received()[0].status.ok());
}

TEST_F(ObservedTransportTest, RecordsWhatHappenedWithTheHeadersOfFrames) {
  Connect(MakeObservedTransport(Plain(false), {.recorder = &recorder_}), Plain(true));
  const FrameHeaderBytes header = EncodeHeader({.type = FrameType::kPush,
                                                .group = GroupId(12),
                                                .epoch = Epoch(3),
                                                .op = OpNumber(5),
                                                .bucket_elements = 100,
                                                .chunk_elements = 100,
                                                .chunk = ChunkNumber(7),
                                                .rank = Rank(2)});
  ASSERT_TRUE(from_->transport().Send(to_peer_, header, payload_, 77).ok());
  EXPECT_FALSE(from_->transport().Send(PeerId(999), header, payload_, 78).ok());
  const std::string secret = "a token that nobody may read";
  ASSERT_TRUE(from_->transport()
                  .SendNote(to_peer_, MakeHello({.type = FrameType::kHello, .group = GroupId(12), .epoch = Epoch(3)},
                                                std::as_bytes(std::span(secret)))
                                          .view())
                  .ok());
  ASSERT_TRUE(PollUntil([&] { return from_->Count(TransportEventKind::kSent) == 1; }));
  const std::string text = recorder_.Text({.monotonic_ns = UINT64_MAX, .unix_ms = 0});
  EXPECT_THAT(text, HasSubstr("peer up peer="));
  EXPECT_THAT(text,
              ContainsRegex(" send peer=[0-9]+ token=77 push group=12 epoch=3 rank=2 op=5 chunk=7 .*payload=400\n"));
  EXPECT_THAT(text, ContainsRegex(" send peer=999 token=78 .*FAILED\n"));
  EXPECT_THAT(text, ContainsRegex(" send note peer=[0-9]+ hello group=12 "));
  EXPECT_THAT(text, ContainsRegex(" sent .*token=77"));
  EXPECT_THAT(text, Not(HasSubstr("nobody may read")));
}

// Over shared memory, where a payload is summed where its sender has it.
TEST(ObservedSharedMemory, NothingThatWasChangedIsLentOrTakenAtOnce) {
  if (!MakeShmTransport({}).ok()) GTEST_SKIP() << "this kernel can't seal shared memory";
  for (const bool changed : {false, true}) {
    ShmTransportOptions options;
    options.listen_address = "127.0.0.1:1";
    Node to(MakeObservedTransport(MakeShmTransport(options).value(), {}));
    options.listen_address = "";
    std::unique_ptr<ShmTransport> plain = MakeShmTransport(options).value();
    const PeerId to_peer = plain->ConnectIfOnThisNode("127.0.0.1:1").value();
    Node from(std::move(plain));
    const auto poll_until = [&](const std::function<bool()>& done) {
      for (int round = 0; round < 1'000'000 && !done(); ++round) {
        from.Poll();
        to.Poll();
      }
      return done();
    };
    ASSERT_TRUE(poll_until([&] { return from.IsUp(to_peer); }));
    const Bytes payload = Pattern(400, 1);
    const uint32_t checksum = PayloadChecksum(payload) ^ (changed ? 1 : 0);
    ASSERT_TRUE(from.transport().Send(to_peer, PushHeader(checksum), payload, 1).ok());
    ASSERT_TRUE(poll_until([&] { return to.Count(TransportEventKind::kOffered) == 1; }));
    const Node::Seen offer = to.All(TransportEventKind::kOffered)[0];
    EXPECT_FALSE(to.transport().AcceptsAtOnce(offer.event.offer));
    const std::byte* const data = to.transport().lender()->Borrow(offer.event.offer);
    EXPECT_EQ(data != nullptr, !changed);
    if (changed) {
      Bytes buffer(payload.size());
      EXPECT_TRUE(absl::IsNotFound(to.transport().Accept(offer.event.offer, buffer, 1)));
      EXPECT_TRUE(poll_until([&] { return to.Count(TransportEventKind::kPeerDown) == 1; }));
    } else {
      EXPECT_TRUE(std::equal(payload.begin(), payload.end(), data));
      to.transport().lender()->Return(offer.event.offer);
    }
  }
}

}  // namespace
}  // namespace shoal
