// The token of a transport operation of a group: says, when the operation ends, whose memory is free.
#ifndef SHOAL_WORKER_MACHINE_OPERATION_TOKEN_H_
#define SHOAL_WORKER_MACHINE_OPERATION_TOKEN_H_

#include <cstdint>

namespace shoal {

struct OperationToken {
  // In place of a shard: the operation is a hand-over, whose index is in `cell`.
  static constexpr uint16_t kHandOver = 0xffff;

  uint16_t handle = 0;      // of the group
  uint16_t generation = 0;  // of its links
  uint16_t shard = 0;
  uint16_t cell = 0;

  uint64_t Pack() const {
    return uint64_t{handle} << 48 | uint64_t{generation} << 32 | uint64_t{shard} << 16 | uint64_t{cell};
  }
  static OperationToken Unpack(uint64_t packed) {
    return {static_cast<uint16_t>(packed >> 48), static_cast<uint16_t>(packed >> 32),
            static_cast<uint16_t>(packed >> 16), static_cast<uint16_t>(packed)};
  }
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_OPERATION_TOKEN_H_
