// What one side of a same-node connection says to the other: records in a ring that only the sender writes.
//
// An outbox is memory of its sender (shared_memory.h): a header with counters and a ring of records. The receiver reads
// both, and writes what it has consumed into the header of its own outbox. So nobody writes into another's memory, and
// a receiver trusts nothing that it reads beyond its bounds: every record is copied out before it is looked at.
//
// A record starts with a RecordHeader, then come the message's header or note, and for kInline and kPiece the payload.
// Records are multiples of 32 bytes and don't wrap: a kPad record fills the end of the ring, and no whole ring, so that
// a reader that is given nothing but padding comes to an end. One thread per side.
#ifndef SHOAL_NET_SHM_OUTBOX_H_
#define SHOAL_NET_SHM_OUTBOX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace shoal {

// Counters run for ever; a counter's position in the ring is its remainder.
struct OutboxHeader {
  alignas(64) std::atomic<uint64_t> produced;  // bytes of our records
  alignas(64) std::atomic<uint64_t> consumed;  // bytes of the peer's records that we are done with
  // Not 0: we wait for room in our ring, so whoever consumes should ring the bell.
  alignas(64) std::atomic<uint32_t> wants_room;
  std::atomic<uint32_t> stage;    // a SideStage
  std::atomic<uint32_t> copying;  // 1: we copy from the peer's memory just now
};

// How far our side of the connection has come to its end.
enum class SideStage : uint32_t {
  kOpen = 0,
  kClosed = 1,       // what we lent and want back may be used for something else by now
  kDoneReading = 2,  // and we read nothing of the peer's memory any more
  kClosing = 3,      // before kClosed: what the peer copies just now is still there, and nothing else is to be copied
};

inline constexpr size_t kOutboxHeaderBytes = 4096;
inline constexpr size_t kRingBytes = size_t{256} << 10;
inline constexpr size_t kOutboxBytes = kOutboxHeaderBytes + kRingBytes;
static_assert(sizeof(OutboxHeader) <= kOutboxHeaderBytes);

enum class RecordType : uint16_t {
  kPad = 0,
  kNote = 1,
  kInline = 2,    // a payload that follows its header
  kLent = 3,      // a payload in the sender's memory: the receiver may read it until it says kReturned
  kReturned = 4,  // the receiver of a kLent is done with it, or does not want a kKept
  kKept = 5,      // a payload for which the sender had no room: it keeps it until it is asked for
  kAsked = 6,     // the receiver of a kKept wants it
  kPiece = 7,     // the next bytes of a kKept that was asked for follow the record
};

// Whether a payload lies behind the record in the ring.
inline bool CarriesPayload(RecordType type) { return type == RecordType::kInline || type == RecordType::kPiece; }

struct RecordHeader {
  uint32_t record_bytes = 0;  // with padding
  RecordType type = RecordType::kPad;
  uint16_t header_bytes = 0;
  uint64_t payload_bytes = 0;
  uint64_t offset = 0;       // kLent: see lent_memory.h
  uint64_t send_number = 0;  // from kLent on
};
inline constexpr size_t kRecordAlignment = 32;
static_assert(sizeof(RecordHeader) == kRecordAlignment);

// Up to here a payload goes into the ring, where it costs a copy and saves an answer.
inline constexpr size_t kMaxInlineBytes = 8192;

// A payload that comes through the ring as pieces does so in pieces of this size: several of them fit, so that one side
// writes while the other reads.
inline constexpr size_t kMaxPieceBytes = 32768;
static_assert(kMaxPieceBytes + kMaxInlineBytes < kRingBytes / 4, "a piece waits for little else");

class OutboxWriter {
 public:
  // `memory` has kOutboxBytes and outlives this.
  explicit OutboxWriter(std::span<std::byte> memory);

  OutboxHeader& header() { return *header_; }
  // Copies a record in, if there is room when the peer has consumed `peer_consumed` bytes. The peer sees it after
  // Publish. InvalidArgument: the peer's counter is impossible.
  absl::StatusOr<bool> Append(RecordHeader record, std::span<const std::byte> header,
                              std::span<const std::byte> payload, uint64_t peer_consumed);
  // True if there was something to publish.
  bool Publish();

 private:
  OutboxHeader* const header_;
  std::byte* const ring_;
  uint64_t written_ = 0;
  uint64_t published_ = 0;
};

class OutboxReader {
 public:
  struct Record {
    RecordHeader fixed;
    std::span<const std::byte> header;   // both in the peer's memory: copy before you look
    std::span<const std::byte> payload;  // see CarriesPayload
  };

  // `memory` has kOutboxBytes and outlives this.
  explicit OutboxReader(std::span<const std::byte> memory);

  const OutboxHeader& header() const { return *header_; }
  bool HasMore() const { return header_->produced.load(std::memory_order_acquire) != read_; }
  // The next record, valid until the peer is told that it was consumed. nullopt: there is none. InvalidArgument: what
  // is there is no record.
  absl::StatusOr<std::optional<Record>> Next();
  SideStage stage() const { return static_cast<SideStage>(header_->stage.load(std::memory_order_acquire)); }
  // What the peer is to be told.
  uint64_t consumed() const { return read_; }

 private:
  const OutboxHeader* const header_;
  const std::byte* const ring_;
  uint64_t read_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_OUTBOX_H_
