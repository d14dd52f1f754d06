// The chunks of a group's ops on their way: pushed to their owners when the links say so (EpochLinks::TakeTurn);
// results taken into the tensors; ops reported when all of theirs are there.
//
// Owns the group's ops, its links of this epoch and of those that are over, the memory in which chunks cross the
// network, and what it keeps for other ranks; others look at them and change them through the functions below alone.
// Tells the servers of this rank's landed watermark. What ends the group comes out as an error; Fail is called then.
// After Fail nothing is pushed or taken, and each op is reported when the transport, and copies from and to a device,
// are done with its memory. One thread.
#ifndef SHOAL_WORKER_MACHINE_CHUNK_FLOW_H_
#define SHOAL_WORKER_MACHINE_CHUNK_FLOW_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/frame.h"
#include "core/now.h"
#include "worker/machine/connections.h"
#include "worker/machine/epoch_links.h"
#include "worker/machine/group_staging.h"
#include "worker/machine/op_queue.h"
#include "worker/machine/operation_token.h"
#include "worker/machine/partial_op_book.h"
#include "worker/machine/result_keeper.h"
#include "worker/machine/retired_links.h"
#include "worker/machine/server_wait_book.h"
#include "worker/machine/worker_actions.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_counters.h"
#include "worker/machine/worker_machine_options.h"

namespace shoal {

// What the groups of a worker share. All of it outlives them.
struct SharedByGroups {
  const WorkerMachineOptions* options;
  Connections* connections;
  WorkerTally* tally;
  ServerWaitBook* server_waits;
  PartialOpBook* partial_ops;
};

class ChunkFlow {
 public:
  ChunkFlow(const OpenGroupCommand& command, uint16_t generation, const SharedByGroups& shared);

  const GroupInfo& info() const { return *info_; }
  const EpochLinks& links() const { return links_; }
  const OpQueue& ops() const { return ops_; }
  OpNumber landed_watermark() const { return ops_.landed_watermark(); }
  OpNumber commit_watermark() const { return results_.commit_watermark(); }
  OpNumber newest_result() const { return results_.newest_result(); }
  size_t retained_results() const { return results_.retained_count(); }
  // No transport operation is under way on any op's memory, or on a result's copy.
  bool Idle() const { return ops_.Idle() && !results_.HandsOver(); }
  // A result is written to a tensor, or may be: the group can't move until that has ended.
  bool ResultMayBeInTensor() const { return links_.ResultMayBeInTensor(); }
  uint64_t commit_note_at_ns() const { return commit_note_at_ns_; }
  uint64_t NextForceNs() const { return retired_.NextDeadlineNs(); }

  // Of a message to a server, with what every message tells it.
  FrameHeader Header(FrameType type) const;

  // ---- links of this epoch, by shard ----

  // Says hello to a server that has heard none.
  void Greet(uint32_t shard, WorkerActions* actions);
  // The server took the group in; the link is in use and was not welcomed before. ResourceExhausted: no memory to stage
  // chunks in.
  absl::Status Welcome(uint32_t shard, uint32_t credit_chunks);
  // The transitions of ShardLink.
  void LoseLink(uint32_t shard, std::string why) { links_[shard].Lose(std::move(why)); }
  bool TakeReport(uint32_t shard, bool reachable) { return links_[shard].TakeReport(reachable); }
  // Asks each server, once, to say when all ranks have their results.
  void AskAboutCommit(WorkerActions* actions);
  // Tells each server that has welcomed this rank the watermark, known there or not: one that is in a newer epoch, or
  // does not have the group any more, refuses it. (It refuses a hello of an older epoch by itself.) Not after
  // AskAboutCommit, which it would take back.
  void AskWhoHasGoneOn(WorkerActions* actions) const;

  // ---- ops ----

  // Takes an op in, whose layout is for the group. One with nothing to reduce is done at once. One on a device is not
  // pushed before its tensor is ready.
  void Submit(const SubmitCommand& command, Now now, WorkerActions* actions);
  // False: it is not known, or has ended.
  bool NoteTensorReady(uint64_t ticket);
  // ResourceExhausted: the arena has no room for the chunks of a link.
  absl::Status MakeReachableByDevices();
  // Pushes what may be pushed, and tells the watermark where no push did for a while.
  void Push(Now now, WorkerActions* actions);
  void SendCommitNotes(WorkerActions* actions);
  // So many elements of the op's contribution are there (WorkerOp). An op that has ended is not looked for.
  void SetReadyElements(OpNumber number, uint64_t elements);
  // Of a rail of a group that goes on without lost ranks: how many nodes' contributions these elements of the op have,
  // whose results are there. Once all of them were asked for, it may be forgotten.
  std::vector<ContributedRange> ContributedRanges(OpNumber number, ElementRange elements) const;
  void ForgetContributed(OpNumber number) { contributed_.erase(number); }
  // As OpQueue's.
  const WorkerOp* FindOverdue(uint64_t now_ns) { return ops_.FindOverdue(now_ns); }
  // True: an op is open, and a line about the wait for the oldest is due now.
  bool TakeWaitDueOfOldest(uint64_t now_ns);

  // ---- what servers say ----

  void Commit(OpNumber watermark) { results_.Commit(watermark); }
  // A server waits for ranks, with the contributions to the chunk that the header names.
  void NoteMissingRanks(uint32_t shard, const FrameHeader& header, const Waiting& missing);
  // A result is offered over a link: taken, held, or declined and counted as refused. Internal: it does not fit what
  // was pushed.
  absl::Status OnOffered(uint32_t shard, const FrameHeader& header, const TransportEvent& event,
                         WorkerActions* actions);
  // The server gave the chunk's place to another: it is pushed again, or the result handed over. Errors: those of
  // OnAsk.
  absl::Status OnPreempted(uint32_t shard, const FrameHeader& header, WorkerActions* actions);
  // The server asks for a result that this rank may have. ResourceExhausted: no memory for it.
  absl::Status OnAsk(uint32_t shard, const FrameHeader& header, WorkerActions* actions);

  // ---- the ends of transport operations ----

  void OnAcceptStarted(OperationToken token, bool at_once) { FindLink(token).chunk(token.cell).NoteTaken(at_once); }
  // ResourceExhausted: no memory for results that are to be kept. Unavailable: the operation failed, and the group does
  // not survive that.
  absl::Status OnSent(OperationToken token, const absl::Status& status, Now now, WorkerActions* actions);
  absl::Status OnLanded(OperationToken token, const absl::Status& status, Now now, WorkerActions* actions);
  // A copy from or to a device. Internal: it failed. ResourceExhausted: as OnSent.
  absl::Status OnDeviceCopyEnded(const DeviceCopyEnded& ended, Now now, WorkerActions* actions);

  // ---- from epoch to epoch, and to the end ----

  // Goes over to another map: chunks whose result is not here are pushed again, to their new owners. The links of the
  // new epoch have generation `generation` and are to be greeted.
  void MoveTo(MoveGroupCommand next, uint16_t generation, Now now, WorkerActions* actions);
  // Servers tell the other ranks, and fail the group for all of them.
  void TellFailure(const absl::Status& why, WorkerActions* actions) const;
  // Declines what is held, and reports each op as soon as its memory is free.
  void Fail(absl::Status why, Now now, WorkerActions* actions);
  // OK: the group has not failed.
  const absl::Status& failure() const { return failure_; }
  // Cuts connections that hold memory for links of epochs that are over, when their time has come.
  void TickRetired(Now now, WorkerActions* actions);
  // Cuts every connection whose end frees memory of a link of this epoch or a hand-over; abandons copies from and to
  // devices.
  void CutWhatHoldsMemory(WorkerActions* actions);
  // The server is told that this rank leaves, if the link is in use. `calls_none_from`: as of kLeaveGroup
  // (core/frame.h).
  void TellLeaving(const ShardLink& link, OpNumber calls_none_from, WorkerActions* actions) const;

 private:
  bool failed() const { return !failure_.ok(); }
  // The link that an operation was started on, also of an epoch that is over. Its memory is in use, so it is there.
  ShardLink& FindLink(OperationToken token);
  bool IsRetired(OperationToken token) const { return token.generation != links_.generation(); }
  static OperationToken TokenOf(const DeviceCopyToken& copy) {
    return {copy.group.value(), copy.generation, copy.shard, copy.cell};
  }
  // Of a chunk's push: a sum that is to be scaled up where contributions are missing.
  bool Scales(const FrameHeader& header) const;
  // Puts into the header what every message says of this rank.
  void Sign(FrameType type, FrameHeader* header) const;

  void PushChunk(uint32_t shard, uint16_t cell, PushPace pace, WorkerActions* actions);
  // Of what PushChunk has begun, `data` being in host memory.
  void SendChunk(uint32_t shard, uint16_t cell, const WorkerOp& op, const std::byte* data, WorkerActions* actions);
  // Takes the cell's result, if there is one and the network is done with all pushes of the chunk.
  void TakeHeldResult(uint32_t shard, uint16_t cell, WorkerActions* actions);
  // The result is in the tensor, or the last action brings it there: the window moves on.
  void FinishChunk(uint32_t shard, uint16_t cell, WorkerOp* op, Now now);

  // An operation on a link of an epoch that is over has ended: results may have waited for it.
  absl::Status EndRetired(WorkerOp* op, Now now, WorkerActions* actions);
  // What an operation that failed means is said by the end of its connection, which follows, or is brought about.
  absl::Status OperationFailed(ShardLink* link, const std::string& what, WorkerActions* actions);
  void Cut(ShardLink* link, WorkerActions* actions);

  // Where the op's results are all in its tensor, it ends when the transport is done with that. ResourceExhausted: no
  // memory for those to be kept.
  absl::Status EndOpIfDone(WorkerOp* op, Now now, WorkerActions* actions);
  void SendHandOver(uint16_t index, WorkerActions* actions);
  // A transport operation on the op's memory has ended.
  void EndOperation(WorkerOp* op, Now now, WorkerActions* actions);
  void ReportOp(WorkerOp* op, const absl::Status& status, Now now, WorkerActions* actions);
  // Of each op, in the order of their numbers: whose contributions its results have, if that is not what was told of
  // the op before.
  void NotePartialOp(const WorkerOp& op);
  absl::Status FailureOf(const WorkerOp& op) const;
  void AdvanceWatermark(Now now);

  const GroupHandle handle_;
  const std::shared_ptr<const GroupInfo> info_;
  const WorkerMachineOptions& options_;
  Connections& connections_;
  WorkerTally& tally_;
  GroupStaging staging_;
  OpQueue ops_;
  std::vector<std::byte> sealed_roster_;  // of the epoch (GroupInfo)
  EpochLinks links_;
  GroupServerWaits server_waits_;
  GroupPartialOps partial_ops_;  // not of a rail
  // Of a rail: of ops that have ended, and that nobody has asked for since.
  std::map<OpNumber, std::vector<ContributedRange>> contributed_;
  RetiredLinks retired_;
  ResultKeeper results_;
  uint64_t commit_note_at_ns_ = kNoDeadline;
  absl::Status failure_;  // not OK: the group has failed
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_CHUNK_FLOW_H_
