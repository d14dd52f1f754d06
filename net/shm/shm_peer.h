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
    kGuest,     // it connected; its greeting is to come. Not known to the user
    kGreeting,  // we connected; likewise
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

  // Both greetings have come. Adds kPeerUp.
  void SetUp();
  // Reads what the peer said. An error: it is to be ended with it, and Unavailable says that it has closed or died.
  absl::Status Read();
  // As ShmOutgoing::Flush.
  absl::StatusOr<bool> Flush();
  // Ends what is under way, Sends and Accepts with `under_way`, and adds kPeerDown with `down`. Settle next.
  void End(const absl::Status& under_way, const absl::Status& down);
  // Of a peer that was ended: looks what it has said since, and takes back memory. True: all was given back, on both
  // sides, and nothing comes any more.
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
