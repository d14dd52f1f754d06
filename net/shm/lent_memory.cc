#include "net/shm/lent_memory.h"

#include <cstring>
#include <new>

namespace shoal {

absl::StatusOr<std::unique_ptr<LentMemory>> LentMemory::Make(uint64_t arena_bytes, OwnedMemory* region) {
  arena_bytes -= arena_bytes % PageArena::kPageBytes;
  absl::StatusOr<std::unique_ptr<OwnedMemory>> memory =
      OwnedMemory::Make("shoal-arena", kStatusPageBytes + arena_bytes);
  if (!memory.ok()) return memory.status();
  new ((*memory)->bytes().data()) StatusPage{};
  return std::unique_ptr<LentMemory>(new LentMemory(*std::move(memory), arena_bytes, region));
}

std::optional<uint64_t> LentMemory::Find(std::span<const std::byte> payload) {
  if (region_ != nullptr) {
    const std::span<const std::byte> region = region_->bytes();
    if (payload.data() >= region.data() && payload.data() + payload.size() <= region.data() + region.size()) {
      return static_cast<uint64_t>(payload.data() - region.data()) | kInRegionBit;
    }
  }
  return arena_.Take(payload.size());
}

void LentMemory::Fill(uint64_t offset, std::span<const std::byte> payload) {
  std::memcpy(arena_memory_->bytes().data() + kStatusPageBytes + offset, payload.data(), payload.size());
}

void LentMemory::Give(uint64_t offset, uint64_t bytes) {
  if ((offset & kInRegionBit) == 0) arena_.Give(offset, bytes);
}

void LentMemory::SetAsleep(bool is_asleep) {
  if (is_asleep == this->is_asleep()) return;
  reinterpret_cast<StatusPage*>(arena_memory_->bytes().data())->sleeps.store(++sleeps_, std::memory_order_relaxed);
}

}  // namespace shoal
