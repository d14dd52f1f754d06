// Checksums over the loopback transport: the suite's clauses, and what they are for.
#include "net/checksum_transport.h"

#include "gmock/gmock.h"
#include "net/shm/shm_transport.h"
#include "tests/conformance/transport/loopback_under_test.h"
#include "tests/conformance/transport/transport_suite.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TransportKind ChecksumKind() {
  auto network = std::make_shared<LoopbackNetwork>();
  return {.name = "OverLoopback", .make = [network](const TransportSetup& setup) {
            return MakeChecksumTransport(MakeLoopbackUnderTest(network.get(), setup), Checksums::kToAll);
          }};
}

INSTANTIATE_TEST_SUITE_P(Checksum, TransportSuite, testing::Values(ChecksumKind()), TransportKindName);
INSTANTIATE_TEST_SUITE_P(Checksum, TransportWakeSuite, testing::Values(ChecksumKind()), TransportKindName);

FrameHeaderBytes PushHeader(uint32_t checksum = 0) {
  return EncodeHeader({.type = FrameType::kPush,
                       .op = OpNumber(1),
                       .bucket_elements = 100,
                       .chunk_elements = 100,
                       .payload_crc32c = checksum});
}

// Two transports that are connected, driven by hand.
class ChecksumTransportTest : public testing::Test {
 protected:
  std::unique_ptr<Transport> Plain(bool listen) { return MakeLoopbackUnderTest(&network_, {.listen = listen}); }
  std::unique_ptr<Transport> Checked(bool listen, Checksums mode) { return MakeChecksumTransport(Plain(listen), mode); }

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

TEST_F(ChecksumTransportTest, WhatArrivesAsItWasSentLands) {
  Connect(Checked(false, Checksums::kToAll), Checked(true, Checksums::kToAskers));
  ASSERT_TRUE(from_->transport().Send(to_peer_, PushHeader(), payload_, 1).ok());
  ASSERT_TRUE(PollUntil([&] { return to_->received().size() == 1; }));
  EXPECT_TRUE(to_->received()[0].status.ok()) << to_->received()[0].status;
  EXPECT_EQ(to_->received()[0].payload, payload_);
  EXPECT_EQ(DecodeHeader(to_->received()[0].header)->payload_crc32c, PayloadChecksum(payload_));
}

TEST_F(ChecksumTransportTest, WhatArrivesChangedIsALossOfDataAndCutsTheConnection) {
  Connect(Plain(false), Checked(true, Checksums::kToAskers));
  ASSERT_TRUE(from_->transport().Send(to_peer_, PushHeader(PayloadChecksum(payload_) ^ 1), payload_, 1).ok());
  ASSERT_TRUE(PollUntil([&] { return from_->IsDown(to_peer_) && to_->Count(TransportEventKind::kPeerDown) == 1; }));
  ASSERT_EQ(to_->received().size(), 1u);
  EXPECT_TRUE(absl::IsDataLoss(to_->received()[0].status)) << to_->received()[0].status;
  EXPECT_THAT(std::string(to_->received()[0].status.message()), HasSubstr("400 bytes was changed on its way"));
  EXPECT_TRUE(absl::IsDataLoss(to_->All(TransportEventKind::kPeerDown)[0].event.status));
  EXPECT_EQ(to_->transport().Report({}).corrupted_payloads, 1u);
  to_->ExpectPeerOrder();
}

TEST_F(ChecksumTransportTest, AnswersWithChecksumsThoseWhoSendThem) {
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

TEST_F(ChecksumTransportTest, LetsPassWhatIsNoFrame) {
  Connect(Checked(false, Checksums::kToAll), Checked(true, Checksums::kToAll));
  const Bytes no_frame = Pattern(kFrameHeaderBytes, 7);
  ASSERT_TRUE(from_->transport().Send(to_peer_, no_frame, payload_, 1).ok());
  ASSERT_TRUE(PollUntil([&] { return to_->received().size() == 1; }));
  EXPECT_EQ(to_->received()[0].header, no_frame);
  EXPECT_TRUE(to_->received()[0].status.ok());
}

// Over shared memory, where a payload is summed where its sender has it.
TEST(ChecksumOverSharedMemory, NothingThatWasChangedIsLentOrTakenAtOnce) {
  if (!MakeShmTransport({}).ok()) GTEST_SKIP() << "this kernel can't seal shared memory";
  for (const bool changed : {false, true}) {
    ShmTransportOptions options;
    options.listen_address = "127.0.0.1:1";
    Node to(MakeChecksumTransport(MakeShmTransport(options).value(), Checksums::kToAskers));
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
