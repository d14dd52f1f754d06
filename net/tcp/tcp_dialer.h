// The connections that this side has begun, until they are agreed on or have failed.
//
// Thread: one at a time. No call blocks.
#ifndef SHOAL_NET_TCP_TCP_DIALER_H_
#define SHOAL_NET_TCP_TCP_DIALER_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/transport_event.h"
#include "net/tcp/tcp_handshake.h"
#include "process/socket_address.h"

namespace shoal {

class TcpDialer {
 public:
  using Clock = std::chrono::steady_clock;
  // From Dial until the server's welcome: it may be busy.
  static constexpr auto kTimeout = std::chrono::seconds(15);

  // Sockets are watched by `epoll` under the numbers of their peers. `tls`, `keys` and `epoll` outlive this. `carries`
  // as in GreetingBody (net/tcp/record.h).
  TcpDialer(const TlsContext* tls, ConnectionKeys* keys, int epoll, std::string carries)
      : tls_(tls), keys_(keys), epoll_(epoll), carries_(std::move(carries)) {}
  ~TcpDialer();

  // Connections go over the first of these names that is a network device ("mlx5_0:1,eth0"); "": the route says.
  // InvalidArgument: none of them is.
  absl::Status UseDevice(const std::string& names);

  // Begins a connection to `address`, which is `to`. Unavailable: the kernel says at once that it can't be.
  // ResourceExhausted: no file descriptors. Those of ConnectionKeys::TicketFor.
  absl::Status Dial(PeerId peer, const std::string& address, const SocketAddress& to);

  // Its socket is ready. The stream when the connection is agreed on, nullopt before. An error of
  // TcpHandshake::Proceed: it has failed. It is no longer here after either.
  absl::StatusOr<std::optional<TcpStream>> Proceed(PeerId peer, bool hung_up);

  bool Has(PeerId peer) const { return dialing_.contains(peer); }
  size_t size() const { return dialing_.size(); }
  void Drop(PeerId peer);
  // Ends those whose time is over, and names them with the reason.
  std::vector<std::pair<PeerId, absl::Status>> EndLate(Clock::time_point now);

 private:
  struct Dialing {
    std::unique_ptr<TcpHandshake> handshake;
    Clock::time_point deadline;
  };

  const TlsContext* const tls_;
  ConnectionKeys* const keys_;
  const int epoll_;
  const std::string carries_;
  std::string device_;
  absl::flat_hash_map<PeerId, Dialing> dialing_;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TCP_DIALER_H_
