#include "net/shm/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

// Newer than some headers: memory that nobody executes, which Linux may be told to insist on (vm.memfd_noexec).
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

int CreateMemory(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);  // before Linux 6.3
}

absl::Status Refused(const char* what, uint64_t bytes) {
  const char* const advice = errno == EMFILE ? "; raise the limit of open files, ulimit -n" : "";
  return absl::ResourceExhaustedError(absl::StrCat("the kernel refuses ", bytes, " bytes of shared memory (", what,
                                                   ": ", std::strerror(errno), advice, ")"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OwnedMemory>> OwnedMemory::Make(const char* name, uint64_t bytes) {
  const int fd = CreateMemory(name);
  if (fd < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS)) {
    return absl::UnimplementedError(absl::StrCat("this process may not make shared memory (memfd_create: ",
                                                 std::strerror(errno), "); allow that call in its security profile"));
  }
  if (fd < 0) return Refused("memfd_create", bytes);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const absl::Status status = Refused("ftruncate", bytes);
    close(fd);
    return status;
  }
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (start == MAP_FAILED) {
    const absl::Status status = Refused("mmap", bytes);
    close(fd);
    return status;
  }
  // From here on the destructor cleans up.
  std::unique_ptr<OwnedMemory> memory(new OwnedMemory(fd, {static_cast<std::byte*>(start), bytes}));
  if (fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    return absl::UnimplementedError(
        absl::StrCat("this kernel can't seal shared memory against writing (", std::strerror(errno), ")"));
  }
  // Only where the kernel's administrator allows it for shared memory; a hint.
  madvise(start, bytes, MADV_HUGEPAGE);
  return memory;
}

OwnedMemory::~OwnedMemory() {
  munmap(bytes_.data(), bytes_.size());
  close(fd_);
}

absl::StatusOr<std::unique_ptr<PeerMemory>> PeerMemory::Map(int fd, uint64_t bytes) {
  struct stat info {};
  struct statfs file_system {};
  const int seals = fcntl(fd, F_GET_SEALS);
  // Huge pages of their own file system can be sealed too, and fault when the kernel has none left.
  if (seals < 0 || (seals & kSeals) != kSeals || fstatfs(fd, &file_system) != 0 || file_system.f_type != TMPFS_MAGIC) {
    return absl::InvalidArgumentError("a descriptor is not sealed shared memory");
  }
  if (bytes == 0 || fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory of ", info.st_size, " bytes where ", bytes, " were promised"));
  }
  void* start = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (start == MAP_FAILED) return Refused("mmap", bytes);
  return std::unique_ptr<PeerMemory>(new PeerMemory({static_cast<const std::byte*>(start), bytes}));
}

PeerMemory::~PeerMemory() { munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

}  // namespace shoal
