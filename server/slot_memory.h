// The memory in which an I/O thread gathers chunks: address space that the kernel fills as it is touched.
#ifndef SHOAL_SERVER_SLOT_MEMORY_H_
#define SHOAL_SERVER_SLOT_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace shoal {

class SlotMemory {
 public:
  // ResourceExhausted: the kernel refuses that much; the text says what to change.
  static absl::StatusOr<std::unique_ptr<SlotMemory>> Map(uint64_t bytes);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit SlotMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

  const std::span<std::byte> bytes_;
};

// ResourceExhausted when a server with slot memory of `bytes` could use up what this machine, or the control group
// (container) that the process is in, has: it would be killed in the middle of its work instead.
absl::Status CheckSlotMemoryFits(uint64_t bytes);

}  // namespace shoal

#endif  // SHOAL_SERVER_SLOT_MEMORY_H_
