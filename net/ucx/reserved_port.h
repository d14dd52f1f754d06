// A local TCP port that is kept free for a connection that is yet to be made. Nothing is sent.
#ifndef SHOAL_NET_UCX_RESERVED_PORT_H_
#define SHOAL_NET_UCX_RESERVED_PORT_H_

#include <utility>

#include "absl/status/statusor.h"
#include "process/socket_address.h"

namespace shoal {

// A free TCP port that no other process gets until it is released. One owner, any thread.
class ReservedPort {
 public:
  // On the address from which this node talks to `to`. Unavailable: there is no route. ResourceExhausted: no file
  // descriptors or no ports.
  static absl::StatusOr<ReservedPort> Towards(const SocketAddress& to);

  ReservedPort() = default;
  ReservedPort(ReservedPort&& other) noexcept : fd_(std::exchange(other.fd_, -1)), address_(other.address_) {}
  ReservedPort& operator=(ReservedPort&& other) noexcept;
  ~ReservedPort() { Release(); }

  const SocketAddress& address() const { return address_; }
  // From now on any process can bind it, so bind it at once.
  void Release();

 private:
  int fd_ = -1;
  SocketAddress address_;
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_RESERVED_PORT_H_
