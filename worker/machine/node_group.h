// One group whose ranks reduce among those of their node, through the port worker/local_reduce/local_reduce.h, from its
// opening to its end. If they are all on one node (NodeReduceMode::kNodeAlone) that is all, and it has no servers.
//
// If they are on several nodes (kRails), of each tensor this rank's part crosses the nodes through its rail: a
// WorkerGroup whose ranks have the same local rank, one on each node. The rail has an op for each op of the group, with
// the same number, also where the part is empty. A part is pushed to servers as far as the node's sum is there. The
// node's other ranks get it as far as the result is there.
//
// It is open when all ranks of the node have met and the rail is open, at the latest by its deadline. A rank that is
// gone or fails the group, ranks that disagree, and a deadline fail it as a whole, on the node and in the rail: every
// op ends with the same reason, as soon as its memory is free, and the other ranks hear of it. Of a group that goes on
// without lost ranks a rank that is gone takes its node out, and the others' rails move to an epoch without that node:
// the ranks that it leaves alone end the group on this node only, and tell the scheduler. The orderly end waits
// for this rank's ops, and for its rail: the ranks of the node go on without it.
//
// Tensors on devices do not go through the port: their streams reduce within the node before the rail, and gather after
// it, when they are told that the part's result is there. An op is over when that is (DeviceDoneCommand) and the
// rail's is.
//
// One thread.
#ifndef SHOAL_WORKER_MACHINE_NODE_GROUP_H_
#define SHOAL_WORKER_MACHINE_NODE_GROUP_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/node_parts.h"
#include "core/now.h"
#include "core/partial_op.h"
#include "core/wait_report.h"
#include "worker/machine/any_group.h"
#include "worker/machine/local_op.h"
#include "worker/machine/local_reduce_event.h"
#include "worker/machine/op_queue.h"
#include "worker/machine/worker_actions.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_counters.h"
#include "worker/machine/worker_group.h"

namespace shoal {

class NodeGroup final : public AnyGroup {
 public:
  // `generation`: of the rail's first links, if there is one (worker_group.h).
  NodeGroup(const OpenGroupCommand& command, uint16_t generation, const SharedByGroups& shared, Now now);

  // What happens to it on the network is handed in there; Tick is called after that. nullptr: there is no rail.
  WorkerGroup* rail() { return rail_.get(); }

  const GroupInfo& info() const override { return *info_; }
  bool failed() const override { return state_ == State::kFailed; }
  bool closed() const override { return state_ == State::kClosed; }

  // ---- commands ----

  void Open(Now now, WorkerActions* actions) override;
  absl::Status Submit(const SubmitCommand& command, Now now, WorkerActions* actions) override;
  void Fail(absl::Status why, Now now, WorkerActions* actions) override;
  void FailAsOthers(absl::Status why, Now now, WorkerActions* actions) override;
  void GiveUp(absl::Status why, Now now, WorkerActions* actions) override;
  // Of a group that goes on: the scheduler says that this rank is gone. What comes of it, the rail is told.
  void NoteLost(const RankLostCommand& lost);
  void Close(Now now, WorkerActions* actions) override;
  void Shutdown(uint64_t deadline_ns, Now now, WorkerActions* actions) override;

  // ---- what happened on the node ----

  void OnDeviceDone(const DeviceDoneCommand& command, Now now, WorkerActions* actions);
  void OnMet(const LocalGroupMet& met, WorkerActions* actions);
  void OnPartReduced(const LocalPartReduced& reduced);
  void OnOpEnded(const LocalOpEnded& ended, Now now, WorkerActions* actions);
  void OnFailed(const LocalGroupFailed& event, Now now, WorkerActions* actions);
  // Does what was due when the group asked who is missing.
  void OnMissing(std::span<const LocalRank> missing, Now now, WorkerActions* actions);

  // Does what follows from what happened to the rail. Asks who is missing if something is due that names them.
  void Tick(Now now, WorkerActions* actions) override;
  uint64_t NextDeadlineNs() const override;

 private:
  enum class State : uint8_t { kOpening, kOpen, kFailed, kClosed };

  // What this rank takes through its rail of an op.
  struct Part {
    ElementRange elements;                   // of the tensor
    uint64_t published = 0;                  // the node's other ranks, or the device, know of so many results
    std::optional<absl::Status> node_ended;  // how; else the reduction within the node still uses the op's memory
    std::vector<ContributedRange> contributed = {};  // of the whole tensor, once the node has ended
  };

  bool opening() const { return state_ == State::kOpening; }
  // Without nodes that are lost.
  bool goes_on() const { return rail_ != nullptr && info_->min_ranks > 0; }
  void OpenIfReady(WorkerActions* actions);

  // ---- the rail, if there is one ----

  Part& PartOf(OpNumber op) { return parts_[op.value() - ops_.first().value()]; }
  // The rail's op of that number; nullptr: all its results are in the tensor, or never will be, and the transport is
  // done with it.
  const WorkerOp* OpenInRail(OpNumber op) const;
  // The same, of an op whose node's sum is there.
  const WorkerOp* UnderWayInRail(OpNumber op) const;
  absl::Status SubmitToRail(const SubmitCommand& whole, Now now, WorkerActions* actions);
  // From the start of the op's part: so many results that others may have.
  uint64_t ResultsToPublish(const WorkerOp& op);
  void PublishResults(WorkerActions* actions);
  // These elements, from the start of the op's part.
  void Publish(const WorkerOp& op, ElementRange of_part, WorkerActions* actions);
  // What follows from what happened to the rail, which may be nothing.
  void FollowRail(Now now, WorkerActions* actions);

  // The group ends on this node alone. `cause`: for the scheduler.
  void LeaveRail(const std::string& cause, absl::Status why, Now now, WorkerActions* actions);
  // Of an op that has ended well, in a group that goes on: how many ranks have contributed. Tells it where it is news.
  Contributors TakeContributors(const WorkerOp& op);

  void EndOpsOnDevices(Now now, WorkerActions* actions);
  // The failure of the group, whoever brought it about.
  void BreakOff(absl::Status why, Now now, WorkerActions* actions);
  // The op's memory is free. `status`: what the reduction within the node said.
  void EndOp(WorkerOp* op, const absl::Status& status, Now now, WorkerActions* actions);
  void CloseIfDone(Now now, WorkerActions* actions);
  uint64_t OwnDeadlineNs() const;
  void TakeLine(std::span<const LocalRank> missing, Now now, WorkerActions* actions);
  void SetNextLine();

  // ---- words ----

  std::string Ranks(std::span<const LocalRank> ranks) const;
  std::string WaitForOpening(std::span<const LocalRank> missing, Now now) const;
  std::string WaitForOp(WorkerOp* op, std::span<const LocalRank> missing, Now now) const;
  // In the words for callers and the rail.
  absl::Status WhatFailed(const LocalGroupFailed& event) const;
  // `cause` names the rank of this node that is gone.
  absl::Status NodeIsOut(const std::string& cause) const;
  std::string NotOpen(std::span<const LocalRank> missing) const;
  std::string NotDone(const WorkerOp& op, std::span<const LocalRank> missing, Now now) const;

  const GroupHandle handle_;
  const std::shared_ptr<const GroupInfo> info_;
  const uint64_t open_deadline_ns_;
  const std::optional<DeviceMeeting> own_devices_;
  WorkerTally& tally_;
  State state_ = State::kOpening;
  absl::Status failure_;  // not OK: the group has failed
  bool met_ = false;
  std::optional<DeviceMeeting> devices_;  // of local rank 0, once all have met
  std::shared_ptr<const NodeFailures> failures_;
  bool was_open_ = false;
  bool close_requested_ = false;  // by whatever means
  bool close_commanded_ = false;  // by the caller, who waits for GroupClosed
  bool rail_closes_ = false;
  bool asked_ = false;         // who is missing; the answer comes at once
  absl::Status lost_of_node_;  // not OK: the first rank of this node that is lost, as the scheduler says
  OpQueue ops_;
  GroupPartialOps partial_ops_;
  std::unique_ptr<WorkerGroup> rail_;  // null: all ranks are on this node
  std::deque<Part> parts_;             // with a rail: of each of `ops_`
  OpNumber first_unpublished_;         // ops before this one are published as a whole
  WaitReport open_wait_;
  uint64_t next_line_ns_;  // when a line about a wait is due; kNoDeadline: none
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_NODE_GROUP_H_
