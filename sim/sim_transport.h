// The Transport port under virtual time, with a network that can be slow, unfair, cut and hostile.
//
// Keeps T1..T9 of net/transport.h and nothing beyond them: payloads overtake notes and each other, completions after a
// reset come in any order, a payload is read when it lands and not when it is sent, a buffer that was given to Accept
// is scribbled over until it is complete (and may be written late), a loan is scribbled over when it is returned, and a
// sender may learn that its memory is free long after the answer to what it sent. So a user that touches memory too
// early or too late fails a seed. A user that changes what is being sent, changes a loan or returns it twice is
// detected, and so is one that keeps a connection over which a payload came that was changed on its way, though it has
// a checksum (docs/failover.md, F18). A WireAudit sees every message.
// One thread (the world's).
#ifndef SHOAL_SIM_SIM_TRANSPORT_H_
#define SHOAL_SIM_SIM_TRANSPORT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "net/transport.h"
#include "net/transport_limits.h"
#include "sim/sim_network.h"
#include "sim/world.h"

namespace shoal::sim {

class SimTransport : public Transport, private PayloadLender {
 public:
  SimTransport(SimNetwork* network, std::string node, std::string address, bool listen, std::function<void()> wake,
               const TransportLimits& limits);
  ~SimTransport() override;

  absl::StatusOr<PeerId> Connect(const std::string& address) override;
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override;
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override;
  bool AcceptsAtOnce(OfferId offer) const override;
  PayloadLender* lender() override { return this; }
  void Decline(OfferId offer) override;
  void Close(PeerId peer) override;
  std::span<const TransportEvent> Poll() override;
  bool Arm() override { return inbox_.empty(); }
  int wake_fd() const override { return -1; }  // virtual time has no file descriptors: the world wakes the process
  void Wake() override { wake_(); }
  std::string listen_address() const override { return listen_ ? address_ : ""; }
  TransportReport Report(std::span<const PeerId> peers) const override {
    return {.description = "sim", .peer_transports = std::vector<std::string>(peers.size(), "sim")};
  }

  const std::string& name() const { return address_; }
  // Its user and those that it connects to give payloads checksums.
  void HasChecksums() { checksums_ = true; }
  // What it sends from now on need not make sense.
  void BeStranger() { stranger_ = true; }
  // The process disappears without closing its connections: peers notice by the silence.
  void FallSilent() { silent_ = true; }

 private:
  friend class SimNetwork;
  const std::byte* Borrow(OfferId offer) override;
  void Return(OfferId offer) override;
  using Connection = SimNetwork::Connection;

  // A payload on its way, until its sender and its receiver are both done with it.
  struct Message {
    std::shared_ptr<Connection> connection;
    int from = 0;  // index of the sending end
    std::vector<std::byte> header;
    std::span<const std::byte> payload;  // the sender's memory, while `at_sender`
    std::vector<std::byte> copy;         // of an eager payload that left its sender
    uint64_t payload_bytes = 0;
    uint64_t payload_digest = 0;  // when it was sent
    uint64_t token = 0;
    bool at_sender = true;    // kSent is still owed
    bool changed = false;     // a bit of it was flipped on its way
    bool wants_token = true;  // false for the second arrival of a duplicate, which no sender waits for
    bool dead = false;
  };
  struct Landing {
    std::shared_ptr<Message> message;
    std::span<std::byte> buffer;
    uint64_t token = 0;
    uint64_t audit_ticket = 0;
  };
  struct PeerState {
    std::shared_ptr<Connection> connection;
    int end = 0;
    std::vector<std::shared_ptr<Message>> sending;
    std::map<uint64_t, Landing> landings;  // by landing number
    size_t notes_under_way = 0;
    bool up = false;
    bool closing = false;
  };
  struct Loan {
    std::vector<std::byte> bytes;  // what the borrower reads
    std::vector<std::byte> as_lent;
  };
  struct Stored {
    TransportEvent event;
    bool changed = false;  // a landing, of a payload that was changed on its way
    std::vector<std::byte> bytes;
  };

  void Push(TransportEvent event, std::span<const std::byte> bytes = {}, bool changed = false);
  // What is there when the payload has arrived.
  static void CopyArrived(const Message& message, std::byte* to);
  // F18: what was changed on its way cuts the connection before anything else is done.
  void CheckNoChangeIsTaken();
  void Arrive(PeerId peer, std::shared_ptr<Message> message);
  void Depart(const std::shared_ptr<Message>& message, absl::Status status);
  // The receiver is done with the payload; its sender learns of that some time later.
  void Release(const std::shared_ptr<Message>& message);
  // A user that has seen two equal offers decides on one of them at once: each takes a place that others may need.
  void CheckNoCopyIsHeld();
  // T2: what is sent stays as it is until its kSent.
  void CheckUnchanged(const Message& message);
  void Land(PeerId peer, uint64_t landing);
  void EndLanding(PeerId peer, const Landing& landing, absl::Status status);
  // Ends the peer on this side: completions in any order, then kPeerDown.
  void Drop(PeerId peer, absl::Status why);
  PeerState* Find(PeerId peer);    // one that is not down
  PeerState* FindUp(PeerId peer);  // and is connected

  SimNetwork* network_;
  World* world_;
  std::string node_;
  std::string address_;
  bool listen_;
  std::function<void()> wake_;
  TransportLimits limits_;
  bool stranger_ = false;
  bool silent_ = false;
  bool checksums_ = false;
  std::set<PeerId> changed_;  // over which changed payloads came, by the last Poll or a loan since then
  std::map<PeerId, PeerState> peers_;
  std::map<OfferId, std::pair<PeerId, std::shared_ptr<Message>>> offers_;
  std::vector<OfferId> copies_;       // second arrivals of payloads, which the next Poll hands out
  std::vector<OfferId> copies_seen_;  // that the last Poll has handed out
  std::map<OfferId, Loan> loans_;
  uint64_t next_peer_ = 1;
  uint64_t next_offer_ = 1;
  uint64_t next_landing_ = 1;
  std::deque<Stored> inbox_;
  std::deque<Stored> polled_;
  std::vector<TransportEvent> events_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_TRANSPORT_H_
