#include "net/tcp/unanswered_offers.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {

absl::Status UnansweredOffers::TooMuch(const OfPeer& peer) const {
  return absl::ResourceExhaustedError(absl::StrCat("sent more than it was allowed to: ", peer.offers.size(),
                                                   " payloads with ", peer.held_bytes,
                                                   " bytes in all wait to be accepted"));
}

absl::StatusOr<OfferId> UnansweredOffers::Add(PeerId peer, uint64_t payload_bytes) {
  OfPeer& of_peer = peers_[peer];
  if (of_peer.offers.size() >= limits_.max_offers_per_peer) return TooMuch(of_peer);
  const OfferId id(next_offer_++);
  of_peer.offers.insert(id);
  offers_.emplace(id, Offer{.peer = peer, .payload_bytes = payload_bytes});
  return id;
}

absl::StatusOr<std::span<std::byte>> UnansweredOffers::Hold(OfferId id) {
  Offer& offer = offers_.at(id);
  OfPeer& of_peer = peers_.at(offer.peer);
  if (offer.payload_bytes > limits_.max_held_bytes_per_peer - of_peer.held_bytes) return TooMuch(of_peer);
  // Pages that no byte comes for are never touched.
  offer.held.reset(new (std::nothrow) std::byte[offer.payload_bytes]);
  if (offer.held == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("sent ", offer.payload_bytes, " bytes that were not accepted, and there is no memory for them"));
  }
  of_peer.held_bytes += offer.payload_bytes;
  return std::span(offer.held.get(), offer.payload_bytes);
}

void UnansweredOffers::MarkWhole(OfferId id) {
  Offer& offer = offers_.at(id);
  offer.whole = offer.held.get();
}

absl::Status UnansweredOffers::Keep(OfferId id) {
  const Offer* const offer = Find(id);
  if (offer == nullptr) return absl::OkStatus();
  const absl::StatusOr<std::span<std::byte>> held = Hold(id);
  if (!held.ok()) return held.status();
  std::memcpy(held->data(), offer->whole, held->size());
  MarkWhole(id);
  return absl::OkStatus();
}

const UnansweredOffers::Offer* UnansweredOffers::Find(OfferId id) const {
  const auto found = offers_.find(id);
  return found == offers_.end() ? nullptr : &found->second;
}

void UnansweredOffers::Remove(OfferId id) {
  const auto found = offers_.find(id);
  OfPeer& of_peer = peers_.at(found->second.peer);
  of_peer.offers.erase(id);
  if (found->second.held != nullptr) of_peer.held_bytes -= found->second.payload_bytes;
  offers_.erase(found);
}

void UnansweredOffers::RemoveAllOf(PeerId peer) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  for (const OfferId offer : found->second.offers) offers_.erase(offer);
  peers_.erase(found);
}

}  // namespace shoal
