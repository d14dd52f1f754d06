// One side of a connection between two processes of a node: its socket, its ring of records, and the ring and the lent
// memory of the other side.
//
// Each side begins with a greeting (same_node_socket.h). A side ends in stages (SideStage), which it says in its
// outbox, or it dies. What the other side wrote is checked here against the bounds of its memory. Whoever reads the
// records checks what they mean. One thread.
#ifndef SHOAL_NET_SHM_SHM_CONNECTION_H_
#define SHOAL_NET_SHM_SHM_CONNECTION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/now.h"
#include "core/transport_event.h"
#include "net/shm/lent_memory.h"
#include "net/shm/outbox.h"
#include "net/shm/same_node_socket.h"
#include "net/shm/shared_memory.h"
#include "process/file_descriptor.h"

namespace shoal {

class ShmConnection {
 public:
  // In an epoll's key: the event is about the other process, not about the socket.
  static constexpr uint64_t kProcessBit = uint64_t{1} << 63;
  static constexpr uint64_t kMostCopyingNs = 100 * kNsPerMs;

  // `name` is for messages.
  ShmConnection(PeerId peer, std::string name) : peer_(peer), name_(std::move(name)) {}
  PeerId peer() const { return peer_; }
  const std::string& name() const { return name_; }

  // Lets `epoll`, which outlives this, watch the socket and the other process. The keys are the peer's number, and that
  // with kProcessBit. ResourceExhausted: no descriptors.
  absl::Status Start(FileDescriptor socket, int epoll);

  // ---- Greetings ----
  // Makes our ring, and sends the other side our greeting, by which it can read the ring and `lent`. Unavailable: the
  // other side is gone. Other errors are those of OwnedMemory::Make.
  absl::Status Greet(const LentMemory& lent);
  // A greeting for a side of another version, which can read no more of it than the version.
  void SayVersion(const LentMemory& lent);
  // Receives the other side's greeting and maps its memory. False: the greeting has not come yet. ResourceExhausted:
  // the memory has more than `most_bytes`. Other errors are those of ReceiveGreeting and PeerMemory::Map.
  absl::StatusOr<bool> ReadGreeting(uint64_t most_bytes);
  uint64_t mapped_bytes() const { return mapped_bytes_; }

  // ---- Records; after both greetings ----
  // As OutboxWriter::Append. The other side sees the record after Publish.
  absl::StatusOr<bool> Append(const RecordHeader& record, std::span<const std::byte> header,
                              std::span<const std::byte> payload) {
    return outbox_->Append(record, header, payload, inbox_->header().consumed.load(std::memory_order_acquire));
  }
  // Shows the other side what was appended, and wakes it if it sleeps.
  void Publish() {
    if (outbox_->Publish()) RingIfAsleep();
  }
  // True: the other side wakes us when it has read records of ours.
  void SetWantsRoom(bool wants_room);

  absl::StatusOr<std::optional<OutboxReader::Record>> Next() { return inbox_->Next(); }
  // Lets the other side write over the records that Next has given.
  void SayConsumed();
  bool HasMore() const { return inbox_->HasMore(); }
  // The address of a payload in the other side's LentMemory. nullptr: it would lie outside.
  const std::byte* Find(uint64_t offset, uint64_t bytes) const;

  // ---- Its end ----
  void SayStage(SideStage stage);
  // kClosing, unless a later stage was said. `lends`: the peer may be copying from our memory, and we wait until it has
  // ended that: for kMostCopyingNs at most, as it may stand still. It finds what it has copied later to be in vain.
  void SayClosing(bool lends);
  // Around a copy from the peer's memory. False: the peer is closing; nothing may be copied.
  bool BeginCopy();
  // True: what was copied is what the peer lent.
  bool EndCopy();
  // kDoneReading if its greeting has not come.
  SideStage their_stage() const { return inbox_.has_value() ? inbox_->stage() : SideStage::kDoneReading; }
  // Takes the bells that have come. False: the other side is gone.
  bool DrainBells() { return shoal::DrainBells(socket_.get()); }
  // The other side sees our end at once.
  void HangUp() { socket_.HangUp(); }
  // To be called when the other process or its end of the socket is gone.
  void SetDead();
  bool is_dead() const { return is_dead_; }
  void CloseSocket() { socket_.Reset(); }

 private:
  absl::Status MapMemory(const ReceivedGreeting& received, uint64_t most_bytes);
  void RingIfAsleep();

  const PeerId peer_;
  const std::string name_;
  WatchedDescriptor socket_;
  WatchedDescriptor process_;  // may be invalid
  bool is_dead_ = false;
  std::unique_ptr<OwnedMemory> outbox_memory_;
  std::optional<OutboxWriter> outbox_;
  // From the other side's greeting.
  std::unique_ptr<PeerMemory> their_outbox_memory_;
  std::unique_ptr<PeerMemory> their_arena_;
  std::unique_ptr<PeerMemory> their_region_;  // may be null
  std::optional<OutboxReader> inbox_;
  uint64_t mapped_bytes_ = 0;
  uint64_t said_consumed_ = 0;
  uint64_t rung_for_sleep_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHM_CONNECTION_H_
