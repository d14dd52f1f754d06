// One group on one shard: its ranks, its slots, the pushes that wait for a slot, and its ledger.
//
// Owns this state and its transitions. What peers are sent about it is decided by its users. One thread.
//
// The group moves from epoch to epoch (docs/adr/0009): what was gathered is given up then, and every rank says hello
// again.
#ifndef SHOAL_SERVER_MACHINE_SERVER_GROUP_H_
#define SHOAL_SERVER_MACHINE_SERVER_GROUP_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/chunk_slot.h"
#include "core/frame.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/op_ledger.h"
#include "core/roster.h"
#include "core/transport_event.h"
#include "server/machine/lateness_book.h"
#include "server/machine/server_counters.h"

namespace shoal {

class ServerGroup {
 public:
  // kExpected: no hello in this epoch yet. kAbsent: its connection broke, it may come back in the next epoch. kGone: it
  // left, or is not in the epoch.
  enum class Presence : uint8_t { kExpected, kPresent, kAbsent, kGone };

  struct RankState {
    Presence presence = Presence::kExpected;
    PeerId peer;
    Incarnation incarnation;
    OpNumber landed_watermark;
    OpNumber newest_result;       // at its hello: it has results of no later op
    OpNumber waits_for_commit;    // 0: it does not wait
    uint64_t waits_since_ns = 0;  // for that commit
    OpNumber calls_none_from;     // it has left for good, in this epoch or one before; 0: it has not
    bool told_of_leaver = false;
    // Its connection broke, in this epoch (kAbsent) or in one before, and it has not come back since (kExpected).
    uint64_t absent_since_ns = 0;
    std::string absent_because;  // empty: it did not break
  };

  // An offered push that waits for a slot.
  struct PendingPush {
    PeerId peer;
    OfferId offer;
    FrameHeader header;
  };

  // `slot_region` is the offset of slot_count * size * chunk stride bytes.
  ServerGroup(const GroupToken& first_token, Epoch epoch, const Roster& roster, uint32_t credit_chunks,
              uint64_t slot_region);

  // Slots for a group of `credit`: as many again as may be gathering, because a slot stays in use until its replies are
  // sent.
  static uint32_t SlotCount(uint32_t credit_chunks) { return 2 * credit_chunks; }
  static uint64_t RegionBytes(uint32_t credit_chunks, uint32_t group_size, uint32_t max_chunk_bytes);

  GroupId id() const { return id_; }
  JobId job() const { return job_; }
  Epoch epoch() const { return epoch_; }
  // Not the epoch that the group started in: a rank may hold results that others lack.
  bool moved() const { return epoch_ != first_epoch_; }
  // Of the group, whichever of its ranks are in the epoch.
  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  // Of the epoch.
  const Roster& roster() const { return roster_; }
  // So many ranks of the job are summed in the contribution of each rank: the divisor of an average counts them all.
  uint32_t ranks_per_contribution() const { return ranks_per_contribution_; }
  // For texts: "rank 3", or of a rail what its ranks put true names to (core/rank_text.h).
  std::string NameOf(Rank rank) const;
  uint32_t max_chunk_bytes() const { return max_chunk_bytes_; }
  uint32_t credit_chunks() const { return credit_chunks_; }
  uint64_t slot_region() const { return slot_region_; }
  uint64_t stride_bytes() const { return stride_bytes_; }
  // Of the whole region.
  uint64_t region_bytes() const { return slots_.size() * size() * stride_bytes_; }

  // Starts the epoch: ranks are expected, those that are absent as well, ops are registered anew, and it has not
  // failed. The caller has given up slots, pending pushes and peers before.
  void MoveTo(Epoch epoch, const Roster& roster);

  // True if the token describes this same group (its rank aside).
  bool Agrees(const GroupToken& token) const;

  // ---- ranks ----

  const RankState& rank_state(Rank rank) const { return ranks_[rank.value()]; }
  bool IsPresent(Rank rank) const { return rank_state(rank).presence == Presence::kPresent; }
  bool AnyPresent() const { return Any(Presence::kPresent); }
  // Whether its connection broke, and it has neither come back nor been given up.
  bool IsAbsent(Rank rank) const;
  // False: no rank is absent.
  bool may_have_absent() const { return may_have_absent_; }
  // Whether the connection said hello as any rank of the group.
  bool HasPeer(PeerId peer) const;

  // The rank said hello on this connection; `newest_result` as in RankState.
  void Enter(Rank rank, PeerId peer, Incarnation incarnation, OpNumber newest_result);
  // The rank's connection broke.
  void MarkAbsent(Rank rank, Now now, std::string because);
  // The rank is gone. Its pending pushes are taken out; their offers are for the caller to decline, oldest first.
  std::vector<OfferId> Leave(Rank rank);
  // It has closed the group, and calls no op from this one on.
  void NoteCallsNoneFrom(OpNumber first, Rank rank);
  // What to know of it when ranks come that have not been here yet: who calls no op from which one on. Empty: nobody
  // has left for good, or all ranks of the epoch have.
  std::vector<std::pair<Rank, OpNumber>> Leavers() const;
  // A rank of the epoch that does not call the op; nullopt: none that is known.
  std::optional<Rank> FindLeaver(OpNumber op) const;
  // Whether the rank is to hear now that its op lacks one that has left; not a second time in an epoch.
  bool TakeLeaverNews(Rank rank);
  // The scheduler has lost its state, and with it the group: it will not declare a rank lost any more.
  void ForgetScheduler() { unknown_to_scheduler_ = true; }
  bool unknown_to_scheduler() const { return unknown_to_scheduler_; }
  // An absent rank did not come back in time. Returns why it went absent.
  std::string GiveUp(Rank rank);

  // Whether a rank may hold results of this op from an earlier epoch.
  bool MayHaveResultsOf(OpNumber op) const { return op <= newest_result_; }

  // ---- slots ----

  uint32_t slot_count() const { return static_cast<uint32_t>(slots_.size()); }
  ChunkSlot& slot(uint32_t index) { return slots_[index]; }
  const ChunkSlot& slot(uint32_t index) const { return slots_[index]; }
  // Index of the slot that gathers (op, chunk), or of a free one, or -1.
  int FindSlot(OpNumber op, ChunkNumber chunk) const;
  int FindFreeSlot() const;
  // Of the gathering slot whose chunk is last in the order of pushes, if that is after (op, chunk); or -1.
  int FindSlotToPreempt(OpNumber op, ChunkNumber chunk) const;
  // Where a rank's contribution to a slot lies: those of the epoch's ranks lie side by side, from that of rank 0 on.
  uint64_t BufferOffset(uint32_t slot, Rank rank) const;
  bool AllSlotsIdle() const;
  // Whether the rank has offered something, of this op or a later one, that has no result yet.
  bool WaitsForResult(Rank rank, OpNumber from = OpNumber(0)) const;
  uint32_t SlotsInUse() const;

  // ---- pushes that wait for a slot ----

  // Whether the same push is held already; whether as many are held as the ranks' credit allows.
  bool IsPending(const FrameHeader& push) const;
  bool PendingIsFull() const { return pending_.size() >= size_t{size()} * credit_chunks_; }
  uint32_t pending_count() const { return static_cast<uint32_t>(pending_.size()); }
  void Hold(const PendingPush& push) { pending_.push_back(push); }
  // The held push that is first in the order of pushes; nullopt: none is held.
  std::optional<PendingPush> TakeOldestPending();
  // There was no slot for the push that was taken.
  void PutBack(const PendingPush& push) { pending_.push_front(push); }
  // All of them, in the order in which they came.
  std::deque<PendingPush> TakePending() { return std::exchange(pending_, {}); }

  // ---- ops ----

  // Finds or registers the op of a push, as OpLedger::Admit. kDuplicate: its chunk was summed already.
  Refusal Admit(const FrameHeader& push, const OpRecord** op);
  // The record of an op that was admitted and is not committed; nullptr otherwise.
  const OpRecord* FindOp(OpNumber op) const { return ledger_.Find(op); }
  // The chunk of an op that is not committed has its result: no contribution to it counts any more.
  void NoteSummed(OpNumber op, ChunkNumber chunk) { ledger_.NoteSummed(op, chunk); }

  OpNumber watermark() const { return ledger_.watermark(); }
  // Takes in what a worker says of its own progress and of the group's.
  void NoteWatermarks(Rank rank, const FrameHeader& header);
  // The rank wants to know when all have their results up to `op`; 0: it does not.
  void WaitForCommit(Rank rank, OpNumber op, Now now);
  bool AnyWaitsForCommit() const { return any_waits_for_commit_; }
  // Whether the ranks are to be told the watermark now; they count as told then.
  bool TakeAnnouncement();

  // The ranks without the chunk of a gathering slot; the ranks that have not said that they have all results up to
  // `op`.
  Waiting RanksMissing(const ChunkSlot& slot) const;
  Waiting RanksBehind(OpNumber op) const;

  // Adds those of the last window to `late`, which holds kMaxLateRanksOfServer at most.
  void ListLateRanks(std::vector<LateRankOfGroup>* late) const;
  LatenessBook& lateness() { return lateness_; }
  const LatenessBook& lateness() const { return lateness_; }

  // ---- failure ----

  // kConnections: this server gave a rank up that it could not reach. That binds the epoch alone: the ranks may go on
  // in a newer one. kGroup: the group has ended whatever its epoch, because ranks disagree or one of them failed it.
  enum class FailureOf : uint8_t { kGroup, kConnections };

  bool failed() const { return failed_; }
  // Whether a failure in an epoch is one for a hello of `epoch` as well, which can't start the group anew then.
  static bool Binds(FailureOf of, Epoch failed_in, Epoch epoch) {
    return of == FailureOf::kGroup || epoch <= failed_in;
  }
  bool FailureBinds(Epoch epoch) const { return failed_ && Binds(failure_of_, epoch_, epoch); }
  FailureOf failure_of() const { return failure_of_; }
  // Why it failed, for ranks that come later, and how they are refused.
  const std::string& failure() const { return failure_; }
  Refusal failure_refusal() const { return failure_refusal_; }
  // The group can't go on. A second call counts only where it makes the failure the group's own.
  void Fail(FailureOf of, Refusal refusal, std::string why);
  // When the ranks that are still in the failed group are taken for gone; `patience_ns` after the first call.
  uint64_t ReleaseTimeNs(Now now, uint64_t patience_ns);

 private:
  bool Any(Presence presence) const;
  // The ranks of the epoch are expected, and their contributions.
  void Expect();
  // Whether a rank waits for a watermark that is reached; those ranks wait no more then.
  bool TakeCommitsWaitedFor();

  const GroupId id_;
  const JobId job_;
  const Epoch first_epoch_;
  Epoch epoch_;
  Roster roster_;
  const uint32_t ranks_per_contribution_;
  const uint32_t max_chunk_bytes_;
  const uint32_t credit_chunks_;
  const uint64_t slot_region_;
  const uint64_t stride_bytes_;
  std::vector<RankState> ranks_;  // by rank
  std::vector<ChunkSlot> slots_;
  std::deque<PendingPush> pending_;  // at most size * credit
  OpLedger ledger_;
  LatenessBook lateness_;
  OpNumber newest_result_;  // of all ranks'
  bool any_waits_for_commit_ = false;
  bool unknown_to_scheduler_ = false;
  bool any_left_ = false;         // for good
  bool may_have_absent_ = false;  // a connection broke in this epoch, or a rank was absent when it began
  bool failed_ = false;
  FailureOf failure_of_ = FailureOf::kGroup;
  Refusal failure_refusal_ = Refusal::kGroupFailedBefore;
  std::string failure_;
  uint64_t release_at_ns_ = kNoDeadline;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_SERVER_GROUP_H_
