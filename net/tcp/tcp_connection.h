// One peer that is connected: what it sends becomes events, and what we send it waits here for the socket.
//
// Thread: one at a time. No call blocks.
#ifndef SHOAL_NET_TCP_TCP_CONNECTION_H_
#define SHOAL_NET_TCP_TCP_CONNECTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/event_list.h"
#include "net/tcp/tcp_stream.h"
#include "net/tcp/unanswered_offers.h"

namespace shoal {

class TcpConnection {
 public:
  // Where what arrives goes to.
  struct Arrivals {
    EventList* events = nullptr;
    size_t max_events = 0;  // `events` gets no more than so many, or one more
    UnansweredOffers* offers = nullptr;
    std::span<std::byte> scratch;  // for what nobody wants
  };

  TcpConnection(PeerId id, TcpStream stream) : id_(id), stream_(std::move(stream)) {}

  PeerId id() const { return id_; }
  const std::string& peer_name() const { return stream_.peer_name; }
  int socket() const { return stream_.socket.get(); }
  bool seals() const { return stream_.channel->seals(); }
  SendQueue& queue() { return stream_.queue; }

  // Takes what the socket has, some of it: a payload that begins is offered, and read by the next call, into the memory
  // that Land named by then or, if nobody has answered, into memory of ours. One that is there wholly is lent to its
  // offer until the next call. true: call it again soon, the socket does not say that there is more. An error ends the
  // connection; its text goes on after the peer's name. Unavailable: it has ended. ResourceExhausted: the peer sends
  // more than it may. FailedPrecondition: it sends what is no record.
  absl::StatusOr<bool> Receive(const Arrivals& to);

  // The current payload, of an offer that is not whole yet, goes to `buffer`. kLanded follows.
  void Land(OfferId offer, std::span<std::byte> buffer, uint64_t token);
  void DropPayload() { stream_.reader.DropPayload(); }

  // Sends what waits, and adds the kSent events of what is sent. false: the socket takes no more; Receive tells why.
  bool Flush(EventList* events);

  // Ends all that is under way with `why`, and the connection.
  void End(const absl::Status& why, EventList* events);

 private:
  struct Landing {
    OfferId offer;
    uint64_t token = 0;
    size_t bytes = 0;
  };

  absl::Status TakeItems(const Arrivals& to);
  absl::StatusOr<OfferId> Offer(const RecordReader::Item& item, const Arrivals& to);
  void EndPayload(const Arrivals& to);
  // A payload is whole. true: it was there when the one before it was.
  bool CameWithLast() { return std::exchange(dry_spells_at_payload_, dry_spells_) == dry_spells_; }
  static absl::Status WhyEnded(int error);

  const PeerId id_;
  TcpStream stream_;
  // The current payload is that of an offer that nobody has answered, or of a landing, or is dropped.
  std::optional<OfferId> offered_;
  std::optional<Landing> landing_;
  std::vector<OfferId> lent_;  // offers of whole payloads, since the last Receive
  bool lent_a_chunk_ = false;  // one of them is so large that the next comes by itself
  // The socket had nothing left after the newest read; how often reads followed such a one; the same when the newest
  // payload was whole.
  bool is_dry_ = false;
  uint64_t dry_spells_ = 1;
  uint64_t dry_spells_at_payload_ = 0;
  int write_error_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TCP_CONNECTION_H_
