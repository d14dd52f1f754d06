#include "net/tcp/record_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace shoal {

absl::StatusOr<std::optional<RecordReader::Item>> RecordReader::Next() {
  if (payload_ == Payload::kNoPlace) return std::nullopt;
  if (payload_ != Payload::kNone) {
    if (rest_ > 0) return std::nullopt;
    payload_ = Payload::kNone;
    return Item{.what = Item::What::kPayloadEnds, .kind = RecordKind::kPayload, .payload_bytes = payload_bytes_};
  }
  if (staged() < kRecordHeadBytes) return std::nullopt;
  const std::byte* const at = staging_.get() + begin_;
  const absl::StatusOr<RecordHead> head =
      DecodeRecordHead(std::span<const std::byte, kRecordHeadBytes>(at, kRecordHeadBytes));
  if (!head.ok()) return head.status();
  const size_t bytes = kRecordHeadBytes + head->header_bytes;
  if (staged() < bytes) return std::nullopt;
  begin_ += bytes;
  Item item{.kind = head->kind, .bytes = {at + kRecordHeadBytes, head->header_bytes}};
  if (head->kind != RecordKind::kPayload) return item;
  item.payload_bytes = head->payload_bytes;
  expects_small_ = head->payload_bytes <= kSmallPayloadBytes;
  if (staged() >= head->payload_bytes) {
    item.what = Item::What::kPayload;
    item.payload = {staging_.get() + begin_, head->payload_bytes};
    begin_ += head->payload_bytes;
    return item;
  }
  item.what = Item::What::kPayloadBegins;
  payload_ = Payload::kNoPlace;
  payload_bytes_ = head->payload_bytes;
  rest_ = head->payload_bytes;
  return item;
}

void RecordReader::PutPayload(std::span<std::byte> place) {
  if (payload_ == Payload::kPut) {
    std::memcpy(place.data(), place_.data(), payload_bytes_ - rest_);
  }
  place_ = place;
  if (std::exchange(payload_, Payload::kPut) == Payload::kNoPlace) TakeStaged();
}

void RecordReader::DropPayload() {
  if (std::exchange(payload_, Payload::kDropped) == Payload::kNoPlace) TakeStaged();
  place_ = {};
}

void RecordReader::TakeStaged() {
  const size_t bytes = std::min<uint64_t>(staged(), rest_);
  if (payload_ == Payload::kPut && bytes > 0) {
    std::memcpy(place_.data() + (payload_bytes_ - rest_), staging_.get() + begin_, bytes);
  }
  begin_ += bytes;
  rest_ -= bytes;
}

std::span<const iovec> RecordReader::Space(std::span<std::byte> scratch) {
  if (begin_ > 0) {
    std::memmove(staging_.get(), staging_.get() + begin_, staged());
    end_ = staged();
    begin_ = 0;
  }
  if (expects_small_ && staging_bytes_ < kMaxStagingBytes) {
    auto larger = std::make_unique_for_overwrite<std::byte[]>(kMaxStagingBytes);
    std::memcpy(larger.get(), staging_.get(), end_);
    staging_ = std::move(larger);
    staging_bytes_ = kMaxStagingBytes;
  }
  // What of a large payload comes here has to be copied.
  const size_t limit = expects_small_ ? staging_bytes_ : kLeastStagingBytes;
  const iovec staging{.iov_base = staging_.get() + end_, .iov_len = limit - end_};
  if (payload_ == Payload::kNone) {
    space_[0] = staging;
    return std::span(space_).first(1);
  }
  // The staging memory is empty: a payload's bytes are taken from it first.
  const std::span<std::byte> payload = payload_ == Payload::kPut ? place_.subspan(payload_bytes_ - rest_)
                                                                 : scratch.first(std::min(scratch.size(), rest_));
  space_[0] = {.iov_base = payload.data(), .iov_len = payload.size()};
  space_[1] = staging;
  return std::span(space_).first(payload.size() == rest_ ? 2 : 1);
}

void RecordReader::Received(size_t bytes) {
  if (payload_ != Payload::kNone) {
    const size_t of_payload = std::min<uint64_t>(bytes, rest_);
    rest_ -= of_payload;
    bytes -= of_payload;
  }
  end_ += bytes;
}

}  // namespace shoal
