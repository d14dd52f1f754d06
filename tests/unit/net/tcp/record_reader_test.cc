// Records as they come over a connection: whole, in pieces of any size, and as no Shoal process writes them.
#include "net/tcp/record_reader.h"

#include <cstring>
#include <random>

#include "core/frame.h"
#include "tests/conformance/transport/transport_harness.h"

namespace shoal {
namespace {

struct Record {
  RecordKind kind = RecordKind::kNote;
  Bytes header;
  Bytes payload;
};

void Append(const Record& record, Bytes* stream) {
  const auto head = EncodeRecordHead({.kind = record.kind,
                                      .header_bytes = static_cast<uint16_t>(record.header.size()),
                                      .payload_bytes = record.payload.size()});
  for (const std::span<const std::byte> part :
       {std::span<const std::byte>(head), std::span<const std::byte>(record.header),
        std::span<const std::byte>(record.payload)}) {
    stream->insert(stream->end(), part.begin(), part.end());
  }
}

std::vector<Record> SomeRecords(std::mt19937_64* random) {
  std::vector<Record> records;
  for (uint64_t i = 0; i < 60; ++i) {
    Record record{.header = Pattern(1 + (*random)() % kMaxNoteBytes, i)};
    if ((*random)() % 2 == 0) {
      record.kind = RecordKind::kPayload;
      record.payload = Pattern(1 + (*random)() % (i % 7 == 0 ? 50'000 : 3000), 1000 + i);
    }
    records.push_back(std::move(record));
  }
  return records;
}

// Reads a stream in pieces of random sizes. Every third payload is dropped, and every fifth moves on its way.
class Receiver {
 public:
  Receiver(Bytes stream, std::mt19937_64* random) : stream_(std::move(stream)), random_(*random), scratch_(1000) {}

  // OK: it was read to its end.
  absl::Status Run() {
    for (;;) {
      absl::StatusOr<std::optional<RecordReader::Item>> item = reader_.Next();
      if (!item.ok()) return item.status();
      if (item->has_value()) {
        Take(**item);
      } else if (at_ == stream_.size()) {
        return absl::OkStatus();
      } else {
        Feed();
      }
    }
  }

  std::vector<Record> records;
  size_t dropped = 0;

 private:
  void Take(const RecordReader::Item& item) {
    if (item.what == RecordReader::Item::What::kPayloadEnds) {
      if (!drops_) records.back().payload = place_;
      return;
    }
    records.push_back({.kind = item.kind,
                       .header = Bytes(item.bytes.begin(), item.bytes.end()),
                       .payload = Bytes(item.payload.begin(), item.payload.end())});
    if (item.what != RecordReader::Item::What::kPayloadBegins) return;
    drops_ = ++payloads_ % 3 == 0;
    place_ = Bytes(item.payload_bytes);
    if (drops_) {
      ++dropped;
      reader_.DropPayload();
    } else {
      reader_.PutPayload(place_);
    }
  }

  void Feed() {
    if (!drops_ && !place_.empty() && payloads_ % 5 == 0 && !reader_.AwaitsPlace() && in_payload()) {
      Bytes elsewhere(place_.size());
      reader_.PutPayload(elsewhere);
      std::ranges::fill(place_, std::byte{0xee});
      place_.swap(elsewhere);  // swapping moves no bytes
    }
    size_t bytes = std::min<size_t>(1 + random_() % (random_() % 4 == 0 ? 70'000 : 5000), stream_.size() - at_);
    size_t received = 0;
    for (const iovec& space : reader_.Space(scratch_)) {
      const size_t here = std::min(space.iov_len, bytes - received);
      std::memcpy(space.iov_base, stream_.data() + at_, here);
      at_ += here;
      received += here;
    }
    reader_.Received(received);
  }
  bool in_payload() const {
    return !records.empty() && records.back().kind == RecordKind::kPayload && records.back().payload.empty();
  }

  const Bytes stream_;
  std::mt19937_64& random_;
  Bytes scratch_;
  RecordReader reader_;
  size_t at_ = 0;
  Bytes place_;
  bool drops_ = false;
  size_t payloads_ = 0;
};

TEST(RecordReaderTest, RecordsComeAsTheyWereSentInPiecesOfAnySize) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    const std::vector<Record> sent = SomeRecords(&random);
    Bytes stream;
    for (const Record& record : sent) Append(record, &stream);
    Receiver receiver(stream, &random);
    ASSERT_TRUE(receiver.Run().ok());
    ASSERT_EQ(receiver.records.size(), sent.size()) << "seed " << seed;
    size_t without_payload = 0;
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(receiver.records[i].kind, sent[i].kind);
      EXPECT_TRUE(receiver.records[i].header == sent[i].header) << "seed " << seed << ", record " << i;
      if (sent[i].kind == RecordKind::kPayload && receiver.records[i].payload.empty()) {
        ++without_payload;
      } else {
        EXPECT_TRUE(receiver.records[i].payload == sent[i].payload) << "seed " << seed << ", record " << i;
      }
    }
    EXPECT_EQ(without_payload, receiver.dropped);
  }
}

TEST(RecordReaderTest, WhatNoShoalProcessWritesIsAnErrorAtItsHead) {
  const RecordHead good{.kind = RecordKind::kNote, .header_bytes = 5};
  EXPECT_TRUE(DecodeRecordHead(EncodeRecordHead(good)).ok());
  const std::vector<RecordHead> bad = {
      {.kind = static_cast<RecordKind>(0), .header_bytes = 5},
      {.kind = static_cast<RecordKind>(6), .header_bytes = 5},
      {.kind = RecordKind::kNote, .header_bytes = 0},
      {.kind = RecordKind::kNote, .header_bytes = kMaxNoteBytes + 1},
      {.kind = RecordKind::kNote, .header_bytes = 5, .payload_bytes = 1},
      {.kind = RecordKind::kPayload, .header_bytes = 5, .payload_bytes = 0},
  };
  for (const RecordHead& head : bad) {
    std::mt19937_64 random(1);
    const auto bytes = EncodeRecordHead(head);
    Receiver receiver(Bytes(bytes.begin(), bytes.end()), &random);
    EXPECT_TRUE(absl::IsInvalidArgument(receiver.Run())) << static_cast<int>(head.kind) << " " << head.header_bytes;
  }
}

TEST(RecordReaderTest, RandomBytesAreARecordOrAnError) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    Receiver receiver(Pattern(1 + random() % 9000, seed), &random);
    EXPECT_TRUE(absl::IsInvalidArgument(receiver.Run()) || receiver.records.size() < 2);
  }
}

TEST(RecordTest, TwoReleasesAgreeOnTheNewestVersionThatBothSpeak) {
  EXPECT_EQ(AgreeOnVersion(GreetingBody({})).value(), kNewestTcpVersion);
  EXPECT_EQ(AgreeOnVersion(GreetingBody({.oldest = kOldestTcpVersion, .newest = 999})).value(), kNewestTcpVersion);
  const absl::Status newer = AgreeOnVersion(GreetingBody({.oldest = 900, .newest = 999})).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(newer));
  EXPECT_NE(newer.ToString().find("900 to 999"), std::string::npos) << newer;
  EXPECT_TRUE(absl::IsInvalidArgument(AgreeOnVersion(GreetingBody({.oldest = 3, .newest = 2})).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(AgreeOnVersion({}).status()));
  EXPECT_EQ(VersionOfWelcome(WelcomeBody(kNewestTcpVersion)).value(), kNewestTcpVersion);
  EXPECT_FALSE(VersionOfWelcome(WelcomeBody(kNewestTcpVersion + 1)).ok());
}

TEST(RecordTest, AGreetingSaysWhatCarriesPayloads) {
  EXPECT_EQ(WhatGreetingCarries(GreetingBody({})), "");
  EXPECT_EQ(WhatGreetingCarries(GreetingBody({}, "ucx=1.22 transports=rc")), "ucx=1.22 transports=rc");
  EXPECT_EQ(WhatGreetingCarries(GreetingBody({}, "a\x1b[2J")), "a?[2J");
  EXPECT_EQ(GreetingBody({}, std::string(10'000, 'x')).size(), kMaxNoteBytes);
  EXPECT_EQ(WhatGreetingCarries({}), "");
}

TEST(RecordTest, ARefusalKeepsItsReason) {
  const absl::Status never = ReasonOfRefusal(RefusalBody(absl::FailedPreconditionError("another version")));
  EXPECT_EQ(never, absl::FailedPreconditionError("another version"));
  EXPECT_EQ(ReasonOfRefusal(RefusalBody(absl::InternalError("no room"))), absl::UnavailableError("no room"));
  EXPECT_TRUE(absl::IsUnavailable(ReasonOfRefusal({})));
}

}  // namespace
}  // namespace shoal
