// Reduction among the ranks of a group that are on one node: a reduce-scatter, and an all-gather of what came of it.
//
// The tensor is cut into one part for each local rank (core/node_parts.h). Each rank reduces its part over the node;
// then the part is the result (the group has no ranks elsewhere), or the other nodes' come to it first (PublishPart).
//
// Rules, for every implementation (tests/conformance/local_reduce):
//   L1 Every op that Start took ends with exactly one LocalOpEnded, and its memory is not touched after that. Ops of a
//      group end in the order of their Start.
//   L2 The ops of a group's ranks match by the order of their Start. Ranks that disagree (number of the call, elements,
//      type, operation, factor, wire format) fail the group on all ranks with InvalidArgument, which names what each of
//      two ranks said.
//   L3 The bits of an element depend on the contributions and the op alone: they are those of reduce/reduce.h over the
//      contributions in the order of the local ranks. With a narrower wire, contributions are rounded to it first.
//   L4 A rank that dies, or fails its local group, ends the group on all ranks: LocalGroupFailed names it within a
//      second, as long as this rank polls. Nothing waits for a rank that is gone.
//   L5 Nothing here blocks, and the work of one Poll is bounded. Ops of one group do not wait for another group's.
//   L6 What another process writes into its memory can't harm this one: it spoils the sum at worst.
// Where a rank stands still, the others wait; a deadline is the caller's, who then calls Fail.
//
// Thread: one at a time, that of the worker's loop.
#ifndef SHOAL_WORKER_LOCAL_REDUCE_LOCAL_REDUCE_H_
#define SHOAL_WORKER_LOCAL_REDUCE_LOCAL_REDUCE_H_

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/node_parts.h"
#include "worker/machine/local_op.h"
#include "worker/machine/local_reduce_event.h"

namespace shoal {

using LocalReduceEvent = std::variant<LocalGroupMet, LocalPartReduced, LocalOpEnded, LocalGroupFailed>;

class LocalReduce {
 public:
  virtual ~LocalReduce() = default;

  // Begins to meet the other local ranks; LocalGroupMet or LocalGroupFailed follows. Ops may be started before. Tensors
  // on devices do not come here: it only tells all ranks what local rank 0 says of them, if all of them can.
  virtual void Open(const LocalGroup& group) = 0;

  // Starts an op of an open group. In a failed group it ends with that failure.
  virtual void Start(const LocalOp& op) = 0;

  // Says that the op's tensor has the result of these elements of the own part. Call it with consecutive ranges, and
  // only for elements that LocalPartReduced has reported. `contributors`: in a group that counts nodes, how many of
  // them have contributed to these elements; else 0.
  virtual void PublishPart(GroupHandle group, uint64_t ticket, ElementRange elements, uint32_t contributors) = 0;

  // Ends the group here and on the other ranks; all hear of `why` with this rank as the culprit, the others also if
  // Close follows at once. LocalOpEnded of each open op follows.
  virtual void Fail(GroupHandle group, const absl::Status& why) = 0;

  // Forgets a group without open ops: no event of it follows. The other ranks' open ops go on, also when this process
  // ends next; one that this rank never started fails the group there with Unavailable and this rank as the culprit.
  virtual void Close(GroupHandle group) = 0;

  // The local ranks whose contribution or result the group's oldest open op lacks here; of a group that has not met,
  // those that have not come. For messages.
  virtual std::vector<LocalRank> Missing(GroupHandle group) const = 0;

  // Moves the reductions along and returns what happened, oldest first. Valid until the next Poll.
  virtual std::span<const LocalReduceEvent> Poll() = 0;

  // Before sleeping: true if nothing can be done now, and wake_fd() will become readable when something can (level
  // triggered). False: call Poll again.
  virtual bool Arm() = 0;
  // -1: there is never anything to wait for.
  virtual int wake_fd() const = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LOCAL_REDUCE_LOCAL_REDUCE_H_
