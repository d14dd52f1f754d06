#include "net/tcp/send_queue.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

std::vector<std::byte> HeadAndHeader(RecordKind kind, std::span<const std::byte> header, size_t payload_bytes) {
  const auto head = EncodeRecordHead(
      {.kind = kind, .header_bytes = static_cast<uint16_t>(header.size()), .payload_bytes = payload_bytes});
  std::vector<std::byte> bytes(head.size() + header.size());
  std::ranges::copy(head, bytes.begin());
  std::ranges::copy(header, bytes.begin() + head.size());
  return bytes;
}

iovec Piece(std::span<const std::byte> bytes) {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

}  // namespace

void SendQueue::Add(RecordKind kind, std::span<const std::byte> header) {
  records_.push_back({.head = HeadAndHeader(kind, header, 0)});
}

void SendQueue::AddPayload(std::span<const std::byte> header, std::span<const std::byte> payload, uint64_t token) {
  records_.push_back(
      {.head = HeadAndHeader(RecordKind::kPayload, header, payload.size()), .payload = payload, .token = token});
  ++payloads_;
}

size_t SendQueue::Gather(std::span<iovec> pieces) const {
  size_t filled = 0;
  size_t skip = sent_of_first_;
  for (const Record& record : records_) {
    for (const std::span<const std::byte> part : {std::span<const std::byte>(record.head), record.payload}) {
      if (filled == pieces.size()) return filled;
      if (skip < part.size()) pieces[filled++] = Piece(part.subspan(skip));
      skip -= std::min(skip, part.size());
    }
  }
  return filled;
}

void SendQueue::Advance(size_t bytes, std::vector<uint64_t>* sent) {
  sent_of_first_ += bytes;
  while (!records_.empty() && sent_of_first_ >= records_.front().size()) {
    const Record& first = records_.front();
    sent_of_first_ -= first.size();
    if (!first.payload.empty()) {
      sent->push_back(first.token);
      --payloads_;
    }
    records_.pop_front();
  }
}

std::vector<uint64_t> SendQueue::WaitingTokens() const {
  std::vector<uint64_t> tokens;
  for (const Record& record : records_) {
    if (!record.payload.empty()) tokens.push_back(record.token);
  }
  return tokens;
}

}  // namespace shoal
