#include "net/tcp/tcp_connection.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// A peer that sends without a pause must not keep the others waiting.
constexpr size_t kMaxBytesPerReceive = 4 << 20;
// Of payloads that are larger, each Receive offers one: how far apart they land tells how fast a link is, also where
// two came at once (server/machine/lateness_book.h).
constexpr size_t kOfferedTogetherBytes = RecordReader::kLeastStagingBytes;

}  // namespace

absl::StatusOr<bool> TcpConnection::Receive(const Arrivals& to) {
  RecordReader& reader = stream_.reader;
  for (const OfferId offer : lent_) {
    if (absl::Status status = to.offers->Keep(offer); !status.ok()) return status;
  }
  lent_.clear();
  lent_a_chunk_ = false;
  if (reader.AwaitsPlace()) {
    const absl::StatusOr<std::span<std::byte>> held = to.offers->Hold(*offered_);
    if (!held.ok()) return held.status();
    reader.PutPayload(*held);
  }
  size_t received = 0;
  bool blocked = false;
  for (;;) {
    if (absl::Status status = TakeItems(to); !status.ok()) return status;
    if (to.events->size() >= to.max_events || (lent_a_chunk_ && reader.HoldsBytes())) return true;
    if (blocked && write_error_ != 0) return WhyEnded(write_error_);
    if (blocked || reader.AwaitsPlace() || received >= kMaxBytesPerReceive) break;
    // Else the user's answers would find other bytes there.
    if (!lent_.empty()) return true;
    if (is_dry_) ++dry_spells_;
    const SecureChannel::Transfer transfer = stream_.channel->Read(reader.Space(to.scratch));
    reader.Received(transfer.bytes);
    received += transfer.bytes;
    blocked = transfer.blocked;
    is_dry_ = transfer.blocked;
    if (transfer.ended) return WhyEnded(transfer.error);
  }
  return stream_.channel->HoldsBytes();
}

absl::Status TcpConnection::WhyEnded(int error) {
  if (error == EPROTO) return absl::UnavailableError("is lost: what came over the connection was changed on its way");
  const bool silent = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  return absl::UnavailableError(
      absl::StrCat("ended the connection", error == 0 ? "" : ": ", error == 0 ? "" : strerror(error),
                   silent ? " (the path to it has fallen silent)" : " (its process ended or closed it)"));
}

absl::Status TcpConnection::TakeItems(const Arrivals& to) {
  while (to.events->size() < to.max_events && !lent_a_chunk_) {
    const absl::StatusOr<std::optional<RecordReader::Item>> item = stream_.reader.Next();
    if (!item.ok())
      return absl::FailedPreconditionError(absl::StrCat("sent what is no message: ", item.status().message()));
    if (!item->has_value()) break;
    switch ((*item)->what) {
      case RecordReader::Item::What::kRecord:
        if ((*item)->kind != RecordKind::kNote) return absl::FailedPreconditionError("sent a second handshake");
        to.events->Add({.kind = TransportEventKind::kNote, .peer = id_}, (*item)->bytes);
        break;
      case RecordReader::Item::What::kPayload:
      case RecordReader::Item::What::kPayloadBegins: {
        const absl::StatusOr<OfferId> offer = Offer(**item, to);
        if (!offer.ok()) return offer.status();
        if ((*item)->what == RecordReader::Item::What::kPayloadBegins) {
          offered_ = *offer;
        } else {
          to.offers->LendWhole(*offer, (*item)->payload.data());
          if (CameWithLast()) to.offers->MarkCameWithLast(*offer);
          lent_.push_back(*offer);
          lent_a_chunk_ = (*item)->payload_bytes > kOfferedTogetherBytes;
        }
        break;
      }
      case RecordReader::Item::What::kPayloadEnds:
        EndPayload(to);
        break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<OfferId> TcpConnection::Offer(const RecordReader::Item& item, const Arrivals& to) {
  const absl::StatusOr<OfferId> offer = to.offers->Add(id_, item.payload_bytes);
  if (!offer.ok()) return offer;
  to.events->Add(
      {.kind = TransportEventKind::kOffered, .peer = id_, .offer = *offer, .payload_bytes = item.payload_bytes},
      item.bytes);
  return offer;
}

void TcpConnection::EndPayload(const Arrivals& to) {
  const bool came_with_last = CameWithLast();
  if (landing_.has_value()) {
    to.events->Add({.kind = TransportEventKind::kLanded,
                    .peer = id_,
                    .offer = landing_->offer,
                    .token = landing_->token,
                    .payload_bytes = landing_->bytes,
                    .came_with_last = came_with_last});
    landing_.reset();
  } else if (offered_.has_value() && to.offers->Find(*offered_) != nullptr) {
    to.offers->MarkWhole(*offered_);
    if (came_with_last) to.offers->MarkCameWithLast(*offered_);
  }
  offered_.reset();
}

void TcpConnection::Land(OfferId offer, std::span<std::byte> buffer, uint64_t token) {
  stream_.reader.PutPayload(buffer);
  landing_ = {.offer = offer, .token = token, .bytes = buffer.size()};
  offered_.reset();
}

bool TcpConnection::Flush(EventList* events) {
  if (write_error_ != 0) return false;
  std::vector<uint64_t> sent;
  write_error_ = stream_.Flush(&sent);
  for (const uint64_t token : sent) events->Add({.kind = TransportEventKind::kSent, .peer = id_, .token = token});
  if (write_error_ != 0) stream_.AwaitRoom(false);
  return write_error_ == 0;
}

void TcpConnection::End(const absl::Status& why, EventList* events) {
  for (const uint64_t token : stream_.queue.WaitingTokens()) {
    events->Add({.kind = TransportEventKind::kSent, .peer = id_, .token = token, .status = why});
  }
  if (landing_.has_value()) {
    events->Add({.kind = TransportEventKind::kLanded,
                 .peer = id_,
                 .offer = landing_->offer,
                 .token = landing_->token,
                 .payload_bytes = landing_->bytes,
                 .status = why});
  }
  stream_.socket.HangUp();
}

}  // namespace shoal
