// How two processes of one node find each other and exchange memory: a Unix socket named after the network address.
//
// A transport that listens at "10.0.0.7:7101" also listens at the abstract Unix socket of that name. Abstract names
// belong to a network namespace, as the address does, so whoever can connect to the name shares a kernel with the
// listener and means that very process. Only processes of the same user are let in: they could read each other's memory
// anyway. After the greetings the socket is a bell (any byte: look at your rings) and, by its end, the sign of death.
//
// Sockets are non-blocking and belong to the caller. One thread.
#ifndef SHOAL_NET_SHM_SAME_NODE_SOCKET_H_
#define SHOAL_NET_SHM_SAME_NODE_SOCKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "process/file_descriptor.h"

namespace shoal {

// What each side tells the other first. With it go the descriptors of its outbox, its arena and, if region_bytes is not
// 0, its region.
struct SameNodeGreeting {
  uint64_t magic = 0;
  uint64_t layout_version = 0;
  uint64_t outbox_bytes = 0;
  uint64_t arena_bytes = 0;
  uint64_t region_bytes = 0;
};
inline constexpr uint64_t kSameNodeMagic = 0x6d68736c616f6873;  // "shoalshm"
inline constexpr uint64_t kSameNodeLayoutVersion = 2;

struct ReceivedGreeting {
  SameNodeGreeting greeting;
  std::vector<FileDescriptor> memory;
};

// AlreadyExists: another process listens at that name. ResourceExhausted: no descriptors. Internal: the kernel refuses
// it for another reason.
absl::StatusOr<FileDescriptor> ListenOnThisNode(const std::string& address);
// Invalid if no process of this user waits among those looked at: call again while the listener is readable.
// ResourceExhausted: one waits, and there are no descriptors; the listener stays readable.
absl::StatusOr<FileDescriptor> AcceptOnThisNode(int listener);
// NotFound: no process of this node and user listens there. Unavailable: so many wait there that one more finds no
// room; try again. PermissionDenied: the kernel forbids it. ResourceExhausted: no descriptors. Internal: anything else.
absl::StatusOr<FileDescriptor> ConnectOnThisNode(const std::string& address);
// The above, of what connect(2) said.
absl::Status WhyNotConnected(const std::string& address, int error);

// Becomes readable when the process at the other end has ended. Invalid: this kernel can't tell, or the process can't
// be seen from here. ResourceExhausted: no descriptors.
absl::StatusOr<FileDescriptor> OtherProcess(int socket);

absl::Status SendGreeting(int socket, const SameNodeGreeting& greeting, std::span<const int> memory);
// nullopt: it has not come yet. Unavailable: the other side is gone. InvalidArgument: that is no greeting.
// FailedPrecondition: the other side is of another version. ResourceExhausted: no descriptors for its memory.
absl::StatusOr<std::optional<ReceivedGreeting>> ReceiveGreeting(int socket);

// What came in one piece. Descriptors beyond kMaxDescriptors are closed, and `is_cut` then says that something is
// missing.
struct ReceivedMessage {
  size_t bytes = 0;
  std::vector<FileDescriptor> descriptors;
  bool is_cut = false;
};
inline constexpr size_t kMaxDescriptors = 3;

// Any message; both sides' greetings are such. Unavailable: the socket is full, or the other side is gone.
absl::Status SendOnThisNode(int socket, std::span<const std::byte> message, std::span<const int> descriptors);
// nullopt: none has come yet. Unavailable: the other side is gone, and all that it sent was received.
// ResourceExhausted: one has come whose descriptors found no room in this process; it is lost.
absl::StatusOr<std::optional<ReceivedMessage>> ReceiveOnThisNode(int socket, std::span<std::byte> message);

// Never waits; when the socket is full, enough bells are on their way.
void RingBell(int socket);
// Takes the bells that have come, as many as an honest peer rings. False: the other side is gone.
bool DrainBells(int socket);

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SAME_NODE_SOCKET_H_
