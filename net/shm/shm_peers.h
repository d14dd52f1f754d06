// The peers of the shared-memory transport: how they come and go, and in which order they are read.
//
// A peer that has said something wrong is ended here. What happens goes to the events that the peers share. One thread.
#ifndef SHOAL_NET_SHM_SHM_PEERS_H_
#define SHOAL_NET_SHM_SHM_PEERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/shm/shm_peer.h"

namespace shoal {

class ShmPeers {
 public:
  // `epoll` and what is shared outlive this. The keys in the epoll are the numbers of peers, which start at `first_id`,
  // and those numbers with ShmConnection::kProcessBit.
  ShmPeers(const ShmShared& shared, int epoll, uint64_t first_id)
      : shared_(shared), epoll_(epoll), next_id_(first_id) {}
  ~ShmPeers();
  ShmPeers(const ShmPeers&) = delete;
  ShmPeers& operator=(const ShmPeers&) = delete;

  // As ShmTransport::ConnectIfOnThisNode.
  absl::StatusOr<PeerId> Connect(const std::string& address);
  // Gives a number to a peer that can't be reached, and adds its kPeerDown.
  PeerId AddDown(const absl::Status& why);
  // Takes a process that has connected to us. False: there are no descriptors for it.
  bool AddGuest(FileDescriptor socket);
  // Hangs up on the guest that has been silent for longest. False: there is no guest.
  bool ForgetOldestGuest();

  // NotFound: there is no such peer (any more). FailedPrecondition: it is not up yet.
  absl::StatusOr<ShmPeer*> FindUp(PeerId id);
  size_t up_count() const { return up_.size(); }
  void Close(PeerId id);
  // To be called when something was returned to a peer that has ended. The peer may be gone afterwards.
  void Settle(ShmPeer& peer);

  // Reads and writes the rings of the peers that are up, until there are max_events_per_poll events.
  void PollRings();
  // Sends what waits. False: PollRings has something to do, or an event was added.
  bool AreRingsIdle();
  // To be called when the epoll says `key`, which may be of a peer that is gone.
  void OnSocket(uint64_t key);

 private:
  absl::Status CheckRoom() const;
  ShmPeer* Add(ShmPeer::State state, FileDescriptor socket, std::string name);  // nullptr: no descriptors
  void OnGreeting(ShmPeer& peer);
  void OnDeath(ShmPeer& peer);  // or the end of its socket
  bool Flush(ShmPeer& peer);    // true if something went out, or `peer` was ended
  // `peer` may be gone afterwards.
  void End(ShmPeer& peer, const absl::Status& under_way, const absl::Status& down);
  void ForgetGuest(ShmPeer& peer);
  void Forget(ShmPeer& peer);

  const ShmShared shared_;
  const int epoll_;
  uint64_t next_id_;
  absl::flat_hash_map<PeerId, std::unique_ptr<ShmPeer>> peers_;  // looked up; walked only at the end
  std::vector<ShmPeer*> up_;
  size_t next_up_ = 0;         // where reading goes on
  std::deque<PeerId> guests_;  // oldest first
  uint64_t mapped_bytes_ = 0;  // of all peers
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHM_PEERS_H_
