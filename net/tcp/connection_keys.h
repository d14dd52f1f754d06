// The port behind which keys come and go: what proves to both ends of a connection that they belong to each other.
//
// Who dials shows a ticket, and proves that it knows the ticket's key without sending it. Who listens derives the key
// from the ticket, so it keeps nothing for those who have not proved themselves. Whoever hands out tickets decides for
// whom they are (a rank, a server, an epoch): a ticket is only bytes here, and anybody may see it.
//
// Thread: that of the transport, which both outlive.
#ifndef SHOAL_NET_TCP_CONNECTION_KEYS_H_
#define SHOAL_NET_TCP_CONNECTION_KEYS_H_

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

using ConnectionKey = std::array<std::byte, 32>;

inline constexpr size_t kMaxTicketBytes = 96;

struct ConnectionTicket {
  std::vector<std::byte> bytes;  // 1 to kMaxTicketBytes
  ConnectionKey key{};
};

class ConnectionKeys {
 public:
  virtual ~ConnectionKeys() = default;

  // For a connection to the listener at "ip:port". An error: none is made, and its kPeerDown has this status.
  virtual absl::StatusOr<ConnectionTicket> TicketFor(const std::string& address) = 0;

  // The key of a ticket that somebody shows, whoever he is. nullopt: it is none of ours, or its time is over. Derives
  // and keeps nothing.
  virtual std::optional<ConnectionKey> KeyOf(std::span<const std::byte> ticket) = 0;
};

// The key of a ticket that the holder of `secret` has issued: HMAC-SHA256. Pure.
ConnectionKey DeriveConnectionKey(std::span<const std::byte> secret, std::span<const std::byte> ticket);

}  // namespace shoal

#endif  // SHOAL_NET_TCP_CONNECTION_KEYS_H_
