// The plain TCP side of the UCX transport: listens, dials, exchanges handshakes, and then keeps each socket open,
// because its end is how one side learns at once that the other is gone.
//
// Any process may connect and send anything. A connection is closed at the first byte that is not part of a greeting, a
// greeting must be complete within kGreetingTimeout, and at most kMaxUngreeted connections without a greeting are kept
// (the oldest is closed first).
//
// Silence on the path between the two nodes ends a socket as well (net/peer_socket.h). A probe does not queue behind
// UCX's data, so only a broken path is noticed, not a slow one. What follows is in core/failure_detection.h.
//
// Thread: one at a time, which makes every call (but Wake(), which any thread may call). No call blocks.
// A ConnectionId is never used again; calls with one that has ended do nothing.
#ifndef SHOAL_NET_UCX_HANDSHAKE_SOCKETS_H_
#define SHOAL_NET_UCX_HANDSHAKE_SOCKETS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "net/tick_timer.h"
#include "net/ucx/handshake_message.h"
#include "net/wake_up.h"
#include "process/file_descriptor.h"
#include "process/socket_address.h"

namespace shoal {

using ConnectionId = StrongId<struct ConnectionIdTag, uint64_t>;

struct HandshakeEvent {
  enum class Kind : uint8_t {
    kGreeted,   // a peer connected and sent a greeting: answer with Welcome, Refuse or Close
    kWelcomed,  // our Dial was answered by a welcome
    kEnded,     // after one of the two, or after Dial: the socket is closed; `why` is never OK
  };

  Kind kind = Kind::kEnded;
  ConnectionId connection;
  SocketAddress address;     // of the other side
  HandshakeMessage message;  // kGreeted, kWelcomed
  // kEnded. FailedPrecondition: another version, or not a Shoal process. DeadlineExceeded: kSettleTimeout. Otherwise
  // Unavailable.
  absl::Status why;
};

class HandshakeSockets {
 public:
  static constexpr auto kGreetingTimeout = std::chrono::seconds(5);
  // From a greeting until Settle.
  static constexpr auto kSettleTimeout = std::chrono::seconds(15);
  static constexpr size_t kMaxUngreeted = 256;

  // ResourceExhausted: the process has no file descriptors left.
  static absl::StatusOr<std::unique_ptr<HandshakeSockets>> Make();
  ~HandshakeSockets();
  HandshakeSockets(const HandshakeSockets&) = delete;
  HandshakeSockets& operator=(const HandshakeSockets&) = delete;

  // Once at most. InvalidArgument: `ip` is no address of this node, or the port isn't permitted. AlreadyExists: the
  // port is taken. Unavailable: an IPv6 address that the kernel does not let anybody use yet. The texts name the
  // address. listen_address() is the outcome, "" before.
  absl::Status Listen(const std::string& ip, uint16_t port);
  const std::string& listen_address() const { return listen_address_; }

  // Starts to connect and will send `greeting`. kWelcomed or kEnded follows. ResourceExhausted: no file descriptors.
  absl::StatusOr<ConnectionId> Dial(const SocketAddress& to, const HandshakeMessage& greeting);

  void Welcome(ConnectionId connection, const HandshakeMessage& welcome);
  // Sends the text and closes. No event.
  void Refuse(ConnectionId connection, const std::string& why);
  // The connection is in use: its timeout is over.
  void Settle(ConnectionId connection);
  // No event. The other side sees the end at once, also when a forked child holds a copy of the socket.
  void Close(ConnectionId connection);

  // What happened, oldest first. Valid until the next Poll.
  const std::vector<HandshakeEvent>& Poll();

  // Readable when Poll has something to do, when a watched descriptor is readable, or after Wake() until the next Poll.
  int fd() const { return epoll_.get(); }
  // True if a Poll now would have something to do. Watched descriptors don't count.
  bool HasWork() const;
  void Wake() { wake_up_->Signal(); }
  // Adds a descriptor to fd(). ResourceExhausted: the kernel refused.
  absl::Status Watch(int watched_fd);
  // Before its owner closes it while this object is used further.
  void Unwatch(int watched_fd);

  // Connections to the listener that did not begin with a greeting, or one of another version, and were closed; and
  // where the newest came from, with what was wrong.
  uint64_t strangers() const { return strangers_; }
  const std::string& last_stranger() const { return last_stranger_; }

 private:
  struct Connection {
    enum class State : uint8_t { kDialing, kAwaitingMessage, kOpen };

    ConnectionId id;
    WatchedDescriptor socket;
    State state = State::kAwaitingMessage;
    bool dialed = false;
    SocketAddress address;
    std::string name;  // the address as text
    std::vector<std::byte> incoming;
    std::vector<std::byte> outgoing;  // what the kernel hasn't taken yet
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  };

  explicit HandshakeSockets(std::unique_ptr<WakeUp> wake_up) : wake_up_(std::move(wake_up)) {}
  absl::Status Open();
  // What goes over the sockets: handshake_exchange.cc. The rest: handshake_sockets.cc.

  // ResourceExhausted: it can't be watched.
  absl::StatusOr<Connection*> Add(FileDescriptor socket, bool dialed, const SocketAddress& address);
  void Drop(Connection& connection);
  void End(Connection& connection, absl::Status why);
  Connection* Find(ConnectionId id);

  void AcceptAll();
  bool MakeRoom();
  void PauseAccepting(bool pause);
  void HandleReady(uint64_t what, uint32_t events);
  void FinishDialing(Connection& connection);
  void Send(Connection& connection, std::vector<std::byte> bytes);
  void SendMore(Connection& connection);
  void Receive(Connection& connection);
  void Decode(Connection& connection);
  void TurnAway(Connection& connection, const absl::Status& why);
  void Tick();

  std::unique_ptr<WakeUp> wake_up_;
  FileDescriptor epoll_;
  TickTimer timer_;
  WatchedDescriptor listener_;
  bool accepting_paused_ = false;
  std::string listen_address_;
  uint64_t strangers_ = 0;
  std::string last_stranger_;
  uint64_t next_connection_ = 0;
  absl::flat_hash_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::deque<ConnectionId> ungreeted_;    // accepted, no whole greeting yet; oldest first
  std::vector<HandshakeEvent> events_;    // not yet returned
  std::vector<HandshakeEvent> returned_;  // by the last Poll
};

}  // namespace shoal

#endif  // SHOAL_NET_UCX_HANDSHAKE_SOCKETS_H_
