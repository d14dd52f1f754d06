// The payloads that peers of this node offer, until they have landed or are given back.
//
// ShmOffers has those of all peers by their numbers, ShmIncoming has what one peer may do and what comes from it in
// pieces. What a peer says is checked before it is used. One thread.
#ifndef SHOAL_NET_SHM_SHM_INCOMING_H_
#define SHOAL_NET_SHM_SHM_INCOMING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "net/event_list.h"
#include "net/shm/outbox.h"
#include "net/shm/shm_connection.h"
#include "net/shm/shm_outgoing.h"
#include "net/transport_limits.h"

namespace shoal {

class ShmPeer;

// A payload that our user has not answered yet, or borrows.
struct ShmOffer {
  ShmPeer* peer = nullptr;
  uint64_t payload_bytes = 0;
  const std::byte* payload = nullptr;  // nullptr: the peer keeps it until it is asked for it
  uint64_t send_number = 0;            // 0: the payload lies in `block`
  bool in_region = false;
  bool is_borrowed = false;
  std::unique_ptr<std::byte[]> block;
};

class ShmOffers {
 public:
  // Its number and the offer. Valid until the next Add.
  using Iterator = absl::flat_hash_map<OfferId, ShmOffer>::iterator;

  explicit ShmOffers(uint64_t first_id) : next_id_(first_id) {}

  OfferId Add(ShmOffer&& offer);
  // Of those that are borrowed, or of the others. nullopt: there is none.
  std::optional<Iterator> Find(OfferId id, bool is_borrowed = false);
  void Remove(Iterator offer);
  // All but the borrowed ones.
  void RemoveUnanswered(const ShmPeer* peer);
  // A copy of at most kMaxInlineBytes, in a block that an offer before has left.
  std::unique_ptr<std::byte[]> Copy(std::span<const std::byte> payload);

 private:
  void KeepBlock(ShmOffer& offer) {
    if (offer.block != nullptr) free_blocks_.push_back(std::move(offer.block));
  }

  uint64_t next_id_;
  absl::flat_hash_map<OfferId, ShmOffer> offers_;
  std::vector<std::unique_ptr<std::byte[]>> free_blocks_;
};

class ShmIncoming {
 public:
  // All of it outlives this.
  ShmIncoming(ShmPeer* owner, ShmConnection* connection, ShmOutgoing* outgoing, const ShmShared& shared)
      : owner_(owner), connection_(connection), outgoing_(outgoing), shared_(shared) {}

  // ---- What the peer says; an error is the peer's: end the connection ----
  // kInline, kLent or kKept.
  absl::Status OnPayload(const OutboxReader::Record& record);
  absl::Status OnPiece(const OutboxReader::Record& record);

  // ---- What our user does with an offer of this peer ----
  // InvalidArgument: the buffer has another size, and the offer stays.
  absl::Status Accept(ShmOffers::Iterator offer, std::span<std::byte> buffer, uint64_t token);
  bool AcceptsAtOnce(const ShmOffer& offer) const;
  // nullptr: it is not lent, and stays as it is.
  const std::byte* Borrow(ShmOffer& offer);
  // Declines it, or returns it if it is borrowed.
  void GiveBack(ShmOffers::Iterator offer);

  // The connection's: every Accept ends, and offers are gone. What is borrowed stays.
  void End(const absl::Status& why);
  bool borrows() const { return borrowed_ > 0; }

 private:
  struct Landing {
    OfferId offer;
    uint64_t token = 0;
    std::span<std::byte> buffer;
    size_t landed_bytes = 0;
  };

  void AddLanded(const Landing& landing, const absl::Status& status);

  ShmPeer* const owner_;
  ShmConnection* const connection_;
  ShmOutgoing* const outgoing_;
  const ShmShared shared_;
  // Of payloads that come in pieces, by the peer's send number, in which order they end with the connection.
  std::map<uint64_t, Landing> landings_;
  uint64_t newest_kept_ = 0;  // likewise: the newest that it offered
  size_t unanswered_ = 0;
  size_t borrowed_ = 0;
  size_t held_bytes_ = 0;  // in blocks
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHM_INCOMING_H_
