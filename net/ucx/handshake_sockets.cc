#include "net/ucx/handshake_sockets.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/peer_socket.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;

// What an epoll event is about; greater numbers are connections.
constexpr uint64_t kWatched = 0;
constexpr uint64_t kListener = 1;
constexpr uint64_t kTimer = 2;
constexpr uint64_t kWakeUp = 3;
constexpr uint64_t kFirstConnection = 16;

constexpr int kMaxAcceptsPerPoll = 64;
constexpr int kMaxReadyPerPoll = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<HandshakeSockets>> HandshakeSockets::Make() {
  absl::StatusOr<std::unique_ptr<WakeUp>> wake_up = WakeUp::Make();
  if (!wake_up.ok()) return wake_up.status();
  std::unique_ptr<HandshakeSockets> sockets(new HandshakeSockets(*std::move(wake_up)));
  if (absl::Status status = sockets->Open(); !status.ok()) return status;
  return sockets;
}

absl::Status HandshakeSockets::Open() {
  absl::StatusOr<FileDescriptor> epoll = MakeEpoll();
  if (!epoll.ok()) return epoll.status();
  epoll_ = *std::move(epoll);
  if (absl::Status status = timer_.Open(epoll_.get(), kTimer); !status.ok()) return status;
  return WatchBorrowed(wake_up_->fd(), epoll_.get(), kWakeUp);
}

HandshakeSockets::~HandshakeSockets() {
  // A copy of a socket in a forked child must not keep the other side waiting.
  for (const auto& [id, connection] : connections_) connection->socket.HangUp();
  listener_.HangUp();
}

absl::Status HandshakeSockets::Watch(int watched_fd) { return WatchBorrowed(watched_fd, epoll_.get(), kWatched); }

void HandshakeSockets::Unwatch(int watched_fd) { UnwatchBorrowed(watched_fd, epoll_.get()); }

absl::Status HandshakeSockets::Listen(const std::string& ip, uint16_t port) {
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(ip, port);
  if (!address.ok()) return address.status();
  absl::StatusOr<FileDescriptor> listener = ListenOn(*address);
  if (!listener.ok()) return listener.status();
  listen_address_ = BoundAddress(listener->get());
  return listener_.Watch(*std::move(listener), epoll_.get(), kListener, EPOLLIN);
}

absl::StatusOr<HandshakeSockets::Connection*> HandshakeSockets::Add(FileDescriptor socket, bool dialed,
                                                                    const SocketAddress& address) {
  auto connection = std::make_unique<Connection>();
  connection->id = ConnectionId(kFirstConnection + next_connection_++);
  connection->state = dialed ? Connection::State::kDialing : Connection::State::kAwaitingMessage;
  connection->dialed = dialed;
  connection->address = address;
  connection->name = FormatSocketAddress(address.storage);
  PreparePeerSocket(socket.get(), dialed);
  const uint64_t key = connection->id.value();
  absl::Status status = connection->socket.Watch(std::move(socket), epoll_.get(), key, dialed ? EPOLLOUT : EPOLLIN);
  if (!status.ok()) return status;
  return connections_.emplace(connection->id, std::move(connection)).first->second.get();
}

HandshakeSockets::Connection* HandshakeSockets::Find(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

void HandshakeSockets::Drop(Connection& connection) {
  connection.socket.HangUp();
  std::erase(ungreeted_, connection.id);
  connections_.erase(connection.id);
}

void HandshakeSockets::End(Connection& connection, absl::Status why) {
  // The user does not know of a connection that has not sent a greeting.
  if (connection.dialed || connection.state == Connection::State::kOpen) {
    events_.push_back({.kind = HandshakeEvent::Kind::kEnded,
                       .connection = connection.id,
                       .address = connection.address,
                       .message = {},
                       .why = std::move(why)});
  }
  Drop(connection);
}

absl::StatusOr<ConnectionId> HandshakeSockets::Dial(const SocketAddress& to, const HandshakeMessage& greeting) {
  FileDescriptor made(socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) return NoDescriptorLeft(absl::StrCat("can't connect to ", FormatSocketAddress(to.storage)));
  const absl::StatusOr<Connection*> added = Add(std::move(made), /*dialed=*/true, to);
  if (!added.ok()) return added.status();
  Connection& connection = **added;
  connection.outgoing = EncodeHandshake(greeting);
  const ConnectionId id = connection.id;
  if (connect(connection.socket.get(), to.get(), to.length) != 0 && errno != EINPROGRESS) {
    End(connection,
        absl::UnavailableError(absl::StrCat("connecting to ", connection.name, " failed: ", strerror(errno))));
  }
  return id;
}

void HandshakeSockets::FinishDialing(Connection& connection) {
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(connection.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    End(connection,
        absl::UnavailableError(absl::StrCat("connecting to ", connection.name,
                                            " failed (check that a server listens there): ", strerror(error))));
    return;
  }
  connection.state = Connection::State::kAwaitingMessage;
  SendMore(connection);
}

void HandshakeSockets::Settle(ConnectionId id) {
  if (Connection* connection = Find(id); connection != nullptr) connection->deadline = Clock::time_point::max();
}

void HandshakeSockets::Close(ConnectionId id) {
  if (Connection* connection = Find(id); connection != nullptr) Drop(*connection);
}

void HandshakeSockets::AcceptAll() {
  for (int i = 0; i < kMaxAcceptsPerPoll; ++i) {
    Accepted next = AcceptNext(listener_.get());
    if (next.what == Accepted::What::kNobody) return;
    if (next.what == Accepted::What::kNoDescriptors && !MakeRoom()) return PauseAccepting(true);
    if (next.what != Accepted::What::kSocket) continue;
    if (ungreeted_.size() >= kMaxUngreeted) MakeRoom();
    const absl::StatusOr<Connection*> added = Add(std::move(next.socket), /*dialed=*/false, next.from);
    if (!added.ok()) continue;
    (*added)->deadline = Clock::now() + kGreetingTimeout;
    ungreeted_.push_back((*added)->id);
    timer_.Start();
  }
}

bool HandshakeSockets::MakeRoom() {
  if (ungreeted_.empty()) return false;
  Drop(*Find(ungreeted_.front()));
  return true;
}

void HandshakeSockets::PauseAccepting(bool pause) {
  accepting_paused_ = pause;
  listener_.WatchFor(pause ? 0u : uint32_t{EPOLLIN});
  if (pause) timer_.Start();
}

void HandshakeSockets::Tick() {
  timer_.Drain();
  if (accepting_paused_) PauseAccepting(false);
  const Clock::time_point now = Clock::now();
  bool more = false;
  std::vector<Connection*> late;
  for (const auto& [id, connection] : connections_) {
    if (connection->deadline <= now) {
      late.push_back(connection.get());
    } else {
      more |= connection->deadline != Clock::time_point::max();
    }
  }
  for (Connection* connection : late) {
    End(*connection, absl::DeadlineExceededError(absl::StrCat(
                         connection->name, " completed the handshake, but did not connect over UCX in time")));
  }
  if (more || accepting_paused_) return;
  timer_.Stop();
}

void HandshakeSockets::HandleReady(uint64_t what, uint32_t events) {
  switch (what) {
    case kWatched:
      return;
    case kListener:
      AcceptAll();
      return;
    case kTimer:
      Tick();
      return;
    case kWakeUp:
      wake_up_->Drain();
      return;
    default:
      break;
  }
  const ConnectionId id(what);
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  if (connection->state == Connection::State::kDialing) {
    FinishDialing(*connection);
    return;
  }
  if ((events & EPOLLOUT) != 0) SendMore(*connection);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Receive(*connection);
}

const std::vector<HandshakeEvent>& HandshakeSockets::Poll() {
  std::array<epoll_event, kMaxReadyPerPoll> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), ready.size(), 0);
  for (int i = 0; i < count; ++i) HandleReady(ready[i].data.u64, ready[i].events);
  returned_.clear();
  returned_.swap(events_);
  return returned_;
}

bool HandshakeSockets::HasWork() const {
  if (!events_.empty()) return true;
  std::array<epoll_event, kMaxReadyPerPoll> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), ready.size(), 0);
  return std::any_of(ready.begin(), ready.begin() + std::max(count, 0),
                     [](const epoll_event& event) { return event.data.u64 != kWatched; });
}

}  // namespace shoal
