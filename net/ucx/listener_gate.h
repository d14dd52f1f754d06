// A gate before UCX's listening socket: the kernel drops every packet except those from addresses that were let in.
//
// A stranger who reaches this socket can end the process (seen with UCX 1.13), so a stranger's connection must not be
// made at all. UCX has no setting for that. The kernel has socket filters, which see every packet before the socket
// does and which accepted sockets inherit.
//
// Some kernels allow such filters only with CAP_NET_ADMIN (seen: 6.18.44, Debian 12's 6.1.192). Without it the gate is
// coarser: while no guest is expected the socket accepts only packets with a hop limit that no connection sends by
// itself (IP_MINTTL); while guests are expected, for some milliseconds each, any peer may connect.
//
// Thread: one, which makes every call.
#ifndef SHOAL_NET_UCX_LISTENER_GATE_H_
#define SHOAL_NET_UCX_LISTENER_GATE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "process/socket_address.h"

namespace shoal {

class ListenerGate {
 public:
  // At a time. The kernel bounds the memory of a socket's options (net.core.optmem_max, 20 KiB on older ones).
  static constexpr size_t kMaxGuests = 64;

  // Closes the socket of this process that listens at `listener`, which its owner may close at any time. Internal: no
  // such socket, or the kernel has neither kind of gate (some sandboxes don't).
  static absl::StatusOr<std::unique_ptr<ListenerGate>> Close(const SocketAddress& listener);

  // From now on this address and port may connect. ResourceExhausted: kMaxGuests are let in, or the kernel has no
  // memory for the filter; nothing has changed.
  absl::Status LetIn(const SocketAddress& guest);
  // For when it has connected (which it may go on to use) or won't come.
  void KeepOut(const SocketAddress& guest);
  bool full() const { return guests_.size() >= kMaxGuests; }

 private:
  explicit ListenerGate(int listener_fd) : listener_fd_(listener_fd) {}
  // Tells the kernel of guests_.
  absl::Status Apply();
  absl::Status AttachFilter() const;
  absl::Status SetHopLimit() const;

  const int listener_fd_;     // UCX's
  bool knows_guests_ = true;  // false: the coarser kind
  std::vector<SocketAddress> guests_;
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_LISTENER_GATE_H_
