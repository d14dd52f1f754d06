// TCP sockets between nodes: to listen, to dial, and to notice a path that has fallen silent.
//
// Any thread. No call blocks. Every socket is closed on exec and does not block.
#ifndef SHOAL_NET_PEER_SOCKET_H_
#define SHOAL_NET_PEER_SOCKET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "process/file_descriptor.h"
#include "process/socket_address.h"

namespace shoal {

// For errno: the process has no descriptors left for `what`. ResourceExhausted.
absl::Status NoDescriptorLeft(const std::string& what);

// Unavailable: a network device can't be used, because it has no link now.
absl::Status NoLink(const std::string& device);

// InvalidArgument: it is no address of this node, or the port isn't permitted. AlreadyExists: the port is taken.
// Unavailable: an IPv6 address that the kernel does not let anybody use yet. The texts name the address.
// ResourceExhausted: no file descriptors.
absl::StatusOr<FileDescriptor> ListenOn(const SocketAddress& address);
// "ip:port" that the socket is bound to.
std::string BoundAddress(int fd);

// Silence on the path between the two nodes ends an idle socket: the kernels probe each other (TCP's keepalive). A
// kernel answers for a process that is busy or stopped, so only a broken path is noticed. The side that dialed asks
// more often than the side that listens, and repeats its attempt to connect kConnectRepeats times
// (core/failure_detection.h). Also turns off the wait for more data before a small packet is sent.
void PreparePeerSocket(int fd, bool dialed);

struct Accepted {
  enum class What : uint8_t {
    kSocket,
    kNobody,         // no connection waits
    kNoDescriptors,  // one waits, and the process or the kernel has no room for it
    kGone,           // one waited, and has ended: there may be more
  };

  What what = What::kNobody;
  FileDescriptor socket;  // kSocket
  SocketAddress from;     // likewise
};
// The next connection of a listener.
Accepted AcceptNext(int listener);

// Says no more, and reads away what waits, so that closing the socket doesn't reset the connection and take with it
// what was sent.
void HangUpAfterTheLastWord(int fd);

}  // namespace shoal

#endif  // SHOAL_NET_PEER_SOCKET_H_
