// Addresses of this machine: which device has one, and a port of its own for a connection that is yet to be made.
// Nothing is sent.
#ifndef SHOAL_NET_UCX_LOCAL_ADDRESS_H_
#define SHOAL_NET_UCX_LOCAL_ADDRESS_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "net/socket_address.h"

namespace shoal {

// "eth0", "lo". Empty: no device of this machine has this address (or it is 0.0.0.0 or ::, which every device has).
std::string DeviceOfAddress(const SocketAddress& address);

// A free TCP port that nobody else gets until it is released. One owner, any thread.
class ReservedPort {
 public:
  // On the address from which this machine talks to `to`. Unavailable: there is no route. ResourceExhausted: no file
  // descriptors or no ports.
  static absl::StatusOr<ReservedPort> Towards(const SocketAddress& to);

  ReservedPort() = default;
  ReservedPort(ReservedPort&& other) noexcept : fd_(std::exchange(other.fd_, -1)), address_(other.address_) {}
  ReservedPort& operator=(ReservedPort&& other) noexcept;
  ~ReservedPort() { Release(); }

  const SocketAddress& address() const { return address_; }
  // Now it can be bound, by anybody: do it at once.
  void Release();

 private:
  int fd_ = -1;
  SocketAddress address_;
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_LOCAL_ADDRESS_H_
