// Keeps track of the server's slot memory: which part of it belongs to which group.
//
// Gives out regions of [0, capacity) and takes them back; it never touches memory. First fit, neighbours are merged.
// One thread. Regions start at multiples of 4096 bytes.
#ifndef SHOAL_SERVER_MACHINE_BUFFER_POOL_H_
#define SHOAL_SERVER_MACHINE_BUFFER_POOL_H_

#include <cstdint>
#include <map>
#include <optional>

namespace shoal {

class BufferPool {
 public:
  static constexpr uint64_t kAlignmentBytes = 4096;

  explicit BufferPool(uint64_t capacity_bytes);

  // Offset of a free region of at least `bytes`, or nullopt if no free part is large enough.
  std::optional<uint64_t> Allocate(uint64_t bytes);
  // `offset` was given by Allocate and not freed since.
  void Free(uint64_t offset);

  uint64_t capacity_bytes() const { return capacity_bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t largest_free_bytes() const;

 private:
  uint64_t capacity_bytes_;
  uint64_t used_bytes_ = 0;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes
  std::map<uint64_t, uint64_t> used_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_BUFFER_POOL_H_
