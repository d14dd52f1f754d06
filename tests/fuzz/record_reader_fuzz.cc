// What takes the bytes of a TCP connection apart: whatever they are, and in whatever pieces they come, it reads what a
// decoder reads that has all of them at once, holds no more than it may, and writes nowhere but where it was told to.
//
// The input says how the pieces are cut and what becomes of payloads, and then, part by part, what the bytes are.
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "net/tcp/record_reader.h"
#include "tests/fuzz/fuzz_input.h"

namespace shoal {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kMaxStreamBytes = 16 << 10;  // of one input: more only make it slower
constexpr size_t kMaxRunBytes = 8 << 10;
constexpr size_t kMaxKeptBytes = 16 << 10;  // a payload beyond it is dropped
constexpr size_t kGuardBytes = 64;          // behind the place of a payload
constexpr size_t kScratchBytes = 3000;

// Memory for all inputs: were it of each one's size, the sanitizer would keep more of it than a fuzzer may have.
struct Memory {
  Bytes stream;
  Bytes scratch = Bytes(kScratchBytes);
  // Where payloads go, by turns.
  std::array<Bytes, 2> places = {Bytes(kMaxKeptBytes + kGuardBytes), Bytes(kMaxKeptBytes + kGuardBytes)};
};

void TakeStream(FuzzInput* input, Bytes* stream) {
  static const Bytes pattern = [] {
    Bytes bytes(kMaxStreamBytes + kMaxRunBytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 167 >> 3);
    return bytes;
  }();
  stream->clear();
  while (!input->empty() && stream->size() < kMaxStreamBytes) {
    switch (input->TakeBelow(4)) {
      case 0: {
        const std::span<const std::byte> literal = input->Take(1 + input->TakeBelow(64));
        stream->insert(stream->end(), literal.begin(), literal.end());
        break;
      }
      case 1: {
        // A head as a Shoal process writes it, in most cases.
        const auto head = EncodeRecordHead({.kind = static_cast<RecordKind>(input->TakeBelow(7)),
                                            .header_bytes = static_cast<uint16_t>(input->TakeNumber<uint16_t>() % 520),
                                            .payload_bytes = input->TakeNumber<uint16_t>()});
        stream->insert(stream->end(), head.begin(), head.end());
        break;
      }
      default: {
        // Bytes that differ, so that one in a wrong place shows.
        const auto begin = pattern.begin() + static_cast<ptrdiff_t>(stream->size());
        stream->insert(stream->end(), begin, begin + input->TakeNumber<uint16_t>() % kMaxRunBytes);
      }
    }
  }
}

// The plainest decoder there is, with all bytes before it.
struct Reference {
  struct Record {
    uint64_t kind = 0;
    uint64_t payload_bytes = 0;
    size_t header_begin = 0;
    size_t header_end = 0;  // the payload begins here
  };

  explicit Reference(const Bytes& stream) {
    while (stream.size() - end >= 16) {
      const auto number = [&](size_t at, size_t bytes) {
        uint64_t value = 0;
        for (size_t i = bytes; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(stream[end + at + i]);
        return value;
      };
      const uint64_t kind = number(0, 2);
      const uint64_t header = number(2, 2);
      const uint64_t payload = number(8, 8);
      const bool may_be = kind >= 1 && kind <= 5 && number(4, 4) == 0 && header <= 512 &&
                          (kind == 5 ? payload > 0 : header > 0 && payload == 0);
      if (!may_be) {
        is_bad = true;
        return;
      }
      if (stream.size() - end < 16 + header) return;
      records.push_back(
          {.kind = kind, .payload_bytes = payload, .header_begin = end + 16, .header_end = end + 16 + header});
      end = records.back().header_end;
      if (stream.size() - end < payload) {
        ends_in_payload = true;
        return;
      }
      end += payload;
    }
  }

  std::vector<Record> records;
  size_t end = 0;  // of the last record that is whole, or the beginning of the payload that isn't
  bool ends_in_payload = false;
  bool is_bad = false;  // what is at `end` is no record
};

bool AreSame(std::span<const std::byte> one, std::span<const std::byte> other) {
  return one.size() == other.size() && (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

class ReaderUnderFuzz {
 public:
  ReaderUnderFuzz(std::span<const std::byte> choices, Memory* memory)
      : choices_(choices), stream_(memory->stream), reference_(stream_), memory_(*memory) {}

  void Run() {
    for (;;) {
      const absl::StatusOr<std::optional<RecordReader::Item>> item = reader_.Next();
      if (!item.ok()) return RequireBad(item.status());
      if (item->has_value()) {
        Take(**item);
      } else if (reader_.AwaitsPlace()) {
        GivePlace();
      } else if (fed_ == stream_.size()) {
        return RequireAllRead();
      } else {
        Feed();
      }
      Require(fed_ - position() <= RecordReader::kMaxStagingBytes, "it holds no more than its staging memory");
    }
  }

 private:
  static constexpr int kUntouched = 0xee;

  enum class Fate : uint8_t { kNone, kPut, kDropped };

  uint8_t Choose() {
    if (choices_.empty()) return 0;
    return std::to_integer<uint8_t>(choices_[next_choice_++ % choices_.size()]);
  }

  const Reference::Record& record() const { return reference_.records.at(taken_ - 1); }
  // All bytes before it have left the reader.
  size_t position() const { return fate_ == Fate::kNone ? position_ : std::min(fed_, position_ + place_bytes_); }

  void Take(const RecordReader::Item& item) {
    using What = RecordReader::Item::What;
    if (item.what == What::kPayloadEnds) {
      Require(fate_ != Fate::kNone && item.payload_bytes == record().payload_bytes, "a payload ends that has begun");
      position_ = record().header_end + record().payload_bytes;
      Require(position_ <= fed_, "a payload ends when all of it has come");
      if (fate_ == Fate::kPut) {
        Require(AreSame(place_, std::span(stream_).subspan(record().header_end, place_.size())),
                "a payload lands as it was sent");
        RequireGuarded();
      }
      fate_ = Fate::kNone;
      return;
    }
    Require(fate_ == Fate::kNone, "no record begins within a payload");
    Require(taken_ < reference_.records.size(), "what is read was sent");
    ++taken_;
    Require(static_cast<uint64_t>(item.kind) == record().kind, "a record has its kind");
    Require((item.what != What::kRecord) == (record().payload_bytes > 0), "a payload comes with its record");
    Require(item.payload_bytes == record().payload_bytes, "a payload has its size");
    const auto header = std::span(stream_).subspan(record().header_begin, record().header_end - record().header_begin);
    Require(AreSame(item.bytes, header), "a header is read as it was sent");
    position_ = record().header_end;
    Require(position_ <= fed_, "a record is read when all of it has come");
    Require((item.what == What::kPayload) == (record().payload_bytes > 0 && fed_ - position_ >= record().payload_bytes),
            "a payload is whole when all of it has come");
    if (item.what != What::kPayload) return;
    Require(AreSame(item.payload, std::span(stream_).subspan(record().header_end, record().payload_bytes)),
            "a whole payload is read as it was sent");
    position_ += item.payload.size();
  }

  void GivePlace() {
    const uint64_t bytes = record().payload_bytes;
    place_bytes_ = std::min<uint64_t>(bytes, stream_.size());
    if (bytes > kMaxKeptBytes || Choose() % 4 == 0) return Drop();
    fate_ = Fate::kPut;
    reader_.PutPayload(place_ = NextPlace(bytes));
  }

  std::span<std::byte> NextPlace(size_t bytes) {
    Bytes& memory = memory_.places[++places_ % 2];
    std::memset(memory.data(), kUntouched, bytes + kGuardBytes);
    return std::span(memory).first(bytes);
  }
  void RequireGuarded() const {
    const std::span<const std::byte> guard(place_.data() + place_.size(), kGuardBytes);
    Require(std::ranges::count(guard, std::byte{kUntouched}) == kGuardBytes, "nothing is written behind a payload");
  }

  void Drop() {
    fate_ = Fate::kDropped;
    reader_.DropPayload();
    place_ = {};
  }

  // While a payload comes, it may be dropped, or go elsewhere.
  void ChangeMind() {
    if (fate_ != Fate::kPut) return;
    const uint8_t choice = Choose() % 8;
    if (choice == 0) return Drop();
    if (choice != 1) return;
    reader_.PutPayload(NextPlace(place_.size()));
    RequireGuarded();
    place_ = std::span(memory_.places[places_ % 2]).first(place_.size());
  }

  void Feed() {
    ChangeMind();
    constexpr size_t kPieces[] = {4096, 1, 2, 15, 16, 17, 100, 529, 4095, 4097, 20'000, 60'000};
    size_t rest = std::min(kPieces[Choose() % std::size(kPieces)], stream_.size() - fed_);
    const std::span<const iovec> space = reader_.Space(memory_.scratch);
    Require(!space.empty() && space[0].iov_len > 0, "there is room for what comes");
    size_t received = 0;
    for (const iovec& piece : space) {
      RequireIsOurs(piece);
      const size_t bytes = std::min(rest, piece.iov_len);
      if (bytes > 0) std::memcpy(piece.iov_base, stream_.data() + fed_ + received, bytes);
      received += bytes;
      rest -= bytes;
    }
    fed_ += received;
    reader_.Received(received);
  }

  // Of the place, of the scratch memory, or of the one staging memory.
  void RequireIsOurs(const iovec& piece) {
    const auto* const begin = static_cast<const std::byte*>(piece.iov_base);
    const std::byte* const end = begin + piece.iov_len;
    const auto is_within = [&](std::span<const std::byte> memory) {
      return std::greater_equal<>()(begin, memory.data()) && std::less_equal<>()(end, memory.data() + memory.size());
    };
    if (fate_ == Fate::kPut && is_within(place_)) return;
    if (fate_ == Fate::kDropped && is_within(memory_.scratch)) return;
    // Of the first memory; of the larger one that it takes when a small payload has come; of the part of that which is
    // used when a large one has.
    staging_ends_.insert(end);
    Require(staging_ends_.size() <= 3 && piece.iov_len <= RecordReader::kMaxStagingBytes,
            "it reads into its own memory");
  }

  void RequireBad(const absl::Status& status) {
    Require(reference_.is_bad && taken_ == reference_.records.size(), "an error is where no record is");
    Require(!status.message().empty(), "an error says why");
    for (int i = 0; i < 2; ++i) Require(reader_.Next().status() == status, "an error remains");
  }

  void RequireAllRead() const {
    Require(!reference_.is_bad, "what is no record is an error");
    Require(taken_ == reference_.records.size(), "all that was sent is read");
    Require((fate_ != Fate::kNone) == reference_.ends_in_payload, "a payload is open until it has come");
  }

  const std::span<const std::byte> choices_;
  size_t next_choice_ = 0;
  const Bytes& stream_;
  const Reference reference_;
  RecordReader reader_;
  Memory& memory_;
  std::span<std::byte> place_;
  size_t places_ = 0;  // that were given
  uint64_t place_bytes_ = 0;
  Fate fate_ = Fate::kNone;  // of the current payload
  size_t fed_ = 0;
  size_t position_ = 0;
  size_t taken_ = 0;
  std::set<const std::byte*> staging_ends_;
};

}  // namespace
}  // namespace shoal

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kChoices = 16;
  shoal::FuzzInput input(data, size);
  const std::span<const std::byte> choices = input.Take(kChoices);
  static shoal::Memory memory;
  shoal::TakeStream(&input, &memory.stream);
  shoal::ReaderUnderFuzz(choices, &memory).Run();
  return 0;
}
