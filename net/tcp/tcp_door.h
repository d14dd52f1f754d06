// Where peers come in: the listener, and those who have connected and not yet proved who they are.
//
// Anybody may connect and say anything. What such a guest can cost is bounded: the oldest of kMaxGuests goes for the
// next one, each has kGreetingTimeout in all, and none has memory of ours before its first message is there whole and
// looks like ours (net/tcp/tcp_handshake.h). Those who fail are counted.
//
// Thread: one at a time. No call blocks.
#ifndef SHOAL_NET_TCP_TCP_DOOR_H_
#define SHOAL_NET_TCP_TCP_DOOR_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "net/tcp/tcp_handshake.h"
#include "process/file_descriptor.h"
#include "process/socket_address.h"

namespace shoal {

class TcpDoor {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxGuests = 256;
  static constexpr auto kGreetingTimeout = std::chrono::seconds(5);

  // Sockets are watched by `epoll` under `first_key` and greater keys. `tls` and `epoll` outlive this.
  TcpDoor(const TlsContext* tls, int epoll, uint64_t first_key)
      : tls_(tls), epoll_(epoll), listener_key_(first_key), next_key_(first_key + 1) {}
  ~TcpDoor();

  // Once at most. Errors: those of ListenOn (net/peer_socket.h).
  absl::Status Listen(const SocketAddress& address);
  const std::string& listen_address() const { return listen_address_; }

  // The socket of `key` is ready. What is returned has sent its greeting: answer with Welcome or Refuse.
  std::unique_ptr<TcpHandshake> Proceed(uint64_t key, bool hung_up);

  // Once a second, while NeedsTicks().
  void Tick(Clock::time_point now);
  bool NeedsTicks() const { return !guests_.empty() || accepting_paused_; }

  uint64_t strangers() const { return strangers_; }
  const std::string& last_stranger() const { return last_stranger_; }

 private:
  struct Guest {
    std::unique_ptr<TcpHandshake> handshake;
    Clock::time_point deadline;
  };

  void AcceptAll();
  void Add(FileDescriptor socket, const SocketAddress& from);
  bool MakeRoom();
  void PauseAccepting(bool pause);
  void CountStranger(const std::string& what);
  void Drop(uint64_t key);

  const TlsContext* const tls_;
  const int epoll_;
  const uint64_t listener_key_;
  uint64_t next_key_;
  WatchedDescriptor listener_;
  std::string listen_address_;
  bool accepting_paused_ = false;
  absl::flat_hash_map<uint64_t, Guest> guests_;
  std::deque<uint64_t> by_age_;  // guests, oldest first, and some that are guests no longer
  uint64_t strangers_ = 0;
  std::string last_stranger_;
};

}  // namespace shoal

#endif  // SHOAL_NET_TCP_TCP_DOOR_H_
