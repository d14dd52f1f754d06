#include "net/tcp/tcp_dialer.h"

#include <net/if.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "net/peer_socket.h"
#include "process/node_address.h"

namespace shoal {

TcpDialer::~TcpDialer() {
  // A copy of a socket in a forked child must not keep the other side waiting.
  for (auto& [peer, dialing] : dialing_) dialing.handshake->Take().socket.HangUp();
}

absl::Status TcpDialer::UseDevice(const std::string& names) {
  if (names.empty()) return absl::OkStatus();
  std::vector<std::string> known = absl::StrSplit(names, ',');
  std::erase_if(known, [](const std::string& name) { return if_nametoindex(name.c_str()) == 0; });
  if (known.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("none of \"", names, "\" is a network device of this node (see: ip link)"));
  }
  // Which of several reaches an address only the routes know.
  if (known.size() == 1) device_ = known.front();
  return absl::OkStatus();
}

absl::Status TcpDialer::Dial(PeerId peer, const std::string& address, const SocketAddress& to) {
  if (!device_.empty() && LacksLink(device_)) return NoLink(device_);
  absl::StatusOr<ConnectionTicket> ticket = keys_->TicketFor(address);
  if (!ticket.ok()) return ticket.status();
  FileDescriptor made(socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) return NoDescriptorLeft(absl::StrCat("can't connect to ", address));
  PreparePeerSocket(made.get(), /*dialed=*/true);
  const bool bound = device_.empty() || setsockopt(made.get(), SOL_SOCKET, SO_BINDTODEVICE, device_.data(),
                                                   static_cast<socklen_t>(device_.size())) == 0;
  if (!bound || (connect(made.get(), to.get(), to.length) != 0 && errno != EINPROGRESS)) {
    return absl::UnavailableError(absl::StrCat("connecting to ", address, " failed: ", strerror(errno)));
  }
  TcpStream stream;
  stream.peer_name = address;
  stream.awaits_room = true;
  absl::Status watched = stream.socket.Watch(std::move(made), epoll_, peer.value(), EPOLLIN | EPOLLOUT);
  if (!watched.ok()) return watched;
  dialing_.emplace(
      peer, Dialing{.handshake = std::make_unique<TcpHandshake>(tls_, std::move(stream), *std::move(ticket), carries_),
                    .deadline = Clock::now() + kTimeout});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TcpStream>> TcpDialer::Proceed(PeerId peer, bool hung_up) {
  TcpHandshake& handshake = *dialing_.at(peer).handshake;
  const absl::StatusOr<bool> agreed = handshake.Proceed(hung_up);
  if (!agreed.ok()) {
    Drop(peer);
    return agreed.status();
  }
  if (!*agreed) return std::nullopt;
  TcpStream stream = handshake.Take();
  dialing_.erase(peer);
  return stream;
}

void TcpDialer::Drop(PeerId peer) {
  const auto found = dialing_.find(peer);
  found->second.handshake->Take().socket.HangUp();
  dialing_.erase(found);
}

std::vector<std::pair<PeerId, absl::Status>> TcpDialer::EndLate(Clock::time_point now) {
  std::vector<std::pair<PeerId, absl::Status>> late;
  for (const auto& [peer, dialing] : dialing_) {
    if (dialing.deadline > now) continue;
    late.emplace_back(peer, absl::UnavailableError(absl::StrCat(dialing.handshake->stream().peer_name,
                                                                " did not complete the handshake within 15 s")));
  }
  for (const auto& [peer, why] : late) Drop(peer);
  return late;
}

}  // namespace shoal
