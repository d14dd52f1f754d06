#include "net/ucx/listener_gate.h"

#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

bool SameAddress(const SocketAddress& one, const SocketAddress& other) {
  return FormatSocketAddress(one.storage) == FormatSocketAddress(other.storage);
}

bool ListensAt(int fd, const SocketAddress& address) {
  int listens = 0;
  socklen_t length = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0) return false;
  SocketAddress bound;
  bound.length = sizeof(bound.storage);
  return getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.length) == 0 &&
         SameAddress(bound, address);
}

int FindListener(const SocketAddress& address) {
  DIR* descriptors = opendir("/proc/self/fd");
  if (descriptors == nullptr) return -1;
  int found = -1;
  while (const dirent* entry = readdir(descriptors)) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    const int fd = atoi(entry->d_name);
    if (ListensAt(fd, address)) found = fd;
  }
  closedir(descriptors);
  return found;
}

sock_filter Load(uint16_t size, uint32_t at) { return BPF_STMT(static_cast<uint16_t>(BPF_LD | BPF_ABS | size), at); }
sock_filter SkipUnlessEqual(uint32_t value, uint8_t skipped) {
  return BPF_JUMP(static_cast<uint16_t>(BPF_JMP | BPF_JEQ | BPF_K), value, 0, skipped);
}
sock_filter Return(uint32_t bytes) { return BPF_STMT(static_cast<uint16_t>(BPF_RET | BPF_K), bytes); }

// Lets packets with the guest's source port and address pass. A TCP socket's filter sees the TCP header first; negative
// offsets lead to the IP header. Of an IPv6 address the last four bytes must do.
void AppendGuest(const SocketAddress& guest, std::vector<sock_filter>* program) {
  constexpr uint32_t kIpv4SourceAt = 12;
  constexpr uint32_t kIpv6LastSourceWordAt = 20;
  uint32_t address = 0;
  uint32_t address_at = kIpv4SourceAt;
  if (guest.storage.ss_family == AF_INET) {
    address = reinterpret_cast<const sockaddr_in&>(guest.storage).sin_addr.s_addr;
  } else {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(guest.storage).sin6_addr;
    std::memcpy(&address, &v6.s6_addr[12], sizeof(address));
    if (!IN6_IS_ADDR_V4MAPPED(&v6)) address_at = kIpv6LastSourceWordAt;
  }
  program->push_back(Load(BPF_H, 0));
  program->push_back(SkipUnlessEqual(PortOf(guest), 3));
  program->push_back(Load(BPF_W, static_cast<uint32_t>(SKF_NET_OFF) + address_at));
  program->push_back(SkipUnlessEqual(ntohl(address), 1));
  program->push_back(Return(UINT32_MAX));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ListenerGate>> ListenerGate::Close(const SocketAddress& listener) {
  const int fd = FindListener(listener);
  if (fd < 0) {
    return absl::InternalError(
        absl::StrCat("no socket of this process listens at ", FormatSocketAddress(listener.storage)));
  }
  std::unique_ptr<ListenerGate> gate(new ListenerGate(fd));
  if (absl::Status status = gate->Apply(); !status.ok()) return status;
  return gate;
}

absl::Status ListenerGate::LetIn(const SocketAddress& guest) {
  if (full())
    return absl::ResourceExhaustedError(absl::StrCat(kMaxGuests, " other peers are connecting at this moment"));
  guests_.push_back(guest);
  absl::Status status = Apply();
  if (status.ok()) return status;
  guests_.pop_back();
  return absl::ResourceExhaustedError(status.message());
}

void ListenerGate::KeepOut(const SocketAddress& guest) {
  std::erase_if(guests_, [&](const SocketAddress& other) { return SameAddress(guest, other); });
  // If it fails, one peer too many may connect, but only one that was let in before.
  Apply().IgnoreError();
}

absl::Status ListenerGate::Apply() {
  if (knows_guests_) {
    const absl::Status attached = AttachFilter();
    if (!absl::IsPermissionDenied(attached)) return attached;
    knows_guests_ = false;
  }
  return SetHopLimit();
}

absl::Status ListenerGate::AttachFilter() const {
  std::vector<sock_filter> instructions;
  for (const SocketAddress& guest : guests_) AppendGuest(guest, &instructions);
  instructions.push_back(Return(0));
  const sock_fprog program = {.len = static_cast<unsigned short>(instructions.size()), .filter = instructions.data()};
  if (setsockopt(listener_fd_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0) return absl::OkStatus();
  const std::string text = absl::StrCat("the kernel refused a filter for UCX's listener: ", strerror(errno));
  return errno == EPERM ? absl::PermissionDeniedError(text) : absl::InternalError(text);
}

absl::Status ListenerGate::SetHopLimit() const {
  constexpr int kFromNowhere = 255;  // a sender starts at less, 64 on Linux, unless it means to get in
  const int least = guests_.empty() ? kFromNowhere : 0;
  int family = 0;
  socklen_t length = sizeof(family);
  getsockopt(listener_fd_, SOL_SOCKET, SO_DOMAIN, &family, &length);
  const int outcome = family == AF_INET6
                          ? setsockopt(listener_fd_, IPPROTO_IPV6, IPV6_MINHOPCOUNT, &least, sizeof(least))
                          : setsockopt(listener_fd_, IPPROTO_IP, IP_MINTTL, &least, sizeof(least));
  if (outcome == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the kernel accepts neither a socket filter nor a hop limit for UCX's listener (", strerror(errno),
                   "); give this process CAP_NET_ADMIN, or use a kernel with socket filters"));
}

}  // namespace shoal
