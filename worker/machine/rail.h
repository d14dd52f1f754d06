// The way of this rank's part of each tensor through the other nodes, in a group with rails (NodeReduceMode::kRails):
// pushed to servers as far as the node's sum is there, and given to the node's other ranks as far as the result is. Of
// a tensor on a device, the device is told when the result is there.
//
// Its ranks are those with the same local rank on every node. Their group, a WorkerGroup, has an op for each op of the
// whole group, with the same number, also where the part is empty. Owned by NodeGroup. One thread.
#ifndef SHOAL_WORKER_MACHINE_RAIL_H_
#define SHOAL_WORKER_MACHINE_RAIL_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/node_parts.h"
#include "core/now.h"
#include "worker/machine/worker_actions.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_group.h"

namespace shoal {

class Rail {
 public:
  // `command`: of the whole group.
  Rail(const OpenGroupCommand& command, uint16_t generation, const SharedByGroups& shared, Now now);

  WorkerGroup& group() { return group_; }
  const WorkerGroup& group() const { return group_; }

  // ---- ops, by number ----

  // As AnyGroup::Submit.
  absl::Status Submit(const SubmitCommand& whole, Now now, WorkerActions* actions);
  // These elements of the tensor, of the own part, hold the node's sum.
  void NoteReduced(OpNumber op, ElementRange elements);
  // Gives the results that landed to the other ranks of the node, or to this rank's device, for as long as the group
  // has not failed.
  void PublishLanded(WorkerActions* actions);
  // The reduction within the node is done with the op's memory.
  void NoteNodeEnded(OpNumber op, absl::Status status) { PartOf(op).node_ended = std::move(status); }
  // How; nullopt: it is not, or the rail is not.
  std::optional<absl::Status> Ended(OpNumber op) const;
  // Nobody asks for those before this one again.
  void Forget(OpNumber before);

  // ---- words ----

  // The node's sum is there, and the other nodes' is not.
  bool IsUnderWay(OpNumber op) const;
  // Of an op that is under way: whom it waits for, how far it is, and why its deadline has come.
  std::string WaitedFor(OpNumber op) const;
  std::string Progress(OpNumber op) const;
  std::string WhyNotDone(OpNumber op) const;

 private:
  struct Part {
    uint64_t ticket = 0;
    ElementRange elements;   // of the tensor
    uint64_t reduced = 0;    // so many of them hold the node's sum,
    uint64_t published = 0;  // and the other ranks were told of so many results
    bool on_device = false;
    bool copies_over = false;  // the device knows
    std::optional<absl::Status> node_ended;
  };

  Part& PartOf(OpNumber op) { return parts_[op.value() - first_]; }
  const Part& PartOf(OpNumber op) const { return parts_[op.value() - first_]; }
  // All results are in the tensor, or never will be, and the transport is done with it.
  bool IsOver(OpNumber op) const;
  uint64_t Landed(OpNumber op) const;

  const GroupHandle handle_;
  const uint32_t local_ranks_;
  const uint32_t local_rank_;
  WorkerGroup group_;
  std::deque<Part> parts_;
  uint64_t first_ = 1;      // number of parts_.front()
  uint64_t published_ = 1;  // the first op that is not published as a whole
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_RAIL_H_
