// The network of a server as a fuzz target writes it: what peers send is given by the target, and everything that the
// server asks for is held against the contract of net/transport.h.
//
// One thread. Events come from Poll in the order in which they were given; what was accepted or sent ends when the
// target says so, or with its peer.
#ifndef SHOAL_TESTS_FUZZ_SCRIPTED_TRANSPORT_H_
#define SHOAL_TESTS_FUZZ_SCRIPTED_TRANSPORT_H_

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "net/transport.h"

namespace shoal {

class ScriptedTransport final : public Transport {
 public:
  // Buffers of Send and Accept must lie in `slot_memory`.
  explicit ScriptedTransport(std::span<std::byte> slot_memory) : slot_memory_(slot_memory) {}

  // ---- what the target does ----

  PeerId GivePeer();
  void GiveNote(PeerId peer, std::span<const std::byte> note);
  void GiveOffer(PeerId peer, std::span<const std::byte> header, uint64_t payload_bytes);
  // Ends the operations of the peer and then its connection.
  void LosePeer(PeerId peer);
  // Ends one operation of those that are open; `which` is taken modulo their number.
  void EndAccept(uint32_t which, bool ok);
  void EndSend(uint32_t which, bool ok);

  const std::vector<PeerId>& peers() const { return peers_; }  // connected
  size_t open_accepts() const { return accepts_.size(); }
  size_t open_sends() const { return sends_.size(); }
  size_t open_offers() const { return offers_.size(); }
  bool idle() const { return events_.empty(); }

  // Groups may be opened anew under their number: what was noted of results is void.
  void ForgetResults() { results_.clear(); }

  // ---- Transport ----

  absl::StatusOr<PeerId> Connect(const std::string& address) override;
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override;
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override;
  void Decline(OfferId offer) override;
  void Close(PeerId peer) override;
  std::span<const TransportEvent> Poll() override;
  bool Arm() override { return events_.empty(); }
  int wake_fd() const override { return -1; }
  void Wake() override {}
  std::string listen_address() const override { return "script"; }
  TransportReport Report(std::span<const PeerId> peers) const override {
    return {.description = "script", .peer_transports = std::vector<std::string>(peers.size(), "script")};
  }

 private:
  struct Offer {
    PeerId peer;
    uint64_t bytes = 0;
  };
  struct Operation {
    PeerId peer;
    std::span<std::byte> buffer;
    uint64_t token = 0;
  };
  struct Held {
    TransportEvent event;
    std::vector<std::byte> bytes;  // of the event
  };

  bool IsUp(PeerId peer) const;
  void Give(TransportEvent event, std::span<const std::byte> bytes = {});
  void End(std::vector<Operation>* operations, size_t index, TransportEventKind kind, bool ok);
  void RequireInSlotMemory(std::span<const std::byte> buffer) const;

  const std::span<std::byte> slot_memory_;
  std::vector<PeerId> peers_;
  std::map<OfferId, Offer> offers_;  // neither accepted nor declined
  std::vector<Operation> accepts_;
  std::vector<Operation> sends_;
  std::set<std::tuple<PeerId, GroupId, Rank, OpNumber, ChunkNumber>> results_;  // that were sent
  std::deque<Held> events_;
  std::deque<Held> polled_;
  std::vector<TransportEvent> poll_result_;
  uint64_t next_peer_ = 1;
  uint64_t next_offer_ = 1;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_FUZZ_SCRIPTED_TRANSPORT_H_
