#include "core/frame.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/bucket_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

std::string Hex(std::span<const std::byte> bytes) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// Every field differs, in every byte.
FrameHeader EveryField() {
  FrameHeader header;
  header.type = FrameType::kPush;
  header.codec = WireCodec(DataType::kFloat32, WireFormat::kBfloat16);
  header.reduce_op = ReduceOp::kPremulSum;
  header.group = GroupId(0x0102030405060708);
  header.epoch = Epoch(0x1112131415161718);
  header.op = OpNumber(0x2122232425262728);
  header.landed_watermark = OpNumber(0x3132333435363738);
  header.commit_watermark = OpNumber(0x4142434445464748);
  header.bucket_elements = 0x5152535455565758;
  header.first_element = 0x0162636465666768;
  header.premul_factor = 0.5;  // 3fe0000000000000
  header.chunk_elements = 0x00727374;
  header.chunk = ChunkNumber(0x00082838);
  header.rank = Rank(0x91929394);
  header.contributors = 0xa1a2a3a4;
  header.payload_crc32c = 0xb1b2b3b4;
  header.refusal = Refusal::kNoSlot;  // 0b
  header.in_one_go = true;
  header.in_flight = 0xc1;
  return header;
}

TEST(Frame, EveryFieldHasItsGoldenBytes) {
  EXPECT_EQ(Hex(EncodeHeader(EveryField())),
            "53484f4c"          // 0: magic "SHOL"
            "04"                // 4: wire version
            "04"                // 5: type
            "04"                // 6: dtype
            "03"                // 7: reduce op
            "0807060504030201"  // 8: group
            "1817161514131211"  // 16: epoch
            "2827262524232221"  // 24: op
            "3837363534333231"  // 32: landed watermark
            "4847464544434241"  // 40: commit watermark
            "5857565554535251"  // 48: bucket elements
            "6867666564636201"  // 56: first element
            "000000000000e03f"  // 64: premul factor
            "74737200"          // 72: chunk elements
            "38280800"          // 76: chunk
            "94939291"          // 80: rank
            "a4a3a2a1"          // 84: contributors
            "b4b3b2b1"          // 88: payload crc32c
            "0b"                // 92: refusal
            "01"                // 93: narrowed
            "01"                // 94: in one go
            "c1");              // 95: in flight
}

TEST(Frame, NumbersOfTypesAndRefusalsAreFrozen) {
  const std::vector<std::pair<FrameType, int>> types = {
      {FrameType::kHello, 1},    {FrameType::kWelcome, 2},     {FrameType::kRefuse, 3},  {FrameType::kPush, 4},
      {FrameType::kResult, 5},   {FrameType::kCommit, 6},      {FrameType::kWaiting, 7}, {FrameType::kGroupFailed, 8},
      {FrameType::kRankLost, 9}, {FrameType::kLeaveGroup, 10}, {FrameType::kBye, 11},    {FrameType::kProbe, 12},
      {FrameType::kAsk, 13},
  };
  for (const auto& [type, number] : types) EXPECT_EQ(static_cast<int>(type), number) << FrameTypeName(type);
  const std::vector<std::string> refusals = {
      "none",           "malformed",           "wire-version",    "bad-token", "unknown-group",      "wrong-rank",
      "rank-taken",     "stale-epoch",         "layout-mismatch", "duplicate", "stale-op",           "no-slot",
      "no-slot-memory", "group-failed-before", "draining",        "preempted", "group-lacked-memory"};
  ASSERT_EQ(refusals.size(), static_cast<size_t>(kRefusalCount));
  for (size_t i = 0; i < refusals.size(); ++i) EXPECT_EQ(RefusalName(static_cast<Refusal>(i)), refusals[i]);
  EXPECT_EQ(FrameTypeName(static_cast<FrameType>(77)), "unknown");
  EXPECT_EQ(RefusalName(static_cast<Refusal>(77)), "unknown");
}

TEST(Frame, EveryTypeAndRefusalComesBackAsItWas) {
  for (int type = 1; type <= 13; ++type) {
    for (int refusal = 0; refusal < kRefusalCount; ++refusal) {
      FrameHeader header = EveryField();
      header.type = static_cast<FrameType>(type);
      header.refusal = static_cast<Refusal>(refusal);
      const absl::StatusOr<FrameHeader> decoded = DecodeHeader(EncodeHeader(header));
      ASSERT_TRUE(decoded.ok()) << FrameTypeName(header.type) << ": " << decoded.status();
      EXPECT_EQ(*decoded, header) << FrameTypeName(header.type);
    }
  }
}

// What is wrong with a push whose header was changed by `change`; empty if it was taken.
template <typename Change>
std::string Complaint(Change change) {
  FrameHeader header = EveryField();
  header.bucket_elements = 1000;
  header.first_element = 100;
  header.chunk_elements = 900;
  change(&header);
  const absl::StatusOr<FrameHeader> decoded = DecodeHeader(EncodeHeader(header));
  if (decoded.ok()) return "";
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(decoded.status().message());
}

TEST(Frame, FieldsOfAPushAreCheckedBeforeAnybodyUsesThem) {
  EXPECT_EQ(Complaint([](FrameHeader*) {}), "");
  EXPECT_THAT(Complaint([](FrameHeader* h) { h->chunk_elements = 0; }), HasSubstr("has no elements"));
  EXPECT_THAT(Complaint([](FrameHeader* h) { h->bucket_elements = 0; }), HasSubstr("has no elements"));
  EXPECT_THAT(Complaint([](FrameHeader* h) { h->first_element = 1000; }), HasSubstr("beyond its bucket"));
  EXPECT_THAT(Complaint([](FrameHeader* h) { h->first_element = 101; }), HasSubstr("beyond its bucket"));
  EXPECT_THAT(Complaint([](FrameHeader* h) { h->first_element = UINT64_MAX; }), HasSubstr("beyond its bucket"));
  EXPECT_THAT(Complaint([](FrameHeader* h) { h->chunk_elements = UINT32_MAX; }), HasSubstr("beyond its bucket"));
  EXPECT_THAT(Complaint([](FrameHeader* h) {
                h->bucket_elements = UINT64_MAX;
                h->chunk_elements = kMaxChunkBytes / 2 + 1;
              }),
              HasSubstr("larger than any chunk"));
  EXPECT_THAT(Complaint([](FrameHeader* h) { h->chunk = ChunkNumber(kMaxChunksPerBucket); }),
              HasSubstr("chunk number"));
  EXPECT_THAT(Complaint([](FrameHeader* h) { h->op = OpNumber(0); }), HasSubstr("op number"));
  EXPECT_THAT(Complaint([](FrameHeader* h) {
                h->reduce_op = ReduceOp::kPremulSum;
                h->codec = WireCodec(DataType::kInt16);
              }),
              HasSubstr("premul-sum of int16"));
  for (double factor : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(Complaint([factor](FrameHeader* h) { h->premul_factor = factor; }), HasSubstr("not finite"));
  }
}

std::string ComplaintAboutByte(size_t offset, uint8_t value) {
  FrameHeaderBytes bytes = EncodeHeader({.type = FrameType::kBye});
  bytes[offset] = std::byte{value};
  const absl::StatusOr<FrameHeader> decoded = DecodeHeader(bytes);
  return decoded.ok() ? "" : std::string(decoded.status().message());
}

TEST(Frame, UnknownNumbersAreRefusedByName) {
  for (size_t offset = 0; offset < 4; ++offset) {
    EXPECT_THAT(ComplaintAboutByte(offset, 0xff), HasSubstr("does not start as a Shoal frame"));
  }
  for (int value : {0, 14, 255}) EXPECT_THAT(ComplaintAboutByte(5, static_cast<uint8_t>(value)), HasSubstr("type"));
  for (int value : {0, 10, 255}) EXPECT_THAT(ComplaintAboutByte(6, static_cast<uint8_t>(value)), HasSubstr("dtype"));
  for (int value : {0, 7, 255}) EXPECT_THAT(ComplaintAboutByte(7, static_cast<uint8_t>(value)), HasSubstr("reduce op"));
  for (int value : {17, 255}) EXPECT_THAT(ComplaintAboutByte(92, static_cast<uint8_t>(value)), HasSubstr("refusal"));
  // 1 stands for a narrower dtype only, and the frame's is float32.
  for (int value : {1, 4, 255}) EXPECT_THAT(ComplaintAboutByte(93, static_cast<uint8_t>(value)), HasSubstr("narrowed"));
}

// How an older release tells them apart: it knows no float32 that is narrowed to dtype 5, and no dtype 10 at all, and
// refuses the frame.
TEST(Frame, Int8BlocksAreDtype5Narrowed) {
  FrameHeader header{.type = FrameType::kPush, .op = OpNumber(1), .bucket_elements = 40, .chunk_elements = 40};
  header.codec = WireCodec(DataType::kFloat32, WireFormat::kInt8);
  const FrameHeaderBytes bytes = EncodeHeader(header);
  EXPECT_EQ(bytes[6], std::byte{5});
  EXPECT_EQ(bytes[93], std::byte{1});
  EXPECT_EQ(DecodeHeader(bytes)->payload_bytes(), 42u);
  header.reduce_op = ReduceOp::kPremulSum;
  EXPECT_TRUE(DecodeHeader(EncodeHeader(header)).ok()) << "float32 has a premul-sum";
}

TEST(Frame, Float8BlocksAreDtype10Narrowed) {
  FrameHeader header{.type = FrameType::kPush, .op = OpNumber(1), .bucket_elements = 40, .chunk_elements = 40};
  header.codec = WireCodec(DataType::kFloat32, WireFormat::kFloat8);
  FrameHeaderBytes bytes = EncodeHeader(header);
  EXPECT_EQ(bytes[6], std::byte{10});
  EXPECT_EQ(bytes[93], std::byte{1});
  EXPECT_EQ(DecodeHeader(bytes)->payload_bytes(), 42u);
  EXPECT_EQ(DecodeHeader(bytes)->codec, header.codec);
  bytes[93] = std::byte{0};
  EXPECT_THAT(std::string(DecodeHeader(bytes).status().message()), HasSubstr("dtype is unknown"))
      << "no tensor has such elements";
}

// The dtype and the flag say the codec: all that are said come back, and nothing else is taken.
TEST(Frame, ACodecIsADtypeAndWhetherItWasNarrowed) {
  for (uint8_t dtype = 1; dtype <= 12; ++dtype) {
    for (uint8_t narrowed = 0; narrowed <= 1; ++narrowed) {
      FrameHeaderBytes bytes = EncodeHeader({.type = FrameType::kBye});
      bytes[6] = std::byte{dtype};
      bytes[93] = std::byte{narrowed};
      const absl::StatusOr<FrameHeader> decoded = DecodeHeader(bytes);
      const std::optional<WireFormat> wire = WireFormatFromNumber(dtype);
      ASSERT_EQ(decoded.ok(), narrowed == 0 ? dtype <= 9 : wire.has_value()) << int{dtype};
      if (!decoded.ok()) continue;
      const WireCodec expected =
          narrowed == 0 ? WireCodec(static_cast<DataType>(dtype)) : WireCodec(DataType::kFloat32, *wire);
      EXPECT_EQ(decoded->codec, expected) << int{dtype};
      EXPECT_EQ(EncodeHeader(*decoded), bytes) << int{dtype};
    }
  }
}

// It only tells what a measurement may count, and older workers send zeros there.
TEST(Frame, WhatPushesTellOfTheirPaceIsNeverRefused) {
  for (int value : {0, 1, 2, 255}) {
    FrameHeaderBytes bytes = EncodeHeader({.type = FrameType::kBye});
    bytes[94] = std::byte{static_cast<uint8_t>(value)};
    const absl::StatusOr<FrameHeader> decoded = DecodeHeader(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->in_one_go, value == 1);
    EXPECT_EQ(decoded->in_flight, 0);
    bytes[95] = std::byte{static_cast<uint8_t>(value)};
    ASSERT_TRUE(DecodeHeader(bytes).ok());
    EXPECT_EQ(DecodeHeader(bytes)->in_flight, value);
  }
}

TEST(Frame, AnotherWireVersionIsNamedWithBothNumbers) {
  FrameHeaderBytes bytes = EncodeHeader({.type = FrameType::kBye});
  bytes[4] = std::byte{9};
  const absl::Status status = DecodeHeader(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("wire version 9, this process 4"));
}

TEST(Frame, EveryTruncationIsRefused) {
  const FrameHeaderBytes bytes = EncodeHeader(EveryField());
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly that size, so that a sanitizer sees any read beyond it.
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(DecodeHeader(cut).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(Frame, RandomBytesNeverCrashAndWhatIsTakenIsInRange) {
  std::mt19937_64 random(7);
  const FrameHeaderBytes good = EncodeHeader(EveryField());
  int taken = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::vector<std::byte> bytes(good.begin(), good.end());
    if (round % 4 == 0) bytes.resize(random() % 120);
    const size_t changes = 1 + random() % 8;
    for (size_t i = 0; i < changes && !bytes.empty(); ++i) bytes[random() % bytes.size()] = std::byte(random());
    const absl::StatusOr<FrameHeader> header = DecodeHeader(bytes);
    if (!header.ok()) continue;
    ++taken;
    if (header->type != FrameType::kPush && header->type != FrameType::kResult) continue;
    ASSERT_LE(header->first_element + header->chunk_elements, header->bucket_elements);
    ASSERT_LE(header->payload_bytes(), kMaxChunkBytes);
    ASSERT_TRUE(std::isfinite(header->premul_factor));
  }
  EXPECT_GT(taken, 1000) << "the mutations are too wild to test what comes after the first checks";
}

std::span<const std::byte> Body(const Note& note) { return note.view().subspan(kFrameHeaderBytes); }

GroupToken SomeToken() {
  GroupToken token;
  token.job = JobId(0x0102030405060708);
  token.group = GroupId(0x1112131415161718);
  token.epoch = Epoch(0x2122232425262728);
  token.incarnation = Incarnation(0x3132333435363738);
  token.expires_at_unix_s = 0x4142434445464748;
  token.rank = Rank(0x51525354);
  token.group_size = 0x61626364;
  token.max_chunk_bytes = 0x71727374;
  token.credit_chunks = 0x81828384;
  token.ranks_per_contribution = 0x91929394;
  for (size_t i = 0; i < token.signature.size(); ++i) token.signature[i] = std::byte(0xa0 + i);
  return token;
}

TEST(Frame, ATokenHasItsGoldenBytesAndComesBack) {
  const auto bytes = EncodeToken(SomeToken());
  EXPECT_EQ(Hex(bytes),
            "0807060504030201"  // job
            "1817161514131211"  // group
            "2827262524232221"  // epoch
            "3837363534333231"  // incarnation
            "4847464544434241"  // expires at
            "54535251"          // rank
            "64636261"          // group size
            "74737271"          // max chunk bytes
            "84838281"          // credit in chunks
            "94939291"          // ranks per contribution
            "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf");
  const Note hello = MakeHello({.type = FrameType::kHello}, bytes);
  EXPECT_EQ(hello.size, kFrameHeaderBytes + kGroupTokenBytes);
  const absl::StatusOr<GroupToken> token = DecodeToken(Body(hello));
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(*token, SomeToken());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeToken(std::span(bytes).first(size)).ok()) << size;
  }
}

TEST(Frame, AWelcomeHasItsGoldenBytesAndComesBack) {
  const Welcome welcome{.incarnation = Incarnation(0x0102030405060708), .credit_chunks = 0x11121314};
  const Note note = MakeWelcome({.type = FrameType::kWelcome}, welcome);
  EXPECT_EQ(Hex(Body(note)), "080706050403020114131211");
  ASSERT_TRUE(DecodeWelcome(Body(note)).ok());
  EXPECT_EQ(*DecodeWelcome(Body(note)), welcome);
  for (size_t size = 0; size < 12; ++size) EXPECT_FALSE(DecodeWelcome(Body(note).first(size)).ok()) << size;
  EXPECT_FALSE(DecodeWelcome(Body(MakeWelcome({}, {.credit_chunks = 0}))).ok());
}

TEST(Frame, AWaitingNoteHasItsGoldenBytesAndComesBack) {
  Waiting waiting{.missing_count = 9, .listed_count = 2};
  waiting.ranks[0] = Rank(3);
  waiting.ranks[1] = Rank(0x01020304);
  const Note note = MakeWaiting({.type = FrameType::kWaiting}, waiting);
  EXPECT_EQ(Hex(Body(note)),
            "09000000"
            "02000000"
            "03000000"
            "04030201" +
                std::string(48, '0'));
  ASSERT_TRUE(DecodeWaiting(Body(note)).ok());
  EXPECT_EQ(*DecodeWaiting(Body(note)), waiting);
  for (size_t size = 0; size < 40; ++size) EXPECT_FALSE(DecodeWaiting(Body(note).first(size)).ok()) << size;
  waiting.listed_count = kMaxMissingRanks + 1;
  EXPECT_FALSE(DecodeWaiting(Body(MakeWaiting({}, waiting))).ok());
}

TEST(Frame, TextIsCutToItsLimitAndMadePrintable) {
  const std::string text = "rank 3 \x1b[31mwas\nlost\xff";
  EXPECT_EQ(DecodeText(Body(MakeTextNote({}, text))), "rank 3 ?[31mwas?lost?");
  const Note longest = MakeTextNote({}, std::string(5000, 'x'));
  EXPECT_EQ(longest.size, kFrameHeaderBytes + kMaxReasonTextBytes);
  EXPECT_LE(longest.size, kMaxNoteBytes);
  EXPECT_EQ(DecodeText(Body(longest)), std::string(kMaxReasonTextBytes, 'x'));
  EXPECT_EQ(DecodeText({}), "");
  const std::vector<std::byte> too_long(2000, std::byte{'y'});
  EXPECT_EQ(DecodeText(too_long).size(), kMaxReasonTextBytes);
}

TEST(Frame, AHelloWithATokenThatIsTooLongStaysWithinANote) {
  const std::vector<std::byte> token(4000, std::byte{1});
  EXPECT_EQ(MakeHello({.type = FrameType::kHello}, token).size, kMaxNoteBytes);
}

}  // namespace
}  // namespace shoal
