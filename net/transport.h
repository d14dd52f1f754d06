// The transport port: notes and payloads between one loop and its peers, received only where the receiver wants them.
//
// Thread: a transport belongs to one thread at a time, which makes every call (but Wake(), which any thread may call).
// Time: no call blocks.
// Ownership: a buffer passed to Send or Accept is the transport's until the event with its token; until then it may be
// read (Send) or read and written (Accept), also late.
//
// What every implementation keeps (each clause is a test of tests/conformance/transport):
//   T1  Every Send or Accept that returned OK ends in exactly one kSent or kLanded event with its token, also when the
//       peer dies, after Close, and before the transport is destroyed (the destructor waits for the network, not for
//       events: buffers are free after it).
//   T2  Until that event the buffer is the transport's.
//   T3  kPeerDown comes once per peer, after all other events of that peer. A PeerId is never used again.
//   T4  Events come from Poll alone; Poll never blocks, and nothing ever calls back into the user.
//   T5  Notes from one peer arrive in the order sent. Payloads may overtake notes and each other.
//   T6  What a peer sends can't harm: too long, too short or garbage is dropped or offered with its true size. (UCX
//       itself believes the headers of peers that have proved themselves.)
//   T7  Limits are fixed at construction; beyond them Send and SendNote return ResourceExhausted and nothing was
//       sent. No traffic within its credit meets the defaults (net/transport_limits.h).
//   T8  A peer that falls silent need not be reported as kPeerDown. Whoever watches its lease calls Close, which must
//       still keep T1.
//   T9  is that of lending: net/lending.h.
//   T10 If AcceptsAtOnce(offer) is true, Accept copies the payload before it returns, even if the sender has died. If
//       the sender closes meanwhile, it returns Unavailable and has written nothing, or the copy is whole: only a
//       sender that waited for it in vain (100 ms) makes kLanded an error. kLanded comes with the next Poll.
//   T11 No payload waits until another one is taken or returned. Between two sides that poll, every payload is
//       offered and every accepted one lands, whatever either of them or anybody else leaves unanswered or keeps
//       borrowed, and whoever else stands still. That no group deadlocks rests on this (docs/adr/0001, docs/adr/0018).
#ifndef SHOAL_NET_TRANSPORT_H_
#define SHOAL_NET_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/frame.h"
#include "core/transport_event.h"
#include "net/lending.h"
#include "net/wake_up.h"

namespace shoal {

struct TransportReport {
  std::string description;          // what moves the bytes: "tcp", "rc_verbs", "shared memory", ...
  size_t shared_memory_peers = 0;   // how many connections are up over shared memory instead of a network
  uint64_t corrupted_payloads = 0;  // how many did not arrive as they were sent, as far as that is checked
  uint64_t strangers = 0;           // connections that were closed since they did not begin with a greeting of ours
  std::string last_stranger;        // where the newest of them came from, and what was wrong; "": none
  // Of each peer that was asked about, in that order: "tcp/eth0", "rc_verbs/mlx5_0:1", "shared memory"; "" for one that
  // is not connected.
  std::vector<std::string> peer_transports;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Starts a connection to a listener's "ip:port". The outcome is a kPeerUp or a kPeerDown event.
  // InvalidArgument: not an address. ResourceExhausted: too many peers.
  virtual absl::StatusOr<PeerId> Connect(const std::string& address) = 0;

  // Sends a copy of at most kMaxNoteBytes. NotFound: no such peer (it may be down already): nothing was sent, no event.
  virtual absl::Status SendNote(PeerId peer, std::span<const std::byte> note) = 0;

  // Sends a header (copied, at most kMaxNoteBytes) and a payload of at least one byte. NotFound as above.
  virtual absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                            uint64_t token) = 0;

  // Takes an offer into `buffer`, whose size must equal the offer's payload_bytes (InvalidArgument otherwise, and the
  // offer stands). NotFound: the offer is gone with its peer; no event follows. Unavailable: T10; no event either.
  virtual absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) = 0;

  // True if Accept copies at once, out of memory that does not go with the sender: T10. False for an unknown offer.
  virtual bool AcceptsAtOnce(OfferId /*offer*/) const { return false; }

  // What this transport lends without a copy; owned by it. nullptr: it lends nothing.
  virtual PayloadLender* lender() { return nullptr; }

  // Drops an offer. The sender learns nothing by it (its kSent may be OK): say so in a note where it should know.
  virtual void Decline(OfferId offer) = 0;

  // Ends a connection at once: what is in flight ends with an error, offers are dropped, kPeerDown follows.
  virtual void Close(PeerId peer) = 0;

  // Moves the network along and returns what happened, oldest first. Valid until the next Poll.
  virtual std::span<const TransportEvent> Poll() = 0;

  // Before sleeping: true if nothing is pending, and wake_fd() will become readable when something is (level
  // triggered). False: call Poll again.
  virtual bool Arm() = 0;
  virtual int wake_fd() const = 0;

  // Blocks until wake_fd() is readable, or `other_fd` (of the caller, the same one each time; -1: none), a signal has
  // arrived, or `timeout_ns` has passed (as WaitReadable's). Only after Arm() said true. False: `other_fd` is not what
  // ended it. A transport may learn here what the next Poll would have to ask the system for again.
  virtual bool Sleep(std::optional<int64_t> timeout_ns, int other_fd) {
    return WaitReadable({wake_fd(), other_fd}, timeout_ns);
  }

  // Makes wake_fd() readable from any thread.
  virtual void Wake() = 0;

  // "ip:port" where peers reach this transport; empty if it does not listen.
  virtual std::string listen_address() const = 0;

  // For logs and status. `peers`: whose connections to describe. Not for every chunk: it allocates.
  virtual TransportReport Report(std::span<const PeerId> peers) const = 0;
};

}  // namespace shoal

#endif  // SHOAL_NET_TRANSPORT_H_
