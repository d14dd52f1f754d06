#include "net/shm/shm_peer.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Of one peer in one Poll, so that none keeps the others waiting.
constexpr int kMaxRecordsPerRead = 64;
constexpr int kMaxRecordsInRing = static_cast<int>(kRingBytes / kRecordAlignment);

}  // namespace

void ShmPeer::SetUp() {
  state_ = State::kUp;
  events_->Add({.kind = TransportEventKind::kPeerUp, .peer = id()});
}

absl::Status ShmPeer::Read() {
  // Looked at before the records: a peer says all it has to say, a ring of it at most, and then that it closes. A dead
  // one won't say so; what it said before is still there.
  const bool closed = connection_.is_dead() || connection_.their_stage() != SideStage::kOpen;
  const int most = closed ? kMaxRecordsInRing : kMaxRecordsPerRead;
  absl::Status status;
  for (int i = 0; i < most && status.ok(); ++i) {
    const absl::StatusOr<std::optional<OutboxReader::Record>> record = connection_.Next();
    if (record.ok() && !record->has_value()) break;
    status = record.ok() ? OnRecord(**record) : record.status();
  }
  connection_.SayConsumed();
  if (!status.ok()) return WithName(status);
  if (!closed) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(name(), " closed the connection", connection_.is_dead() ? " or died" : ""));
}

absl::Status ShmPeer::OnRecord(const OutboxReader::Record& record) {
  switch (record.fixed.type) {
    case RecordType::kNote:
      if (record.header.empty()) return absl::InvalidArgumentError("it sends an empty note");
      events_->Add({.kind = TransportEventKind::kNote, .peer = id()}, record.header);
      return absl::OkStatus();
    case RecordType::kInline:
    case RecordType::kLent:
    case RecordType::kKept:
      return incoming_.OnPayload(record);
    case RecordType::kReturned:
      return outgoing_.OnReturned(record.fixed.send_number);
    case RecordType::kAsked:
      return outgoing_.OnAsked(record.fixed.send_number);
    case RecordType::kPiece:
      return incoming_.OnPiece(record);
    default:
      return absl::InvalidArgumentError("its shared memory holds a record of an unknown type");
  }
}

absl::StatusOr<bool> ShmPeer::Flush() {
  const absl::StatusOr<bool> any = outgoing_.Flush();
  if (!any.ok()) return WithName(any.status());
  return any;
}

void ShmPeer::End(const absl::Status& under_way, const absl::Status& down) {
  state_ = State::kEnding;
  connection_.SayClosing(outgoing_.lends());  // our user gets its memory back below
  outgoing_.End(under_way);
  incoming_.End(under_way);
  events_->Add({.kind = TransportEventKind::kPeerDown, .peer = id(), .status = down});
  connection_.SayStage(SideStage::kClosed);
}

bool ShmPeer::Settle() {
  if (!incoming_.borrows()) connection_.SayStage(SideStage::kDoneReading);
  if (connection_.is_dead() || connection_.their_stage() == SideStage::kDoneReading) outgoing_.TakeBack();
  if (connection_.is_dead()) connection_.CloseSocket();
  return !incoming_.borrows() && !outgoing_.lends();
}

absl::Status ShmPeer::WithName(const absl::Status& status) const {
  return {status.code(), absl::StrCat(name(), ": ", status.message())};
}

}  // namespace shoal
