// A peer of the shared-memory transport: the connection to it, and what goes out and comes in on it.
//
// The end of a connection. Our side says kClosed when our user closed or the peer is gone: then all that the user was
// promised has been reported. It says kDoneReading when nothing is borrowed from the peer any more. What we lent from
// our arena stays untouched until the peer says kDoneReading or is dead, because a server may be summing it: then the
// pages are used again. What we lent from the region may be used again at once: the peer looks at our stage after it
// has copied, and drops the copy. One thread.
#ifndef SHOAL_NET_SHM_SHM_PEER_H_
#define SHOAL_NET_SHM_SHM_PEER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/shm/shm_connection.h"
#include "net/shm/shm_incoming.h"
#include "net/shm/shm_outgoing.h"

namespace shoal {

class ShmPeer {
 public:
  enum class State : uint8_t {
    kGuest,     // it connected, and has not greeted yet; the user does not know it
    kGreeting,  // we connected, and it has not greeted yet
    kUp,
    kEnding,  // the user has heard of its end; memory is still lent or borrowed
  };

  // What is shared outlives this. `name` is for messages.
  ShmPeer(PeerId id, State state, std::string name, const ShmShared& shared)
      : state_(state),
        events_(shared.events),
        connection_(id, std::move(name)),
        outgoing_(&connection_, shared),
        incoming_(this, &connection_, &outgoing_, shared) {}
  ShmPeer(const ShmPeer&) = delete;
  ShmPeer& operator=(const ShmPeer&) = delete;

  PeerId id() const { return connection_.peer(); }
  const std::string& name() const { return connection_.name(); }
  State state() const { return state_; }
  ShmConnection& connection() { return connection_; }
  ShmOutgoing& outgoing() { return outgoing_; }
  ShmIncoming& incoming() { return incoming_; }

  // To be called when both sides have greeted. Adds kPeerUp.
  void SetUp();
  // Reads what the peer said. An error: the caller ends the peer with it. Unavailable: the peer has closed or died.
  absl::Status Read();
  // As ShmOutgoing::Flush.
  absl::StatusOr<bool> Flush();
  // Ends Sends and Accepts with `under_way`, and adds kPeerDown with `down`. The caller calls Settle next.
  void End(const absl::Status& under_way, const absl::Status& down);
  // For a peer that was ended, whenever something has changed: takes back the memory that the peer reads no more. True:
  // both sides have given back everything, and the peer can be forgotten.
  bool Settle();

 private:
  absl::Status OnRecord(const OutboxReader::Record& record);
  absl::Status WithName(const absl::Status& status) const;

  State state_;
  EventList* const events_;
  ShmConnection connection_;
  ShmOutgoing outgoing_;
  ShmIncoming incoming_;
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHM_PEER_H_
