#include "net/tcp/silent_path.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "core/failure_detection.h"

namespace shoal {

PathState StateOfPath(int socket, uint64_t in_use_ns) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return PathState::kIdle;
  if (info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0) return PathState::kIdle;
  // A peer whose memory is full answers the kernel's questions for room.
  const uint64_t unanswered = uint64_t{info.tcpi_retransmits} + info.tcpi_probes;
  // The last answer may be as old as the connection was idle before.
  const uint64_t silent_ns = std::min(uint64_t{info.tcpi_last_ack_recv} * kNsPerMs, in_use_ns);
  return unanswered >= kUnansweredProbes && silent_ns >= kRankNoticesWithinNs ? PathState::kSilent : PathState::kInUse;
}

}  // namespace shoal
