// What each local rank shares with the others: counters, what its ops are, and places through which tensors go.
//
// Only its owner writes to it (net/shm/shared_memory.h). The others read counters, which say how many rounds
// (op_rounds.h) of the group the owner is done with, and places, whose addresses follow from their own counters alone:
// so what stands there can spoil a sum, and nothing else. Round k uses slot k % kSlots.
#ifndef SHOAL_WORKER_LOCAL_REDUCE_NODE_MEMORY_H_
#define SHOAL_WORKER_LOCAL_REDUCE_NODE_MEMORY_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace shoal {

// Constants of the layout: change kNodeLayoutVersion (node_peers.h) with them.
inline constexpr uint64_t kSlots = 4;
// A place has at most so many bytes. A tensor that fits one is reduced by every rank for itself.
inline constexpr uint64_t kMaxPlaceBytes = uint64_t{64} << 10;
// What the contributions in all slots of one rank may take together, so that they stay in the processor's cache, as
// does what was read of the tensor until the result is written there.
inline constexpr uint64_t kWindowBytes = uint64_t{1} << 20;
inline constexpr uint64_t kPageBytes = 4096;
// How many ops of a group may have begun and not ended.
inline constexpr uint64_t kMaxOpsUnderWay = 64;

// The bytes of one rank's piece in one round.
constexpr uint64_t PlaceBytes(uint32_t ranks) {
  return std::clamp(kWindowBytes / kSlots / ranks / kPageBytes * kPageBytes, kPageBytes, kMaxPlaceBytes);
}

// What a rank says of an op, before its first contribution to it.
struct OpRecord {
  uint64_t number = 0;  // 0, 1, 2, ... of those that come here
  uint64_t call = 0;    // of the op in its group
  uint64_t element_count = 0;
  uint64_t premul_factor_bits = 0;  // of kPremulSum; else 0
  uint8_t dtype = 0;
  uint8_t reduce_op = 0;
  uint8_t wire = 0;
  uint8_t other_nodes = 0;

  friend bool operator==(const OpRecord&, const OpRecord&) = default;
};

enum NodeCounter : uint8_t {
  kContributed,  // its contributions lie in its slot
  kReduced,      // it has read all contributions to what it reduces
  kPublished,    // its result lies in its slot
  kCollected,    // it has read all results
  kNodeCounters,
};

struct NodeMemoryHeader {
  // On cache lines of their own: each is written at another time than its neighbours are read.
  struct alignas(64) Counter {
    std::atomic<uint64_t> rounds;
  };
  struct alignas(64) Record {
    OpRecord op;
  };

  struct alignas(64) Devices {
    // Before anybody else sees the memory.
    uint64_t can_reduce;  // 0 or 1
    std::array<std::byte, 256> meeting;
    // 1: the group has failed here, and nothing has come of that yet.
    std::atomic<uint64_t> failed;
  };

  // Where the group counts nodes (local_op.h): of how many nodes the result in a slot has the contributions, for so
  // many of its elements, and so on. A place has no more chunks than that unless they are smaller than any that is
  // chosen; then the last run is of the fewest nodes of all that are left.
  static constexpr uint32_t kMostRuns = 64;
  struct Run {
    uint32_t elements;
    uint32_t nodes;
  };
  struct alignas(64) Runs {
    uint32_t count;
    std::array<Run, kMostRuns> runs;
  };

  std::array<Counter, kNodeCounters> counters;
  // Odd while the owner sleeps, or is about to: then whoever moves a counter rings.
  Counter sleeps;
  std::array<Record, kMaxOpsUnderWay> records;  // of op number % kMaxOpsUnderWay
  std::array<Runs, kSlots> runs;                // of round % kSlots
  Devices devices;
};

// The places of one rank's memory, as the owner or another rank has mapped it.
class NodePlaces {
 public:
  static constexpr uint64_t kHeaderBytes = 2 * kPageBytes;
  static_assert(sizeof(NodeMemoryHeader) <= kHeaderBytes);

  explicit NodePlaces(uint32_t ranks) : ranks_(ranks), place_bytes_(PlaceBytes(ranks)) {}

  uint64_t MemoryBytes() const { return kHeaderBytes + kSlots * (ranks_ + 1) * place_bytes_; }
  // Where the owner's contribution to what `rank` reduces lies. A whole tensor is at that of rank 0.
  uint64_t ContributionOffset(uint64_t round, uint32_t rank) const {
    return kHeaderBytes + (round % kSlots * (ranks_ + 1) + rank) * place_bytes_;
  }
  // Where the owner's result lies.
  uint64_t ResultOffset(uint64_t round) const { return ContributionOffset(round, ranks_); }

 private:
  const uint64_t ranks_;
  const uint64_t place_bytes_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LOCAL_REDUCE_NODE_MEMORY_H_
