// The payloads that peers of this node offer, until they have landed or are given back.
//
// ShmOffers keeps the offers of all peers of a transport by their numbers. ShmIncoming belongs to one peer: it checks
// what the peer offers, counts it against the limits, and lands what comes in pieces. One thread.
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
  // Points to an offer's number and the offer. Valid until the next Add, or until the offer is removed.
  using Iterator = absl::flat_hash_map<OfferId, ShmOffer>::iterator;

  explicit ShmOffers(uint64_t first_id) : next_id_(first_id) {}

  OfferId Add(ShmOffer&& offer);
  // Looks among the borrowed offers, or among the others. nullopt: it is not there.
  std::optional<Iterator> Find(OfferId id, bool is_borrowed = false);
  void Remove(Iterator offer);
  // Removes all offers of a peer but the borrowed ones.
  void RemoveUnanswered(const ShmPeer* peer);
  // Copies at most kMaxInlineBytes into a block that an earlier offer has left, or into a new one.
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
  // What is passed outlives this.
  ShmIncoming(ShmPeer* owner, ShmConnection* connection, ShmOutgoing* outgoing, const ShmShared& shared)
      : owner_(owner), connection_(connection), outgoing_(outgoing), shared_(shared) {}

  // ---- What the peer says; an error is its fault: end the connection ----
  // A record of kInline, kLent or kKept.
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

  // With its connection: ends every Accept with `why`, and drops offers. What is borrowed stays.
  void End(const absl::Status& why);
  bool borrows() const { return borrowed_ > 0; }

 private:
  struct Landing {
    OfferId offer;
    uint64_t token = 0;
    std::span<std::byte> buffer;
    size_t landed_bytes = 0;
  };

  absl::Status Closed() const;
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
