#include "net/shm/outbox.h"

#include <cstring>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/frame.h"

namespace shoal {
namespace {

size_t RoundUp(size_t bytes) { return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment; }

}  // namespace

OutboxWriter::OutboxWriter(std::span<std::byte> memory)
    : header_(new (memory.data()) OutboxHeader{}), ring_(memory.data() + kOutboxHeaderBytes) {}

absl::StatusOr<bool> OutboxWriter::Append(RecordHeader record, std::span<const std::byte> header,
                                          std::span<const std::byte> payload, uint64_t peer_consumed) {
  if (peer_consumed > published_) {
    return absl::InvalidArgumentError(
        absl::StrCat("it says it consumed ", peer_consumed, " bytes of the ", published_, " that it was sent"));
  }
  const size_t bytes = RoundUp(sizeof(RecordHeader) + header.size() + payload.size());
  const size_t position = written_ % kRingBytes;
  const size_t pad = position + bytes > kRingBytes ? kRingBytes - position : 0;
  if (written_ + pad + bytes - peer_consumed > kRingBytes) return false;
  if (pad != 0) {
    const RecordHeader filler{.record_bytes = static_cast<uint32_t>(pad)};
    std::memcpy(ring_ + position, &filler, sizeof(filler));
    written_ += pad;
  }
  record.record_bytes = static_cast<uint32_t>(bytes);
  record.header_bytes = static_cast<uint16_t>(header.size());
  std::byte* const target = ring_ + written_ % kRingBytes;
  std::memcpy(target, &record, sizeof(record));
  if (!header.empty()) std::memcpy(target + sizeof(record), header.data(), header.size());
  if (!payload.empty()) std::memcpy(target + sizeof(record) + header.size(), payload.data(), payload.size());
  written_ += bytes;
  return true;
}

bool OutboxWriter::Publish() {
  if (published_ == written_) return false;
  published_ = written_;
  header_->produced.store(published_, std::memory_order_release);
  return true;
}

OutboxReader::OutboxReader(std::span<const std::byte> memory)
    : header_(reinterpret_cast<const OutboxHeader*>(memory.data())), ring_(memory.data() + kOutboxHeaderBytes) {}

absl::StatusOr<std::optional<OutboxReader::Record>> OutboxReader::Next() {
  while (true) {
    const uint64_t available = header_->produced.load(std::memory_order_acquire) - read_;
    if (available == 0) return std::nullopt;
    const size_t position = read_ % kRingBytes;
    Record record;
    std::memcpy(&record.fixed, ring_ + position, sizeof(RecordHeader));
    const RecordHeader& fixed = record.fixed;
    const size_t header_room = fixed.record_bytes - sizeof(RecordHeader);
    if (available > kRingBytes || fixed.record_bytes < sizeof(RecordHeader) || fixed.record_bytes > available ||
        fixed.record_bytes % kRecordAlignment != 0 || fixed.record_bytes > kRingBytes - position ||
        fixed.header_bytes > kMaxNoteBytes || fixed.header_bytes > header_room ||
        (CarriesPayload(fixed.type) && fixed.payload_bytes > header_room - fixed.header_bytes) ||
        (fixed.type == RecordType::kPad && (position == 0 || fixed.record_bytes != kRingBytes - position))) {
      return absl::InvalidArgumentError("its shared memory holds garbage");
    }
    read_ += fixed.record_bytes;
    if (fixed.type == RecordType::kPad) continue;
    const std::byte* const start = ring_ + position + sizeof(RecordHeader);
    record.header = {start, fixed.header_bytes};
    if (CarriesPayload(fixed.type)) record.payload = {start + fixed.header_bytes, fixed.payload_bytes};
    return record;
  }
}

}  // namespace shoal
