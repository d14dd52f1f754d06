#include "net/ucx/handshake_message.h"

#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

HandshakeMessage Message(HandshakeKind kind) {
  HandshakeMessage message;
  message.kind = kind;
  message.port = 0x1234;
  if (kind == HandshakeKind::kGreeting) message.settings = "a=b";
  if (kind == HandshakeKind::kRefusal) message.refusal = "no room";
  return message;
}

constexpr HandshakeKind kKinds[] = {HandshakeKind::kGreeting, HandshakeKind::kWelcome, HandshakeKind::kRefusal};

TEST(HandshakeMessageTest, ReadsWhatWasWritten) {
  for (const HandshakeKind kind : kKinds) {
    const absl::StatusOr<std::optional<HandshakeMessage>> read = DecodeHandshake(EncodeHandshake(Message(kind)));
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_TRUE(read->has_value());
    EXPECT_EQ((*read)->kind, kind);
    EXPECT_EQ((*read)->version, kTransportVersion);
    EXPECT_EQ((*read)->port, kind == HandshakeKind::kRefusal ? 0 : 0x1234);
    EXPECT_EQ((*read)->settings, kind == HandshakeKind::kGreeting ? "a=b" : "");
    EXPECT_EQ((*read)->refusal, kind == HandshakeKind::kRefusal ? "no room" : "");
  }
}

TEST(HandshakeMessageTest, TheLayoutStaysAsItIs) {
  // Versions of Shoal can only refuse each other while all of them lay it out like this.
  const std::vector<std::byte> bytes = EncodeHandshake(Message(HandshakeKind::kGreeting));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text.substr(0, 27), std::string("SHOALNET\x01\0\0\0\x01\0\0\0\x07\0\0\0\x34\x12\0\0a=b", 27));
  EXPECT_EQ(text.size(), 35u);
}

TEST(HandshakeMessageTest, EveryBeginningAsksForMore) {
  for (const HandshakeKind kind : kKinds) {
    const std::vector<std::byte> bytes = EncodeHandshake(Message(kind));
    for (size_t size = 0; size < bytes.size(); ++size) {
      const absl::StatusOr<std::optional<HandshakeMessage>> read = DecodeHandshake(std::span(bytes).first(size));
      ASSERT_TRUE(read.ok()) << size << ": " << read.status();
      EXPECT_FALSE(read->has_value()) << size;
    }
  }
}

TEST(HandshakeMessageTest, EveryFlippedBitIsNoticed) {
  for (const HandshakeKind kind : kKinds) {
    const std::vector<std::byte> bytes = EncodeHandshake(Message(kind));
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::vector<std::byte> flipped = bytes;
      flipped[bit / 8] ^= std::byte{1} << (bit % 8);
      const absl::StatusOr<std::optional<HandshakeMessage>> read = DecodeHandshake(flipped);
      // A greater length, if it is a possible one, is noticed when that much has come.
      EXPECT_TRUE(!read.ok() || !read->has_value()) << "bit " << bit;
      flipped.resize(kMaxHandshakeBytes + 1);
      EXPECT_FALSE(DecodeHandshake(flipped).ok()) << "bit " << bit;
    }
  }
}

TEST(HandshakeMessageTest, AnotherVersionIsNamed) {
  HandshakeMessage newer = Message(HandshakeKind::kGreeting);
  newer.version = 7;
  const absl::Status status = DecodeHandshake(EncodeHandshake(newer)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("7 of who speaks, 1 of who listens"), std::string::npos) << status;
  newer = Message(HandshakeKind::kRefusal);
  newer.version = 7;
  const absl::StatusOr<std::optional<HandshakeMessage>> refusal = DecodeHandshake(EncodeHandshake(newer));
  ASSERT_TRUE(refusal.ok() && refusal->has_value());
  EXPECT_EQ((*refusal)->version, 7u);
  EXPECT_EQ((*refusal)->refusal, "no room");
}

TEST(HandshakeMessageTest, TextsAreCutAndPrintable) {
  HandshakeMessage refusal = Message(HandshakeKind::kRefusal);
  refusal.refusal = std::string("a\nb\x7f\xc3\xa4") + std::string(1000, 'x');
  const std::vector<std::byte> bytes = EncodeHandshake(refusal);
  EXPECT_EQ(bytes.size(), kMaxHandshakeBytes);
  const absl::StatusOr<std::optional<HandshakeMessage>> read = DecodeHandshake(bytes);
  ASSERT_TRUE(read.ok() && read->has_value());
  EXPECT_EQ((*read)->refusal, "a?b???" + std::string(kMaxRefusalBytes - 6, 'x'));
}

TEST(HandshakeMessageTest, ImpossiblePortsAreRefused) {
  HandshakeMessage greeting = Message(HandshakeKind::kGreeting);
  greeting.port = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(DecodeHandshake(EncodeHandshake(greeting)).status()));
}

}  // namespace
}  // namespace shoal
