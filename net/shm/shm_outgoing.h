// What one side of a connection sends: notes, payloads, and its answers to the other side's payloads.
//
// A small payload (kMaxInlineBytes) goes into the ring. The other side reads a larger one in our lent memory until it
// says kReturned. A payload that finds no room there stays with our user until the other side asks for it, and then
// goes through the ring in pieces (docs/adr/0018).
//
// Notes and answers wait for room in the ring. Payloads and pieces wait for room too, and they let all notes and
// answers go first, since the other side waits for those. Room comes when the other side polls, whatever its user does:
// it reads its ring to the end, copies pieces into buffers that its user has named already, and keeps offers as
// numbers. Nothing waits for room in the arena. So between two sides that poll, every payload is offered and every
// accepted one lands (clause T11 of net/transport.h).
//
// An error of Flush, OnReturned or OnAsked is the other side's fault: end the connection. One thread.
#ifndef SHOAL_NET_SHM_SHM_OUTGOING_H_
#define SHOAL_NET_SHM_SHM_OUTGOING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/frame.h"
#include "net/event_list.h"
#include "net/shm/lent_memory.h"
#include "net/shm/shm_connection.h"
#include "net/transport_limits.h"

namespace shoal {

// What the connections of one transport share.
struct ShmShared {
  const TransportLimits* limits;
  LentMemory* lent;
  EventList* events;  // what the next Poll returns
  class ShmOffers* offers;
};

class ShmOutgoing {
 public:
  // The connection, and what is shared, outlive this.
  ShmOutgoing(ShmConnection* connection, const ShmShared& shared) : connection_(connection), shared_(shared) {}

  // ---- What our user sends; errors as those of Transport ----
  absl::Status SendNote(std::span<const std::byte> note);
  absl::Status Send(std::span<const std::byte> header, std::span<const std::byte> payload, uint64_t token);

  // ---- What we say of the other side's payloads ----
  // kReturned or kAsked. After End nothing is said.
  void Answer(RecordType type, uint64_t send_number);

  bool IsAnythingWaiting() const { return !words_.empty() || !payloads_.empty() || !asked_.empty(); }
  // Sends what waits, as far as there is room. True if something went out.
  absl::StatusOr<bool> Flush();

  // ---- What the other side says of ours ----
  absl::Status OnReturned(uint64_t send_number);
  absl::Status OnAsked(uint64_t send_number);

  // ---- The connection's end ----
  // Ends every Send that has not ended. What the other side reads in our arena stays as it is until TakeBack. What it
  // reads in the region may be used for something else at once.
  void End(const absl::Status& why);
  bool lends() const { return !loans_.empty(); }
  // Frees what was lent, when the other side reads no more.
  void TakeBack();

 private:
  // A payload that the other side knows by its send number.
  struct Loan {
    enum class State : uint8_t { kInArena, kInRegion, kKept, kAsked } state = State::kKept;
    uint64_t token = 0;
    std::span<const std::byte> payload;  // kKept, kAsked: what has not been sent yet. kInArena: its size counts
    uint64_t offset = 0;                 // kInArena
  };

  // A note or an answer.
  struct WaitingWord {
    RecordType type = RecordType::kNote;
    uint64_t send_number = 0;  // of an answer
    size_t note_bytes = 0;
    std::array<std::byte, kMaxNoteBytes> note;
  };

  struct WaitingPayload {
    size_t header_bytes = 0;
    std::array<std::byte, kMaxNoteBytes> header;
    std::span<const std::byte> payload;
    uint64_t token = 0;
  };

  // False: no room now.
  absl::StatusOr<bool> TryWord(RecordType type, uint64_t send_number, std::span<const std::byte> note);
  absl::StatusOr<bool> TryPayload(std::span<const std::byte> header, std::span<const std::byte> payload,
                                  uint64_t token);
  absl::StatusOr<bool> TryNextWord();
  absl::StatusOr<bool> TryNextPayload();
  absl::StatusOr<bool> TryNextPiece();
  void FinishSend(uint64_t token, const absl::Status& status);

  ShmConnection* const connection_;
  const ShmShared shared_;
  std::deque<WaitingWord> words_;
  std::deque<WaitingPayload> payloads_;
  size_t notes_waiting_ = 0;                   // of the words
  size_t sends_waiting_ = 0;                   // for room, or for the other side to return them or to ask
  absl::flat_hash_map<uint64_t, Loan> loans_;  // by send number
  std::deque<uint64_t> asked_;                 // of them: what goes out in pieces, in this order
  uint64_t next_send_number_ = 1;
  bool is_piece_next_ = false;  // payloads and pieces take turns
  bool has_ended_ = false;
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHM_OUTGOING_H_
