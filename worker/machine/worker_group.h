// One group whose tensors go through reduction servers, from its opening to its end.
//
// It opens on every shard of its map (hello -> welcome), waiting for servers that are not there yet until its deadline.
// A lost server is reported (ServerTrouble); its chunks wait until the group is given a new map, and are then pushed to
// their new owners with all that was not done (docs/adr/0009). What can't be survived (a rank lost, ranks that
// disagree, a deadline) fails the group as a whole: every open op ends with the same reason, and the servers tell the
// other ranks. A connection that holds memory of a failed group back for too long is cut. The orderly end waits until
// every rank has its results. Once it is closed() its owner drops it.
//
// A rail of a group (GroupInfo::is_rail) tells callers nothing: the NodeGroup that owns it asks it how far it is. That
// also has an eye on deadlines, and on waits but the last one.
//
// Owned by WorkerMachine or a NodeGroup. One thread.
#ifndef SHOAL_WORKER_MACHINE_WORKER_GROUP_H_
#define SHOAL_WORKER_MACHINE_WORKER_GROUP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/frame.h"
#include "core/now.h"
#include "core/roster.h"
#include "worker/machine/any_group.h"
#include "worker/machine/chunk_flow.h"
#include "worker/machine/group_description.h"
#include "worker/machine/group_waits.h"
#include "worker/machine/operation_token.h"
#include "worker/machine/worker_actions.h"
#include "worker/machine/worker_commands.h"

namespace shoal {

class WorkerGroup final : public AnyGroup {
 public:
  // `generation`: of its first links. No group that had the handle before had it.
  WorkerGroup(const OpenGroupCommand& command, uint16_t generation, const SharedByGroups& shared, Now now);

  const GroupInfo& info() const override { return flow_.info(); }
  Epoch epoch() const { return flow_.links().epoch(); }
  uint16_t generation() const { return flow_.links().generation(); }
  bool opening() const { return state_ == State::kOpening; }
  bool open() const { return state_ == State::kOpen; }
  // OK: it has not failed.
  const absl::Status& failure() const { return flow_.failure(); }
  // Or closed: in either case nothing starts any more.
  bool failed() const override { return state_ == State::kFailed || closed(); }
  bool closed() const override { return state_ == State::kClosed; }
  // It is closed, and all ranks have all results of its ops, of which there were some.
  bool closed_all_committed() const { return closed_all_committed_; }
  bool Uses(uint32_t connection) const { return flow_.links().FindShard(connection).has_value(); }
  // nullptr: not known (any more).
  const WorkerOp* FindOp(OpNumber number) const { return flow_.ops().Find(number); }
  // The newest op with a chunk that has landed; 0: none.
  OpNumber newest_result() const { return flow_.newest_result(); }
  // It has ended on this rank alone: the others go on.
  bool gave_up() const { return gave_up_; }
  // As ChunkFlow's.
  std::vector<ContributedRange> ContributedRanges(OpNumber op, ElementRange elements) const {
    return flow_.ContributedRanges(op, elements);
  }
  void ForgetContributed(OpNumber op) { flow_.ForgetContributed(op); }
  // Chunks whose results are kept for ranks that may not have them yet.
  size_t retained_results() const { return flow_.retained_results(); }
  GroupDescription Description() const { return GroupDescription(&flow_, &connections_); }

  // ---- commands ----

  // Greets the servers that are connected, and asks for connections to the others.
  void Open(Now now, WorkerActions* actions) override;
  absl::Status Submit(const SubmitCommand& command, Now now, WorkerActions* actions) override;
  // So many elements of the op of a rail are there.
  void SetReadyElements(OpNumber op, uint64_t elements) { flow_.SetReadyElements(op, elements); }
  void OnTensorReady(const TensorReadyCommand& command, Now now, WorkerActions* actions);
  // Goes over to the map, and its ranks, as soon as no result is being written to a tensor. Maps of older epochs are
  // ignored.
  void MoveTo(const MoveGroupCommand& next, Now now, WorkerActions* actions);
  // Takes in which rank of this epoch has closed the group, if the news is of it.
  void NoteClosed(const MoveGroupCommand& news, Now now, WorkerActions* actions);
  // Not OK: the scheduler's answer to a rank that it does not know any more. The group goes on with the servers that it
  // has, as long as those stay in its epoch.
  void SetNoMoreMaps(const absl::Status& why) { no_more_maps_ = why; }
  // A rank that has closed the group knew that all ranks have all results: this one need not wait for them to leave it.
  void OnAllCommitted(Now now, WorkerActions* actions);
  void Fail(absl::Status why, Now now, WorkerActions* actions) override;
  void FailAsOthers(absl::Status why, Now now, WorkerActions* actions) override;
  void GiveUp(absl::Status why, Now now, WorkerActions* actions) override;
  void Close(Now now, WorkerActions* actions) override;
  void Shutdown(uint64_t deadline_ns, Now now, WorkerActions* actions) override;

  // ---- its connections ----

  void OnUp(uint32_t connection, WorkerActions* actions);
  void OnDown(uint32_t connection, WorkerActions* actions);
  // What an attempt to connect to a lost server came to.
  void ReportLostLink(uint32_t connection, bool reachable, WorkerActions* actions);

  // ---- what servers say, over a connection ----

  void OnWelcome(uint32_t connection, const FrameHeader& header, const Welcome& welcome, Now now,
                 WorkerActions* actions);
  void OnRefused(uint32_t connection, const FrameHeader& header, const std::string& text, Now now,
                 WorkerActions* actions);
  void OnWaiting(uint32_t connection, const FrameHeader& header, const Waiting& missing);
  void OnAsk(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions);
  void OnCommit(OpNumber watermark) { flow_.Commit(watermark); }
  // A rank was lost, has failed the group, or has left it before an op that this one has called.
  void OnBroken(uint32_t connection, const FrameHeader& header, const std::string& said, Now now,
                WorkerActions* actions);
  // False: its result can't be for this group any more, the offer is to be declined.
  bool OnOffered(uint32_t connection, const FrameHeader& header, const TransportEvent& event, Now now,
                 WorkerActions* actions);

  // ---- transport operations ----

  void OnAcceptStarted(OperationToken token, bool at_once) { flow_.OnAcceptStarted(token, at_once); }
  void OnSent(OperationToken token, const absl::Status& status, Now now, WorkerActions* actions);
  void OnLanded(OperationToken token, const absl::Status& status, Now now, WorkerActions* actions);
  void OnDeviceCopyEnded(const DeviceCopyEnded& ended, Now now, WorkerActions* actions);

  void Tick(Now now, WorkerActions* actions) override;
  uint64_t NextDeadlineNs() const override;

 private:
  enum class State : uint8_t { kOpening, kOpen, kFailed, kClosed };

  void MoveIfDue(Now now, WorkerActions* actions);
  // Where an op is open, in an epoch without ranks that have closed the group.
  void FailIfTooFew(Now now, WorkerActions* actions);
  // It has failed, on this rank.
  void End(absl::Status why, Now now, WorkerActions* actions);
  // The link can't be used in this epoch. Whether its server can be reached at all is tried at once.
  void LoseLink(uint32_t shard, const std::string& why, bool refused, WorkerActions* actions);
  // What is not of the server is in `trouble`.
  void ReportTrouble(uint32_t shard, ServerTrouble trouble, WorkerActions* actions);
  void OnRankLeft(uint32_t connection, const FrameHeader& header, Now now, WorkerActions* actions);
  // The rank does not call that op, which this one has called. `shard`: who says so, or any.
  void MissRank(Rank rank, OpNumber op, uint32_t shard, Now now, WorkerActions* actions);
  // If an op is open, and it is known that a rank of the epoch does not call it.
  void MissClosed(Now now, WorkerActions* actions);
  // Servers of this epoch that no connection was made to in time are lost, and reported.
  void LoseUnreached(Now now, WorkerActions* actions);
  // A server that refuses the group need not be its end.
  bool MayMove(Refusal refusal) const;
  // When the servers are to be asked whether the others have gone on without this rank; kNoDeadline: no newer map is
  // missed, or nothing is waited for.
  uint64_t EpochCheckNs() const;
  // After something that ends the group where it is not OK, and may have ended ops.
  void FailOrGoOn(const absl::Status& status, Now now, WorkerActions* actions);
  // Ops were submitted, went on or ended: what a line about them may be due at. (A rail's are told by its group.)
  void WatchOps();
  void CloseIfDone(Now now, WorkerActions* actions);
  bool MayLeave(Now now, WorkerActions* actions);
  // The newest result counts, not the newest op: one without elements has no result and ends on each rank by itself, so
  // this rank may have ended one that the others never call. What was told is not a watermark for the same reason.
  bool AllCommitted() const { return told_all_committed_ || flow_.commit_watermark() >= flow_.newest_result(); }
  void ReportWait(std::string line, WorkerActions* actions);
  void Tell(WorkerAction outcome, WorkerActions* actions) const;

  const GroupHandle handle_;
  const uint64_t open_deadline_ns_;
  const WorkerMachineOptions& options_;
  Connections& connections_;
  WorkerTally& tally_;
  State state_ = State::kOpening;
  bool was_open_ = false;
  bool gave_up_ = false;
  bool told_all_committed_ = false;
  bool closed_all_committed_ = false;
  bool close_requested_ = false;  // by whatever means
  bool close_commanded_ = false;  // by the caller, who waits for GroupClosed
  uint64_t epoch_began_ns_ = 0;
  uint64_t reach_check_ns_ = kNoDeadline;  // when to call LoseUnreached
  uint64_t epoch_check_ns_ = 0;            // see EpochCheckNs
  uint64_t force_at_ns_ = kNoDeadline;     // kFailed: when connections that hold memory are cut
  std::optional<MoveGroupCommand> next_;   // to move to as soon as possible
  absl::Status no_more_maps_;              // OK: the scheduler may move the group
  ChunkFlow flow_;
  std::optional<Rank> closed_;  // the group, by the scheduler's word, and it is in the epoch
  bool missed_closed_ = false;  // in this epoch
  Roster roster_;
  Roster next_roster_;  // of `next_`
  GroupWaits waits_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_GROUP_H_
