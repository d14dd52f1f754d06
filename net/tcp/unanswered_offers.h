// The payloads that peers have offered and nobody has accepted or declined, with what of them had to be kept meanwhile.
//
// Not thread safe. Pure.
#ifndef SHOAL_NET_TCP_UNANSWERED_OFFERS_H_
#define SHOAL_NET_TCP_UNANSWERED_OFFERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "core/transport_event.h"
#include "net/transport_limits.h"

namespace shoal {

class UnansweredOffers {
 public:
  struct Offer {
    PeerId peer;
    uint64_t payload_bytes = 0;
    std::unique_ptr<std::byte[]> held;  // null: nothing is kept here
    const std::byte* whole = nullptr;   // all of the payload, in `held` or in the connection's memory; null: not yet
    bool came_with_last = false;        // TransportEvent::came_with_last
  };

  explicit UnansweredOffers(const TransportLimits& limits) : limits_(limits) {}

  // ResourceExhausted: the peer has offered more than it was allowed to.
  absl::StatusOr<OfferId> Add(PeerId peer, uint64_t payload_bytes);
  // Memory for the whole payload of an offer that stands. ResourceExhausted likewise, or there is no memory.
  absl::StatusOr<std::span<std::byte>> Hold(OfferId offer);
  // What was held is there wholly.
  void MarkWhole(OfferId offer);
  void MarkCameWithLast(OfferId offer) { offers_.at(offer).came_with_last = true; }
  // All of the payload of an offer that stands lies there until Keep, which takes a copy if the offer still stands
  // then. ResourceExhausted as above.
  void LendWhole(OfferId offer, const std::byte* payload) { offers_.at(offer).whole = payload; }
  absl::Status Keep(OfferId offer);

  // nullptr: it stands no longer. Valid until the next call that changes something.
  const Offer* Find(OfferId offer) const;
  void Remove(OfferId offer);
  void RemoveAllOf(PeerId peer);

 private:
  struct OfPeer {
    absl::flat_hash_set<OfferId> offers;
    uint64_t held_bytes = 0;
  };

  absl::Status TooMuch(const OfPeer& peer) const;

  const TransportLimits limits_;
  uint64_t next_offer_ = 1;
  absl::flat_hash_map<OfferId, Offer> offers_;
  absl::flat_hash_map<PeerId, OfPeer> peers_;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_UNANSWERED_OFFERS_H_
