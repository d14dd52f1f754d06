// Memory that one process writes and others may read: sealed, so that neither side can harm the other by it.
//
// The owner maps it for writing and then seals it: no other mapping of it can be written to from then on, and its size
// stays. A reader checks the seals before it maps, so that it can't be made to fault by an owner that cuts the memory
// short. (memfd_create(2), F_SEAL_FUTURE_WRITE of fcntl(2); Linux 5.1 and newer.)
#ifndef SHOAL_NET_SHM_SHARED_MEMORY_H_
#define SHOAL_NET_SHM_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace shoal {

// Ours to write. The kernel gives pages as they are touched. Not thread safe, but the memory is.
class OwnedMemory {
 public:
  // Zeroed. `name` appears in /proc/PID/maps. ResourceExhausted: the kernel refuses memory or a
  // descriptor. Unimplemented: it can't seal, or the process is not allowed to make such memory (a security profile).
  static absl::StatusOr<std::unique_ptr<OwnedMemory>> Make(const char* name, uint64_t bytes);
  ~OwnedMemory();
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  int fd() const { return fd_; }  // to be passed to readers; stays ours

 private:
  OwnedMemory(int fd, std::span<std::byte> bytes) : fd_(fd), bytes_(bytes) {}

  const int fd_;
  const std::span<std::byte> bytes_;
};

// Another process's, to read.
class PeerMemory {
 public:
  // Maps the `bytes` of `fd`, which stays the caller's. InvalidArgument: `fd` is no sealed memory of that size.
  // ResourceExhausted: no address space.
  static absl::StatusOr<std::unique_ptr<PeerMemory>> Map(int fd, uint64_t bytes);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit PeerMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}

  const std::span<const std::byte> bytes_;
};

}  // namespace shoal

#endif  // SHOAL_NET_SHM_SHARED_MEMORY_H_
