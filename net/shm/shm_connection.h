// One side of a connection between two processes of a node: its socket, its ring of records, and the ring and the lent
// memory of the other side.
//
// It begins with a greeting of each side (same_node_socket.h). It ends in stages (SideStage), which each side says in
// its outbox, or with the other side's death. What the other side wrote is checked against bounds here; what it means
// is checked by who reads the records. One thread.
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
#include "core/transport_event.h"
#include "net/shm/lent_memory.h"
#include "net/shm/outbox.h"
#include "net/shm/same_node_socket.h"
#include "net/shm/shared_memory.h"
#include "process/file_descriptor.h"

namespace shoal {

class ShmConnection {
 public:
  // Of epoll keys: the other process, not its socket.
  static constexpr uint64_t kProcessBit = uint64_t{1} << 63;

  // `name` is for messages.
  ShmConnection(PeerId peer, std::string name) : peer_(peer), name_(std::move(name)) {}
  PeerId peer() const { return peer_; }
  const std::string& name() const { return name_; }

  // Watches the socket with the peer's number, and the other process with that | kProcessBit. ResourceExhausted: no
  // descriptors.
  absl::Status Start(FileDescriptor socket, int epoll);

  // ---- Greetings ----
  // Makes our ring and tells the other side of it and of `lent`. ResourceExhausted or Unimplemented: no memory.
  // Unavailable: the other side is gone.
  absl::Status Greet(const LentMemory& lent);
  // Tells the other side, which is of another version, no more than ours.
  void SayVersion(const LentMemory& lent);
  // Maps what the other side's greeting has. False: it has not come yet. The errors are those of ReceiveGreeting and
  // PeerMemory::Map. ResourceExhausted as well: it has more than `most_bytes`.
  absl::StatusOr<bool> ReadGreeting(uint64_t most_bytes);
  uint64_t mapped_bytes() const { return mapped_bytes_; }

  // ---- Records; after both greetings ----
  // As OutboxWriter::Append. The other side sees it after Publish.
  absl::StatusOr<bool> Append(const RecordHeader& record, std::span<const std::byte> header,
                              std::span<const std::byte> payload) {
    return outbox_->Append(record, header, payload, inbox_->header().consumed.load(std::memory_order_acquire));
  }
  // Wakes the other side if it sleeps.
  void Publish() {
    if (outbox_->Publish()) RingIfAsleep();
  }
  // Whether the other side is to wake us when it has read.
  void SetWantsRoom(bool wants_room);

  absl::StatusOr<std::optional<OutboxReader::Record>> Next() { return inbox_->Next(); }
  // The records that Next gave are not looked at any more.
  void SayConsumed();
  bool HasMore() const { return inbox_->HasMore(); }
  // Where in the other side's lent memory that lies (lent_memory.h). nullptr: outside of it.
  const std::byte* Find(uint64_t offset, uint64_t bytes) const;

  // ---- Its end ----
  void SayStage(SideStage stage);
  // Before its greeting kDoneReading.
  SideStage their_stage() const { return inbox_.has_value() ? inbox_->stage() : SideStage::kDoneReading; }
  // Takes the bells that have come. False: the other side is gone.
  bool DrainBells() { return shoal::DrainBells(socket_.get()); }
  // The other side sees our end at once.
  void HangUp() { socket_.HangUp(); }
  // The other process has ended, or its end of the socket.
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
