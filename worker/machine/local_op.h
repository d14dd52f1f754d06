// A group's ranks on one node, and an op among them, as plain values: what the worker's machine asks of the port
// worker/local_reduce/local_reduce.h, which it never sees.
#ifndef SHOAL_WORKER_MACHINE_LOCAL_OP_H_
#define SHOAL_WORKER_MACHINE_LOCAL_OP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/ids.h"
#include "core/wire_codec.h"
#include "worker/machine/group_info.h"

namespace shoal {

// A rank's place among the ranks of its group on its node, in the order of the group's ranks.
using LocalRank = StrongId<struct LocalRankTag, uint32_t>;

// What ranks of one node need to meet on their devices: ids that local rank 0 has drawn. Opaque here.
using DeviceMeeting = std::array<std::byte, 256>;

// What the ranks of a group on one node have said in their memory. Any thread; as long as it is held, also after the
// group's end.
class NodeFailures {
 public:
  virtual ~NodeFailures() = default;
  // Every rank says so before anything else comes of it.
  virtual bool AnyRankHasFailed() const = 0;
};

struct LocalGroup {
  GroupHandle group;
  // The same at all its ranks, and no other local group's on this node.
  std::string meeting_name;
  LocalRank rank;
  uint32_t size = 0;  // how many local ranks; at least 1
  GroupId id;         // of the whole group or, with rails, of the own one: for records
  // This rank can reduce tensors on devices with the others. What local rank 0 says is told to all.
  std::optional<DeviceMeeting> devices = std::nullopt;
  // The group goes on without nodes that are lost: what is published says how many of them have contributed.
  bool counts_nodes = false;
};

struct LocalOp {
  GroupHandle group;
  uint64_t ticket = 0;  // given back in events; not used by another open op of the group
  // Of the op in its group. Ranks whose numbers differ disagree: some of them made calls without elements between.
  OpNumber number;
  std::byte* data = nullptr;
  uint64_t element_count = 0;  // at least 1
  WireCodec codec;             // what ranks have of each other is encoded
  ReduceOp reduce_op = ReduceOp::kSum;
  double premul_factor = 1.0;
  // False: the sum over the node is the result. True: kAvg is summed only, LocalPartReduced follows piece by piece,
  // and what the other ranks get of the part is what PublishPart gives out. The factor of kPremulSum is in the node's
  // sum, so what follows is a plain sum; numbers of fewer than 32 bits are rounded between the two.
  bool other_nodes = false;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_LOCAL_OP_H_
