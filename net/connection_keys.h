// The port behind which keys come and go: what proves to both ends of a connection that they belong to each other.
//
// Who dials shows a ticket (core/connection_ticket.h), and proves that it knows the ticket's key without sending it.
// Who listens derives the key from the ticket, so it keeps nothing for those who have not proved themselves. A ticket
// is only bytes here, and anybody may see it.
//
// Thread: that of the transport, which both outlive.
#ifndef SHOAL_NET_CONNECTION_KEYS_H_
#define SHOAL_NET_CONNECTION_KEYS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "core/connection_ticket.h"

namespace shoal {

class ConnectionKeys {
 public:
  virtual ~ConnectionKeys() = default;

  // For a connection to the listener at "ip:port". An error: none is made, and its kPeerDown has this status.
  virtual absl::StatusOr<ConnectionTicket> TicketFor(const std::string& address) = 0;

  // What a ticket that somebody shows is for, whoever he is. nullopt: it is none of ours, or its time is over. Derives
  // and keeps nothing.
  virtual std::optional<TicketKey> KeyOf(std::span<const std::byte> ticket) = 0;
};

}  // namespace shoal

#endif  // SHOAL_NET_CONNECTION_KEYS_H_
