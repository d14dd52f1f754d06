#include "net/shm/shm_incoming.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/payload_copy.h"

namespace shoal {

OfferId ShmOffers::Add(ShmOffer&& offer) {
  const OfferId id(next_id_++);
  offers_.emplace(id, std::move(offer));
  return id;
}

std::optional<ShmOffers::Iterator> ShmOffers::Find(OfferId id, bool is_borrowed) {
  const auto found = offers_.find(id);
  if (found == offers_.end() || found->second.is_borrowed != is_borrowed) return std::nullopt;
  return found;
}

void ShmOffers::Remove(Iterator offer) {
  KeepBlock(offer->second);
  offers_.erase(offer);
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
  const RecordHeader& fixed = record.fixed;
  ShmOffer offer{.peer = owner_, .payload_bytes = fixed.payload_bytes, .send_number = fixed.send_number};
  const bool is_inline = fixed.type == RecordType::kInline;
  if (unanswered_ >= shared_.limits->max_offers_per_peer ||
      (is_inline && held_bytes_ + fixed.payload_bytes > shared_.limits->max_held_bytes_per_peer)) {
    return absl::ResourceExhaustedError("it sends more than its limit allows");
  }
  if (is_inline) {
    if (record.payload.empty() || record.payload.size() > kMaxInlineBytes) {
      return absl::InvalidArgumentError("its ring holds a payload that is empty or too large");
    }
    offer.send_number = 0;
    offer.block = shared_.offers->Copy(record.payload);
    offer.payload = offer.block.get();
    held_bytes_ += fixed.payload_bytes;
  } else if (fixed.type == RecordType::kLent) {
    offer.payload = connection_->Find(fixed.offset, fixed.payload_bytes);
    offer.in_region = (fixed.offset & kInRegionBit) != 0;
    if (offer.payload == nullptr || fixed.payload_bytes == 0 || fixed.send_number == 0) {
      return absl::InvalidArgumentError("it offers memory outside of its shared memory");
    }
  } else {
    if (fixed.payload_bytes == 0 || fixed.send_number <= newest_kept_) {
      return absl::InvalidArgumentError("it offers a payload that it can't have kept");
    }
    newest_kept_ = fixed.send_number;
  }
  ++unanswered_;
  const OfferId id = shared_.offers->Add(std::move(offer));
  shared_.events->Add({.kind = TransportEventKind::kOffered,
                       .peer = connection_->peer(),
                       .offer = id,
                       .payload_bytes = fixed.payload_bytes},
                      record.header);
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
  AddLanded(landing, absl::OkStatus());
  landings_.erase(found);
  return absl::OkStatus();
}

absl::Status ShmIncoming::Accept(ShmOffers::Iterator offer, std::span<std::byte> buffer, uint64_t token) {
  const auto& [id, offered] = *offer;
  if (buffer.size() != offered.payload_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the offer from ", connection_->name(), " has ",
                                                   offered.payload_bytes, " bytes, the buffer ", buffer.size()));
  }
  const Landing landing{.offer = id, .token = token, .buffer = buffer};
  if (offered.payload == nullptr) {
    landings_.emplace(offered.send_number, landing);
    outgoing_->Answer(RecordType::kAsked, offered.send_number);
    --unanswered_;
    shared_.offers->Remove(offer);
    return absl::OkStatus();
  }
  const bool is_ours = offered.send_number == 0;  // it came through the ring, and is a copy
  if (!is_ours && !connection_->BeginCopy()) return Closed();
  CopyPayload(buffer.data(), offered.payload, buffer.size());
  AddLanded(landing, is_ours || connection_->EndCopy() ? absl::OkStatus() : Closed());
  GiveBack(offer);
  return absl::OkStatus();
}

absl::Status ShmIncoming::Closed() const {
  return absl::UnavailableError(absl::StrCat(connection_->name(), " closed the connection"));
}

// Memory of a process that died stays mapped here as it was.
bool ShmIncoming::AcceptsAtOnce(const ShmOffer& offer) const {
  return offer.payload != nullptr && (offer.send_number == 0 || connection_->their_stage() == SideStage::kOpen);
}

const std::byte* ShmIncoming::Borrow(ShmOffer& offer) {
  // What lies in the sender's region may be used for something else when the sender closes.
  if (offer.in_region || offer.payload == nullptr) return nullptr;
  --unanswered_;
  ++borrowed_;
  offer.is_borrowed = true;
  return offer.payload;
}

void ShmIncoming::GiveBack(ShmOffers::Iterator offer) {
  const ShmOffer& given = offer->second;
  --(given.is_borrowed ? borrowed_ : unanswered_);
  if (given.block != nullptr) held_bytes_ -= given.payload_bytes;
  if (given.send_number != 0) outgoing_->Answer(RecordType::kReturned, given.send_number);
  shared_.offers->Remove(offer);
}

void ShmIncoming::End(const absl::Status& why) {
  for (const auto& [number, landing] : std::exchange(landings_, {})) AddLanded(landing, why);
  shared_.offers->RemoveUnanswered(owner_);
}

void ShmIncoming::AddLanded(const Landing& landing, const absl::Status& status) {
  shared_.events->Add({.kind = TransportEventKind::kLanded,
                       .peer = connection_->peer(),
                       .offer = landing.offer,
                       .token = landing.token,
                       .payload_bytes = landing.buffer.size(),
                       .status = status});
}

}  // namespace shoal
