// How the local ranks of one group meet, wake one another, and learn of each other's end: sockets of this node.
//
// Each rank listens under a name made of the meeting's and its own number, then knocks at all others: whoever comes
// later finds the earlier ones, so nobody tries again and again, unless more wait at a rank than there is room for.
// With the greeting goes the memory (node_memory.h). Where two knock at each other, the higher rank's connection stays.
// After that a socket carries bells, and the news that a rank leaves or has failed the group; its end, or that of the
// process, is the sign of death.
//
// One thread, which never waits here. The sockets are watched by the caller's epoll.
#ifndef SHOAL_WORKER_LOCAL_REDUCE_NODE_PEERS_H_
#define SHOAL_WORKER_LOCAL_REDUCE_NODE_PEERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "net/shm/same_node_socket.h"
#include "net/shm/shared_memory.h"
#include "worker/local_reduce/local_reduce.h"
#include "worker/local_reduce/node_memory.h"

namespace shoal {

// Why a local group has ended.
struct LocalFailure {
  absl::Status status;
  std::optional<LocalRank> culprit;
};

class NodePeers {
 public:
  // The epoll's key of everything watched here is `first_key` plus a number below kKeys.
  static constexpr uint64_t kKeys = uint64_t{1} << 32;

  NodePeers(LocalGroup group, int epoll, uint64_t first_key);

  // Listens and knocks. What goes wrong is in failure(), here and later.
  void Begin();
  // One of ours is readable.
  void OnReadable(uint64_t key);

  // All are there.
  bool met() const { return met_count_ == group_.size; }
  bool HasMet(uint32_t rank) const { return rank == self() || peers_[rank] != nullptr; }
  // Of a group that has met: what local rank 0 says of devices, if all ranks can reduce tensors there.
  std::optional<DeviceMeeting> Devices() const;
  std::shared_ptr<const NodeFailures> Failures() const;
  // It said goodbye. Its memory stays as it left it.
  bool HasLeft(uint32_t rank) const { return peers_[rank] != nullptr && peers_[rank]->has_left; }
  bool AnyHasLeft() const { return left_count_ > 0; }
  const std::optional<LocalFailure>& failure() const { return failure_; }

  const LocalGroup& group() const { return group_; }
  uint32_t self() const { return group_.rank.value(); }
  // "local rank 2 of 4": for messages.
  std::string NameOf(uint32_t rank) const;

  // Of ranks that have met.
  NodeMemoryHeader& own_header() { return *reinterpret_cast<NodeMemoryHeader*>(own_memory_->bytes().data()); }
  std::byte* own_memory() { return own_memory_->bytes().data(); }
  const NodeMemoryHeader& header(uint32_t rank) const {
    return *reinterpret_cast<const NodeMemoryHeader*>(memory(rank));
  }
  const std::byte* memory(uint32_t rank) const {
    return rank == self() ? own_memory_->bytes().data() : peers_[rank]->memory->bytes().data();
  }

  // Rings at the ranks that sleep, after a counter of ours has moved.
  void WakeSleepers();
  // Between the two, counters that move ring here.
  void FallAsleep();
  void WakeUp();

  // Tells the others, and hears no more of them.
  void Fail(const LocalFailure& failure);
  void Leave();

 private:
  enum class State : uint8_t {
    kGuest,    // it knocked, and has not said who it is
    kKnocked,  // we knocked, and have had no answer
    kMet,
  };
  struct Connection {
    uint32_t number = 0;  // its key
    State state = State::kGuest;
    uint32_t rank = 0;  // unless kGuest
    WatchedDescriptor socket;
    WatchedDescriptor process;  // readable when the process has ended; may be invalid
    std::shared_ptr<const PeerMemory> memory;
    uint64_t rung_for_sleep = 0;
    bool has_left = false;
  };

  std::string SocketName(uint32_t rank) const;
  Connection* Add(State state, FileDescriptor socket, uint32_t rank);
  void Forget(Connection& connection);
  Connection* FindKnock(uint32_t rank);
  void Knock(uint32_t rank);
  // Where there was no room for it.
  void KnockAgainLater(uint32_t rank);
  void KnockAgain();
  absl::Status Greet(int socket);
  void AcceptGuests();
  void OnGuest(Connection& guest, bool process_has_ended);
  void OnAnswer(Connection& knock, bool process_has_ended);
  void OnMessages(Connection& peer, bool process_has_ended);
  void OnMessage(Connection& peer, std::span<const std::byte> message);
  // Takes the memory that came with a greeting.
  void Meet(Connection& connection, int memory_fd);
  void End(std::span<const std::byte> news);
  void Tell(int socket, bool is_guest, std::span<const std::byte> news);
  void SetFailure(absl::Status status, std::optional<uint32_t> culprit);
  // What this process lacks, with what the group takes, and itself as the culprit; or anything else.
  void SetOwnFailure(const absl::Status& status);

  const LocalGroup group_;
  const int epoll_;
  const uint64_t first_key_;
  std::shared_ptr<OwnedMemory> own_memory_;
  WatchedDescriptor listener_;
  std::vector<uint32_t> crowded_;  // ranks at which there was no room for our knock
  WatchedDescriptor knock_again_;  // a timer, while there are such
  FileDescriptor spare_;           // until all have met: so that a rank for which there is no descriptor can be told
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> peers_;  // by rank; nullptr: has not met, or is this one
  uint32_t next_number_ = 2;        // after those of the listener and the timer
  uint32_t met_count_ = 0;          // with this rank
  uint32_t left_count_ = 0;
  uint64_t sleeps_ = 0;  // as in our header
  std::optional<LocalFailure> failure_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LOCAL_REDUCE_NODE_PEERS_H_
