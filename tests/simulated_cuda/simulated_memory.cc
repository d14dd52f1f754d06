#include "tests/simulated_cuda/simulated_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "process/mutex.h"

namespace shoal::simulated_cuda {
namespace {

constexpr size_t kArenaBytes = size_t{1} << 30;
constexpr size_t kAlignment = 512;

[[noreturn]] void End(const char* what, uint64_t address) {
  std::fprintf(stderr, "simulated CUDA: %s: 0x%llx\n", what, static_cast<unsigned long long>(address));
  std::abort();
}

// Mapped twice: once for programs, which may not touch it, and once for the simulation.
class DeviceArena {
 public:
  DeviceArena() {
    const int file = memfd_create("simulated-cuda", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, kArenaBytes) != 0) End("no memory", 0);
#if defined(__SANITIZE_THREAD__)
    // It can't follow memory that is mapped twice.
    for_programs_ = Map(file, PROT_READ | PROT_WRITE);
    for_streams_ = for_programs_;
#else
    for_programs_ = Map(file, PROT_NONE);
    for_streams_ = Map(file, PROT_READ | PROT_WRITE);
#endif
    close(file);
    free_[for_programs_] = kArenaBytes;
  }

  void* Allocate(size_t bytes) {
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const MutexLock lock(mutex_);
    for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
      const auto [start, size] = *piece;
      if (size < bytes) continue;
      free_.erase(piece);
      if (size > bytes) free_[start + bytes] = size - bytes;
      taken_[start] = bytes;
      return start;
    }
    return nullptr;
  }

  void Free(void* address) {
    const MutexLock lock(mutex_);
    const auto taken = taken_.find(static_cast<char*>(address));
    if (taken == taken_.end()) return;
    free_.insert(*taken);
    taken_.erase(taken);
  }

  void* ForStreams(uint64_t address) const {
    const auto start = reinterpret_cast<uint64_t>(for_programs_);
    if (address < start || address >= start + kArenaBytes) End("a device touches what is not its memory", address);
    return for_streams_ + (address - start);
  }

 private:
  static char* Map(int file, int protection) {
    void* const start = mmap(nullptr, kArenaBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (start == MAP_FAILED) End("no memory", 0);
    return static_cast<char*>(start);
  }

  char* for_programs_ = nullptr;
  char* for_streams_ = nullptr;
  Mutex mutex_;
  std::map<char*, size_t> free_ SHOAL_GUARDED_BY(mutex_);
  std::map<char*, size_t> taken_ SHOAL_GUARDED_BY(mutex_);
};

DeviceArena& Arena() {
  static auto* const arena = new DeviceArena;
  return *arena;
}

Mutex registered_mutex;
std::map<uint64_t, size_t>& RegisteredMemory() SHOAL_REQUIRES(registered_mutex) {
  static auto* const registered = new std::map<uint64_t, size_t>;
  return *registered;
}

}  // namespace

void* AllocateOnDevice(size_t bytes) { return Arena().Allocate(bytes); }
void FreeOnDevice(void* address) { Arena().Free(address); }
void* OnDevice(uint64_t address) { return Arena().ForStreams(address); }

bool Register(void* start, size_t bytes) {
  const MutexLock lock(registered_mutex);
  return RegisteredMemory().emplace(reinterpret_cast<uint64_t>(start), bytes).second;
}

bool Unregister(void* start) {
  const MutexLock lock(registered_mutex);
  return RegisteredMemory().erase(reinterpret_cast<uint64_t>(start)) > 0;
}

uint64_t RegisteredBytes() {
  const MutexLock lock(registered_mutex);
  uint64_t bytes = 0;
  for (const auto& [start, size] : RegisteredMemory()) bytes += size;
  return bytes;
}

void* Registered(uint64_t address) {
  const MutexLock lock(registered_mutex);
  const auto after = RegisteredMemory().upper_bound(address);
  if (after != RegisteredMemory().begin()) {
    const auto& [start, size] = *std::prev(after);
    if (address < start + size) return reinterpret_cast<void*>(address);
  }
  End("a device touches host memory that is not registered", address);
}

}  // namespace shoal::simulated_cuda

namespace shoal::device {

void* DeviceMemory(unsigned long long address) { return simulated_cuda::OnDevice(address); }
void* RegisteredMemory(unsigned long long address) { return simulated_cuda::Registered(address); }

}  // namespace shoal::device
