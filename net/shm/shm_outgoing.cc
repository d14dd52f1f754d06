#include "net/shm/shm_outgoing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace shoal {

absl::Status ShmOutgoing::SendNote(std::span<const std::byte> note) {
  if (words_.empty() && TryWord(RecordType::kNote, 0, note).value_or(false)) {
    connection_->Publish();
    return absl::OkStatus();
  }
  if (notes_waiting_ >= shared_.limits->max_notes_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat(notes_waiting_, " notes to ", connection_->name(), " wait for the peer already"));
  }
  ++notes_waiting_;
  WaitingWord& waiting = words_.emplace_back();
  waiting.note_bytes = note.size();
  std::copy(note.begin(), note.end(), waiting.note.begin());
  return absl::OkStatus();
}

absl::Status ShmOutgoing::Send(std::span<const std::byte> header, std::span<const std::byte> payload, uint64_t token) {
  if (sends_waiting_ >= shared_.limits->max_sends_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat(sends_waiting_, " payloads to ", connection_->name(), " wait for the peer already"));
  }
  ++sends_waiting_;
  if (!IsAnythingWaiting() && TryPayload(header, payload, token).value_or(false)) {
    connection_->Publish();
    return absl::OkStatus();
  }
  WaitingPayload& waiting = payloads_.emplace_back();
  waiting.header_bytes = header.size();
  std::copy(header.begin(), header.end(), waiting.header.begin());
  waiting.payload = payload;
  waiting.token = token;
  return absl::OkStatus();
}

void ShmOutgoing::Answer(RecordType type, uint64_t send_number) {
  if (has_ended_) return;
  if (words_.empty() && TryWord(type, send_number, {}).value_or(false)) return connection_->Publish();
  WaitingWord& waiting = words_.emplace_back();
  waiting.type = type;
  waiting.send_number = send_number;
}

absl::StatusOr<bool> ShmOutgoing::Flush() {
  connection_->SetWantsRoom(true);
  bool any = false;
  absl::Status failure;
  while (IsAnythingWaiting()) {
    const bool piece = !asked_.empty() && (payloads_.empty() || is_piece_next_);
    const absl::StatusOr<bool> sent = !words_.empty() ? TryNextWord() : piece ? TryNextPiece() : TryNextPayload();
    failure = sent.status();
    if (!sent.value_or(false)) break;
    any = true;
  }
  if (!IsAnythingWaiting()) connection_->SetWantsRoom(false);
  connection_->Publish();
  if (!failure.ok()) return failure;
  return any;
}

absl::StatusOr<bool> ShmOutgoing::TryWord(RecordType type, uint64_t send_number, std::span<const std::byte> note) {
  return connection_->Append({.type = type, .send_number = send_number}, note, {});
}

absl::StatusOr<bool> ShmOutgoing::TryPayload(std::span<const std::byte> header, std::span<const std::byte> payload,
                                             uint64_t token) {
  RecordHeader record{.type = RecordType::kInline, .payload_bytes = payload.size()};
  if (payload.size() <= kMaxInlineBytes) {
    const absl::StatusOr<bool> appended = connection_->Append(record, header, payload);
    if (appended.value_or(false)) FinishSend(token, absl::OkStatus());
    return appended;
  }
  record.send_number = next_send_number_;
  record.type = RecordType::kKept;
  Loan loan{.token = token, .payload = payload};
  const std::optional<uint64_t> offset = shared_.lent->Find(payload);
  if (offset.has_value()) {
    record.type = RecordType::kLent;
    record.offset = loan.offset = *offset;
    loan.state = (*offset & kInRegionBit) != 0 ? Loan::State::kInRegion : Loan::State::kInArena;
  }
  const absl::StatusOr<bool> appended = connection_->Append(record, header, {});
  if (!appended.value_or(false)) {
    if (offset.has_value()) shared_.lent->Give(*offset, payload.size());
    return appended;
  }
  loans_.emplace(next_send_number_++, loan);
  if (loan.state == Loan::State::kInArena) {
    shared_.lent->Fill(loan.offset, payload);
    FinishSend(token, absl::OkStatus());
  }
  return true;
}

absl::StatusOr<bool> ShmOutgoing::TryNextWord() {
  const WaitingWord& next = words_.front();
  const absl::StatusOr<bool> sent = TryWord(next.type, next.send_number, std::span(next.note).first(next.note_bytes));
  if (!sent.value_or(false)) return sent;
  if (next.type == RecordType::kNote) --notes_waiting_;
  words_.pop_front();
  return true;
}

absl::StatusOr<bool> ShmOutgoing::TryNextPayload() {
  const WaitingPayload& next = payloads_.front();
  const absl::StatusOr<bool> sent =
      TryPayload(std::span(next.header).first(next.header_bytes), next.payload, next.token);
  if (!sent.value_or(false)) return sent;
  payloads_.pop_front();
  is_piece_next_ = true;
  return true;
}

absl::StatusOr<bool> ShmOutgoing::TryNextPiece() {
  const auto found = loans_.find(asked_.front());
  Loan& loan = found->second;
  const std::span<const std::byte> piece = loan.payload.first(std::min(loan.payload.size(), kMaxPieceBytes));
  const absl::StatusOr<bool> appended = connection_->Append(
      {.type = RecordType::kPiece, .payload_bytes = piece.size(), .send_number = asked_.front()}, {}, piece);
  if (!appended.value_or(false)) return appended;
  is_piece_next_ = false;
  loan.payload = loan.payload.subspan(piece.size());
  if (loan.payload.empty()) {
    FinishSend(loan.token, absl::OkStatus());
    loans_.erase(found);
    asked_.pop_front();
  }
  return true;
}

absl::Status ShmOutgoing::OnReturned(uint64_t send_number) {
  const auto found = loans_.find(send_number);
  if (found == loans_.end() || found->second.state == Loan::State::kAsked) {
    return absl::InvalidArgumentError("it returns a payload that was not lent to it");
  }
  const Loan& loan = found->second;
  if (loan.state == Loan::State::kInArena) {
    shared_.lent->Give(loan.offset, loan.payload.size());
  } else {
    FinishSend(loan.token, absl::OkStatus());
  }
  loans_.erase(found);
  return absl::OkStatus();
}

absl::Status ShmOutgoing::OnAsked(uint64_t send_number) {
  const auto found = loans_.find(send_number);
  if (found == loans_.end() || found->second.state != Loan::State::kKept) {
    return absl::InvalidArgumentError("it asks for a payload that is not kept for it");
  }
  found->second.state = Loan::State::kAsked;
  asked_.push_back(send_number);
  return absl::OkStatus();
}

void ShmOutgoing::End(const absl::Status& why) {
  has_ended_ = true;
  for (const WaitingPayload& waiting : payloads_) FinishSend(waiting.token, why);
  payloads_.clear();
  words_.clear();
  asked_.clear();
  std::vector<std::pair<uint64_t, uint64_t>> unfinished;  // send number, token
  absl::erase_if(loans_, [&](const auto& entry) {
    if (entry.second.state == Loan::State::kInArena) return false;
    unfinished.emplace_back(entry.first, entry.second.token);
    return true;
  });
  std::sort(unfinished.begin(), unfinished.end());  // the order does not depend on the map's
  for (const auto& [number, token] : unfinished) FinishSend(token, why);
}

void ShmOutgoing::TakeBack() {
  for (const auto& [number, loan] : loans_) shared_.lent->Give(loan.offset, loan.payload.size());
  loans_.clear();
}

void ShmOutgoing::FinishSend(uint64_t token, const absl::Status& status) {
  --sends_waiting_;
  shared_.events->Add(
      {.kind = TransportEventKind::kSent, .peer = connection_->peer(), .token = token, .status = status});
}

}  // namespace shoal
