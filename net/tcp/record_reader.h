// Takes the bytes of one connection apart into records, with few copies: a payload is read straight to where it
// belongs. A small one comes with its header by one call of the kernel instead, and is copied: that is far cheaper than
// a second call.
//
//   while the socket has something:
//     read into Space(), say Received(n)
//     for each Next(): use it; after kPayloadBegins say where the payload goes (PutPayload or DropPayload)
//
// Never trusts its input: whatever the bytes, the answer is a record or an error. Holds kMaxStagingBytes and nothing
// more, and only kLeastStagingBytes where no small payload came. Not thread safe. Pure: it reads no socket.
#ifndef SHOAL_NET_TCP_RECORD_READER_H_
#define SHOAL_NET_TCP_RECORD_READER_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "net/tcp/record.h"

namespace shoal {

class RecordReader {
 public:
  // Heads and headers go through memory of so many bytes, with what of a payload came together with them.
  static constexpr size_t kLeastStagingBytes = 4096;
  static constexpr size_t kMaxStagingBytes = 64 << 10;
  // After a payload of at most so many bytes the next ones are expected to be as small.
  static constexpr size_t kSmallPayloadBytes = 32 << 10;

  struct Item {
    enum class What : uint8_t {
      kRecord,         // a whole record without a payload; `bytes`: its header
      kPayload,        // a whole record with its `payload`; `bytes`: its header
      kPayloadBegins,  // `bytes`: its header; the payload follows
      kPayloadEnds,    // all of it is where it was to be put, or was dropped
    };

    What what = What::kRecord;
    RecordKind kind = RecordKind::kNote;
    std::span<const std::byte> bytes;    // valid until Space()
    std::span<const std::byte> payload;  // likewise
    uint64_t payload_bytes = 0;
  };

  RecordReader() : staging_(std::make_unique_for_overwrite<std::byte[]>(kLeastStagingBytes)) {}

  // The next item. nullopt: more bytes must come first, or a payload waits for PutPayload or DropPayload. An error is
  // that of DecodeRecordHead; nothing can be read any more.
  absl::StatusOr<std::optional<Item>> Next();

  // Where the current payload goes, which has begun and not ended. May be said again: what has come is copied over. The
  // memory is used until kPayloadEnds.
  void PutPayload(std::span<std::byte> place);
  void DropPayload();
  bool AwaitsPlace() const { return payload_ == Payload::kNoPlace; }
  // Something is here that Next() has not given yet.
  bool HoldsBytes() const { return staged() > 0; }

  // Where the next bytes of the connection go, in this order. What is dropped goes to `scratch`, which all connections
  // may share. Only after Next() said nullopt, and not while AwaitsPlace().
  std::span<const iovec> Space(std::span<std::byte> scratch);
  // So many bytes came into Space().
  void Received(size_t bytes);

 private:
  enum class Payload : uint8_t { kNone, kNoPlace, kPut, kDropped };

  size_t staged() const { return end_ - begin_; }
  void TakeStaged();

  std::unique_ptr<std::byte[]> staging_;
  size_t staging_bytes_ = kLeastStagingBytes;
  bool expects_small_ = false;  // payloads
  size_t begin_ = 0;            // what was not taken yet is from here
  size_t end_ = 0;              // to here
  Payload payload_ = Payload::kNone;
  uint64_t payload_bytes_ = 0;
  uint64_t rest_ = 0;  // of the payload: so many bytes have not come, or still lie in the staging memory
  std::span<std::byte> place_;
  std::array<iovec, 2> space_{};
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_RECORD_READER_H_
