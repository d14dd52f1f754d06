// Copies between a tensor on a device and host memory, chunk by chunk, as plain values: what the worker's machine asks
// of the port worker/device/stager.h, which it never sees.
#ifndef SHOAL_WORKER_MACHINE_DEVICE_COPY_H_
#define SHOAL_WORKER_MACHINE_DEVICE_COPY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "core/ids.h"
#include "core/wire_codec.h"
#include "worker/machine/group_info.h"
#include "worker/machine/staging_memory.h"

namespace shoal {

// What is copied. A result goes to the device, everything else comes from it.
enum class DeviceCopyKind : uint8_t {
  kContribution,  // of the chunk in a cell of a link, to be pushed from there
  kResult,        // of such a chunk, which has landed
  kKept,          // a result of an op that is done, kept for other ranks
  kHandOver,      // a result for a server that asks for it
};

// Says whose copy it is; given back at its end.
struct DeviceCopyToken {
  GroupHandle group;
  DeviceCopyKind kind = DeviceCopyKind::kContribution;
  uint16_t generation = 0;  // of the group's links
  uint16_t shard = 0;
  uint16_t cell = 0;  // kHandOver: the index of the hand-over
  OpNumber op;
};

struct DeviceCopy {
  DeviceCopyToken token;
  uint64_t ticket = 0;                           // of the op
  std::byte* tensor = nullptr;                   // an address on the device
  std::shared_ptr<const StagingMemory> staging;  // keeps the place
  std::byte* place = nullptr;                    // in host memory; it holds the chunk as it crosses the wire
  uint64_t elements = 0;
  WireCodec codec;  // the device encodes and decodes

  bool to_device() const { return token.kind == DeviceCopyKind::kResult; }
};

// The copy is over: neither the tensor's chunk nor the place is touched any more.
struct DeviceCopyEnded {
  DeviceCopyToken token;
  absl::Status status;  // not OK: what the destination holds is undefined
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_DEVICE_COPY_H_
