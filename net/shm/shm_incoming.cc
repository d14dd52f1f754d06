#include "net/shm/shm_incoming.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/payload_copy.h"

namespace shoal {

OfferId ShmOffers::Add(ShmOffer offer) {
  const OfferId id(next_id_++);
  offers_.emplace(id, std::move(offer));
  return id;
}

ShmOffer* ShmOffers::Find(OfferId id) {
  const auto found = offers_.find(id);
  return found == offers_.end() || found->second.is_borrowed ? nullptr : &found->second;
}

ShmOffer* ShmOffers::FindBorrowed(OfferId id) {
  const auto found = offers_.find(id);
  return found == offers_.end() || !found->second.is_borrowed ? nullptr : &found->second;
}

void ShmOffers::Remove(OfferId id) {
  const auto found = offers_.find(id);
  KeepBlock(found->second);
  offers_.erase(found);
}

void ShmOffers::RemoveUnanswered(const ShmPeer* peer) {
  absl::erase_if(offers_, [&](auto& entry) {
    if (entry.second.peer != peer || entry.second.is_borrowed) return false;
    KeepBlock(entry.second);
    return true;
  });
}

std::unique_ptr<std::byte[]> ShmOffers::Copy(std::span<const std::byte> payload) {
  std::unique_ptr<std::byte[]> block;
  if (free_blocks_.empty()) {
    block = std::make_unique<std::byte[]>(kMaxInlineBytes);
  } else {
    block = std::move(free_blocks_.back());
    free_blocks_.pop_back();
  }
  std::memcpy(block.get(), payload.data(), payload.size());
  return block;
}

absl::Status ShmIncoming::OnPayload(const OutboxReader::Record& record) {
  ShmOffer offer{.peer = owner_, .payload_bytes = record.fixed.payload_bytes};
  const bool is_inline = record.fixed.type == RecordType::kInline;
  if (unanswered_ >= limits_->max_offers_per_peer ||
      (is_inline && held_bytes_ + offer.payload_bytes > limits_->max_held_bytes_per_peer)) {
    return absl::ResourceExhaustedError("it sends more than its limit allows");
  }
  const absl::Status status = is_inline                                ? TakeInline(record, &offer)
                              : record.fixed.type == RecordType::kLent ? TakeLent(record.fixed, &offer)
                                                                       : TakeKept(record.fixed, &offer);
  if (!status.ok()) return status;
  ++unanswered_;
  const OfferId id = offers_->Add(std::move(offer));
  events_->Add(
      {.kind = TransportEventKind::kOffered, .peer = peer_, .offer = id, .payload_bytes = record.fixed.payload_bytes},
      record.header);
  return absl::OkStatus();
}

absl::Status ShmIncoming::TakeInline(const OutboxReader::Record& record, ShmOffer* offer) {
  if (record.payload.empty() || record.payload.size() > kMaxInlineBytes) {
    return absl::InvalidArgumentError("its ring holds a payload that is empty or too large");
  }
  offer->block = offers_->Copy(record.payload);
  offer->payload = offer->block.get();
  held_bytes_ += offer->payload_bytes;
  return absl::OkStatus();
}

absl::Status ShmIncoming::TakeLent(const RecordHeader& record, ShmOffer* offer) const {
  offer->payload = connection_->Find(record.offset, record.payload_bytes);
  if (offer->payload == nullptr || record.payload_bytes == 0 || record.send_number == 0) {
    return absl::InvalidArgumentError("it offers memory outside of its shared memory");
  }
  offer->in_region = (record.offset & kInRegionBit) != 0;
  offer->send_number = record.send_number;
  return absl::OkStatus();
}

absl::Status ShmIncoming::TakeKept(const RecordHeader& record, ShmOffer* offer) {
  if (record.payload_bytes == 0 || record.send_number <= newest_kept_) {
    return absl::InvalidArgumentError("it offers a payload that it can't have kept");
  }
  newest_kept_ = record.send_number;
  offer->send_number = record.send_number;
  return absl::OkStatus();
}

absl::Status ShmIncoming::OnPiece(const OutboxReader::Record& record) {
  const auto found = landings_.find(record.fixed.send_number);
  if (found == landings_.end()) return absl::InvalidArgumentError("it sends a piece that nobody asked for");
  Landing& landing = found->second;
  const std::span<std::byte> left = landing.buffer.subspan(landing.landed_bytes);
  if (record.payload.empty() || record.payload.size() > left.size()) {
    return absl::InvalidArgumentError("it sends another number of bytes than it was asked for");
  }
  std::memcpy(left.data(), record.payload.data(), record.payload.size());
  landing.landed_bytes += record.payload.size();
  if (landing.landed_bytes < landing.buffer.size()) return absl::OkStatus();
  AddLanded(landing.offer, landing.token, landing.buffer.size(), absl::OkStatus());
  landings_.erase(found);
  return absl::OkStatus();
}

absl::Status ShmIncoming::Accept(OfferId id, ShmOffer& offer, std::span<std::byte> buffer, uint64_t token) {
  if (buffer.size() != offer.payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the offer from ", name_, " has ", offer.payload_bytes, " bytes, the buffer ", buffer.size()));
  }
  if (offer.payload == nullptr) {
    landings_.emplace(offer.send_number, Landing{.offer = id, .token = token, .buffer = buffer});
    outgoing_->Answer(RecordType::kAsked, offer.send_number);
    --unanswered_;
    offers_->Remove(id);
    return absl::OkStatus();
  }
  CopyPayload(buffer.data(), offer.payload, buffer.size());
  // Its owner says first that it uses the memory for something else, then does so.
  std::atomic_thread_fence(std::memory_order_acquire);
  absl::Status status;
  if (!AcceptsAtOnce(offer)) status = absl::UnavailableError(absl::StrCat(name_, " closed the connection"));
  AddLanded(id, token, buffer.size(), std::move(status));
  Decline(id, offer);
  return absl::OkStatus();
}

// Memory of a process that died stays mapped here as it was.
bool ShmIncoming::AcceptsAtOnce(const ShmOffer& offer) const {
  return offer.payload != nullptr && (offer.send_number == 0 || connection_->their_stage() == SideStage::kOpen);
}

void ShmIncoming::Decline(OfferId id, ShmOffer& offer) {
  --unanswered_;
  GiveBack(id, offer);
}

const std::byte* ShmIncoming::Borrow(ShmOffer& offer) {
  // What lies in the sender's region may be used for something else when the sender closes.
  if (offer.in_region || offer.payload == nullptr) return nullptr;
  --unanswered_;
  ++borrowed_;
  offer.is_borrowed = true;
  return offer.payload;
}

void ShmIncoming::Return(OfferId id, ShmOffer& offer) {
  --borrowed_;
  GiveBack(id, offer);
}

void ShmIncoming::GiveBack(OfferId id, const ShmOffer& offer) {
  if (offer.block != nullptr) held_bytes_ -= offer.payload_bytes;
  if (offer.send_number != 0) outgoing_->Answer(RecordType::kReturned, offer.send_number);
  offers_->Remove(id);
}

void ShmIncoming::End(const absl::Status& why) {
  for (const auto& [number, landing] : std::exchange(landings_, {})) {
    AddLanded(landing.offer, landing.token, landing.buffer.size(), why);
  }
  offers_->RemoveUnanswered(owner_);
}

void ShmIncoming::AddLanded(OfferId offer, uint64_t token, uint64_t bytes, absl::Status status) {
  events_->Add({.kind = TransportEventKind::kLanded,
                .peer = peer_,
                .offer = offer,
                .token = token,
                .payload_bytes = bytes,
                .status = std::move(status)});
}

}  // namespace shoal
