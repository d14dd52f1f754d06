// The inside of the shared-memory transport: its connections and what is on its way on them.
//
// shm_transport.cc has the port's functions, shm_peers.cc how connections begin and end, shm_records.cc what comes and
// goes on them, shm_pieces.cc the payloads for which the arena has no room.
//
// What waits for what. Words (notes, returns, askings) wait for room in the ring, payloads and pieces for that and for
// the words before them, and room comes when the peer polls, whatever its user does: it reads its ring to the end,
// copies out pieces into the buffers that its user has named already, and keeps offers as numbers. Nothing waits for
// room in the arena. So between two sides that poll, every payload is offered and every accepted one lands (T11).
//
// The end of a connection. Our side says kClosed in its outbox when our user closed or the peer is gone: then all that
// the user was promised has been reported. It says kDoneReading when nothing is borrowed from the peer any more. What
// we lent from our arena stays untouched until the peer says kDoneReading or is dead, because a server may be summing
// it: then the pages are used again. What we lent from the region may be used again at once: the peer looks at our
// stage after it has copied, and drops the copy.
#ifndef SHOAL_NET_SHM_SHM_CONNECTIONS_H_
#define SHOAL_NET_SHM_SHM_CONNECTIONS_H_

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/frame.h"
#include "core/page_arena.h"
#include "net/event_list.h"
#include "net/shm/outbox.h"
#include "net/shm/same_node_socket.h"
#include "net/shm/shm_transport.h"
#include "net/wake_up.h"

namespace shoal {

// First in every arena; all peers of its owner read it.
struct StatusPage {
  std::atomic<uint64_t> sleeps;  // odd: the owner sleeps, or is about to; ring its bell
};
inline constexpr size_t kStatusPageBytes = 4096;

// Up to here a payload goes into the ring, where it costs a copy and saves an answer.
inline constexpr size_t kMaxInlineBytes = 8192;

// A payload that comes through the ring does so in pieces of this size: several of them fit, so that one side writes
// while the other reads.
inline constexpr size_t kMaxPieceBytes = 32768;
static_assert(kMaxPieceBytes + kMaxInlineBytes < kRingBytes / 4, "a piece waits for little else");

class ShmTransportImpl final : public ShmTransport, private PayloadLender {
 public:
  explicit ShmTransportImpl(const ShmTransportOptions& options)
      : options_(options), arena_(options.arena_bytes), next_id_(options.first_id) {}
  ~ShmTransportImpl() override;

  absl::Status Start();

  absl::StatusOr<PeerId> Connect(const std::string& address) override;
  absl::StatusOr<PeerId> ConnectIfOnThisNode(const std::string& address) override;
  absl::Status SendNote(PeerId peer, std::span<const std::byte> note) override;
  absl::Status Send(PeerId peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override;
  absl::Status Accept(OfferId offer, std::span<std::byte> buffer, uint64_t token) override;
  bool AcceptsAtOnce(OfferId offer) const override;
  PayloadLender* lender() override { return this; }
  void Decline(OfferId offer) override;
  void Close(PeerId peer) override;
  std::span<const TransportEvent> Poll() override;
  bool Arm() override;
  int wake_fd() const override { return epoll_.get(); }
  void Wake() override { wake_up_->Signal(); }
  std::string listen_address() const override { return options_.listen_address; }
  TransportReport Report(std::span<const PeerId> peers) const override;
  size_t peer_count() const override { return up_.size(); }

 private:
  const std::byte* Borrow(OfferId offer) override;
  void Return(OfferId offer) override;

  enum class PeerState : uint8_t {
    kGuest,     // it connected; its greeting is to come. Not known to the user
    kGreeting,  // we connected; likewise
    kUp,
    kEnding,  // the user has heard of its end; memory is still lent or borrowed
  };

  struct Lent {
    uint64_t token = 0;  // of a send from the region, which waits for the peer
    bool in_region = false;
    uint64_t offset = 0;  // of the arena
    uint64_t bytes = 0;
  };

  // A payload that stays where our user has it, until the peer asks for it.
  struct Kept {
    std::span<const std::byte> payload;
    uint64_t token = 0;
    bool asked = false;
    size_t sent_bytes = 0;  // in pieces
  };

  // A payload that the peer keeps, and that was asked for.
  struct Landing {
    OfferId offer;
    uint64_t token = 0;
    std::span<std::byte> buffer;
    size_t landed_bytes = 0;
  };

  // What waits for room in our ring. Never behind a payload: it is what the other side waits for.
  struct WaitingWord {
    RecordType type = RecordType::kNote;
    uint64_t send_number = 0;  // kReturned, kAsked
    size_t note_bytes = 0;
    std::array<std::byte, kMaxNoteBytes> note;
  };

  // What waits for room in our ring.
  struct WaitingPayload {
    size_t header_bytes = 0;
    std::array<std::byte, kMaxNoteBytes> header;
    std::span<const std::byte> payload;
    uint64_t token = 0;
  };

  struct Peer {
    PeerId id;
    PeerState state = PeerState::kGuest;
    std::string name;  // for messages
    WatchedDescriptor socket;
    WatchedDescriptor process;  // readable when the process has ended; may be invalid
    std::unique_ptr<OwnedMemory> outbox_memory;
    std::unique_ptr<OutboxWriter> outbox;
    // From its greeting.
    std::unique_ptr<PeerMemory> their_outbox_memory;
    std::unique_ptr<PeerMemory> their_arena;
    std::unique_ptr<PeerMemory> their_region;  // may be null
    std::unique_ptr<OutboxReader> inbox;
    uint64_t mapped_bytes = 0;
    uint64_t rung_for_sleep = 0;
    std::deque<WaitingWord> words;
    std::deque<WaitingPayload> payloads;
    size_t notes_waiting = 0;                  // of the words
    size_t sends_waiting = 0;                  // for room, or for the peer to be done with the region or to ask
    absl::flat_hash_map<uint64_t, Lent> lent;  // by send number
    uint64_t next_send_number = 1;
    std::map<uint64_t, Kept> kept;         // by send number, in which order they end with the connection
    std::deque<uint64_t> asked;            // of them: what goes out in pieces, in this order
    bool piece_is_next = false;            // payloads and pieces take turns
    std::map<uint64_t, Landing> landings;  // by the peer's send number
    uint64_t newest_kept = 0;              // likewise: the newest that it offered
    size_t offers = 0;
    size_t held_bytes = 0;
    size_t borrowed = 0;
    size_t index = 0;  // in up_

    bool IsAnythingWaiting() const { return !words.empty() || !payloads.empty() || !asked.empty(); }
  };

  struct Offer {
    Peer* peer = nullptr;
    const std::byte* payload = nullptr;
    uint64_t payload_bytes = 0;
    uint64_t send_number = 0;  // 0: the payload lies in `block`
    bool in_region = false;
    bool kept = false;  // the peer has it: `payload` is null
    std::unique_ptr<std::byte[]> block;
  };

  // shm_peers.cc
  absl::Status CheckRoomForPeer() const;
  Peer* AddPeer(PeerState state, FileDescriptor socket, std::string name);
  void AcceptGuests();
  // Without descriptors: for a moment.
  void PauseAccepting();
  void ResumeAccepting();
  void ForgetGuest(Peer& peer);
  void Greet(Peer& peer);  // sends our greeting
  void OnGreeting(Peer& peer);
  absl::Status MapMemory(Peer& peer, ReceivedGreeting* received);
  // Tells the user of the end; `peer` may be gone afterwards.
  void EndPeer(Peer& peer, const absl::Status& sends, const absl::Status& down);
  // A connection that has ended on our side: sees what the peer says, gives back memory, and forgets it when all is
  // given back.
  void Settle(Peer& peer, bool peer_is_dead);
  void SayStage(Peer& peer, SideStage stage);
  void Forget(Peer& peer);
  void PollSockets();
  void OnSocket(Peer& peer);
  void OnDeath(Peer& peer);  // or the end of its socket

  // shm_records.cc
  absl::StatusOr<Peer*> FindUpPeer(PeerId peer);
  // False: no room now. An error of the peer's: it is to be ended by the caller.
  absl::StatusOr<bool> TryNote(Peer& peer, RecordType type, uint64_t send_number, std::span<const std::byte> note);
  absl::StatusOr<bool> TrySend(Peer& peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                               uint64_t token);
  void Publish(Peer& peer);
  void RingIfAsleep(Peer& peer);
  void SayWord(Peer& peer, RecordType type, uint64_t send_number);
  bool Flush(Peer& peer);  // true if something went out; `peer` may be ended
  // The next of what waits, if there is room; false: no.
  absl::StatusOr<bool> TryNextWord(Peer& peer);
  absl::StatusOr<bool> TryNextPayload(Peer& peer);
  // Reads what the peer said, and ends it if it has closed. `ended`: it has, and won't say so; what it said before is
  // still there.
  void ReadPeer(Peer& peer, bool ended = false);
  absl::Status OnRecord(Peer& peer, const OutboxReader::Record& record);
  absl::Status OnPayload(Peer& peer, const OutboxReader::Record& record);
  absl::Status TakeInline(Peer& peer, const OutboxReader::Record& record, Offer* offer);
  absl::Status TakeLent(const Peer& peer, const RecordHeader& record, Offer* offer);
  absl::Status OnReturned(Peer& peer, uint64_t send_number);
  void ReleaseBlock(Offer& offer);
  void FinishSend(Peer& peer, uint64_t token, absl::Status status);

  // shm_pieces.cc
  absl::StatusOr<bool> TryKeep(Peer& peer, std::span<const std::byte> header, std::span<const std::byte> payload,
                               uint64_t token, uint64_t consumed);
  absl::StatusOr<bool> TryNextPiece(Peer& peer);
  absl::Status TakeKept(Peer& peer, const RecordHeader& record, Offer* offer);
  void AskFor(Peer& peer, uint64_t send_number, const Landing& landing);
  absl::Status OnAsked(Peer& peer, uint64_t send_number);
  absl::Status OnPiece(Peer& peer, const OutboxReader::Record& record);
  absl::Status OnUnwanted(Peer& peer, uint64_t send_number);
  void EndPieces(Peer& peer, const absl::Status& why);  // with its connection

  StatusPage& status_page() { return *reinterpret_cast<StatusPage*>(arena_memory_->bytes().data()); }

  const ShmTransportOptions options_;
  PageArena arena_;
  std::unique_ptr<OwnedMemory> arena_memory_;  // the status page, then the arena
  std::unique_ptr<WakeUp> wake_up_;
  FileDescriptor epoll_;
  WatchedDescriptor listener_;
  WatchedDescriptor pause_;  // a timer; readable when accepting is to go on
  uint64_t next_id_;
  absl::flat_hash_map<PeerId, std::unique_ptr<Peer>> peers_;  // looked up; walked only at the end
  std::vector<Peer*> up_;
  size_t next_up_ = 0;         // where reading goes on
  std::deque<PeerId> guests_;  // oldest first
  uint64_t mapped_bytes_ = 0;  // of all peers
  absl::flat_hash_map<OfferId, Offer> offers_;
  absl::flat_hash_map<OfferId, Offer> borrowed_;
  std::vector<std::unique_ptr<std::byte[]>> free_blocks_;
  uint64_t sleeps_ = 0;  // as in our status page
  int polls_without_sockets_ = 0;
  EventList pending_;
  EventList returned_;
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHM_CONNECTIONS_H_
