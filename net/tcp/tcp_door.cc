#include "net/tcp/tcp_door.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "net/peer_socket.h"

namespace shoal {
namespace {

constexpr int kMaxAcceptsPerPoll = 64;

}  // namespace

TcpDoor::~TcpDoor() {
  // A copy of a socket in a forked child must not keep the other side waiting.
  for (auto& [key, guest] : guests_) guest.handshake->Take().socket.HangUp();
  listener_.HangUp();
}

absl::Status TcpDoor::Listen(const SocketAddress& address) {
  absl::StatusOr<FileDescriptor> listener = ListenOn(address);
  if (!listener.ok()) return listener.status();
  listen_address_ = BoundAddress(listener->get());
  return listener_.Watch(*std::move(listener), epoll_, listener_key_, EPOLLIN);
}

void TcpDoor::AcceptAll() {
  for (int i = 0; i < kMaxAcceptsPerPoll; ++i) {
    Accepted next = AcceptNext(listener_.get());
    if (next.what == Accepted::What::kNobody) return;
    if (next.what == Accepted::What::kNoDescriptors && !MakeRoom()) return PauseAccepting(true);
    if (next.what != Accepted::What::kSocket) continue;
    if (guests_.size() >= kMaxGuests) MakeRoom();
    Add(std::move(next.socket), next.from);
  }
}

void TcpDoor::Add(FileDescriptor socket, const SocketAddress& from) {
  PreparePeerSocket(socket.get(), /*dialed=*/false);
  TcpStream stream;
  stream.peer_name = FormatSocketAddress(from.storage);
  const uint64_t key = next_key_++;
  if (!stream.socket.Watch(std::move(socket), epoll_, key, WatchedDescriptor::kReadable).ok()) return;
  guests_.emplace(key, Guest{.handshake = std::make_unique<TcpHandshake>(tls_, std::move(stream)),
                             .deadline = Clock::now() + kGreetingTimeout});
  by_age_.push_back(key);
}

bool TcpDoor::MakeRoom() {
  while (!by_age_.empty()) {
    const uint64_t oldest = by_age_.front();
    by_age_.pop_front();
    if (!guests_.contains(oldest)) continue;
    Drop(oldest);
    return true;
  }
  return false;
}

void TcpDoor::PauseAccepting(bool pause) {
  accepting_paused_ = pause;
  listener_.WatchFor(pause ? 0u : uint32_t{EPOLLIN});
}

void TcpDoor::CountStranger(const std::string& what) {
  ++strangers_;
  last_stranger_ = what;
}

void TcpDoor::Drop(uint64_t key) {
  const auto found = guests_.find(key);
  found->second.handshake->Take().socket.HangUp();
  guests_.erase(found);
}

std::unique_ptr<TcpHandshake> TcpDoor::Proceed(uint64_t key, bool hung_up) {
  if (key == listener_key_) {
    AcceptAll();
    return nullptr;
  }
  const auto found = guests_.find(key);
  if (found == guests_.end()) return nullptr;
  const absl::StatusOr<bool> agreed = found->second.handshake->Proceed(hung_up);
  if (!agreed.ok()) {
    // One that only looked whether somebody listens is no stranger.
    if (!absl::IsUnavailable(agreed.status())) CountStranger(std::string(agreed.status().message()));
    Drop(key);
    return nullptr;
  }
  if (!*agreed) return nullptr;
  std::unique_ptr<TcpHandshake> greeted = std::move(found->second.handshake);
  guests_.erase(found);
  return greeted;
}

void TcpDoor::Tick(Clock::time_point now) {
  if (accepting_paused_) PauseAccepting(false);
  while (!by_age_.empty()) {
    const auto oldest = guests_.find(by_age_.front());
    if (oldest != guests_.end()) {
      if (oldest->second.deadline > now) return;
      const TcpHandshake& handshake = *oldest->second.handshake;
      CountStranger(absl::StrCat(
          handshake.stream().peer_name, ": ",
          handshake.IsSilent() ? "said nothing, or less than a first message," : "did not end its handshake",
          " within 5 s"));
      Drop(oldest->first);
    }
    by_age_.pop_front();
  }
}

}  // namespace shoal
