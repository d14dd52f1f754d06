// One group on one shard: its members, its slots and its ledger.
//
// Data and small rules for ServerMachine, which owns it and does everything that concerns peers. One thread.
//
// The group moves from epoch to epoch (docs/adr/0009): what was gathered is given up then, and every rank says hello
// again.
#ifndef SHOAL_SERVER_MACHINE_SERVER_GROUP_H_
#define SHOAL_SERVER_MACHINE_SERVER_GROUP_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/chunk_slot.h"
#include "core/frame.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/op_ledger.h"
#include "core/transport_event.h"

namespace shoal {

class ServerGroup {
 public:
  // kAbsent: no hello in this epoch. kMissing: its connection broke, it may come back in the next epoch. kGone: it
  // left.
  enum class Presence : uint8_t { kAbsent, kPresent, kMissing, kGone };

  struct Member {
    Presence presence = Presence::kAbsent;
    PeerId peer;
    Incarnation incarnation;
    OpNumber landed_watermark;
    OpNumber newest_result;             // at its hello: it has results of no later op
    OpNumber waits_for_commit;          // 0: it does not
    uint64_t waits_since_ns = 0;        // for that
    uint64_t lost_at_ns = kNoDeadline;  // kMissing: when it is given up
    std::string lost_because;           // kMissing
  };

  // An offered push that waits for a slot.
  struct PendingPush {
    PeerId peer;
    OfferId offer;
    FrameHeader header;
  };

  // `slot_region` is the offset of slot_count * size * chunk stride bytes.
  ServerGroup(const GroupToken& first_token, Epoch epoch, uint32_t credit_chunks, uint64_t slot_region);

  // Slots for a group of `credit`: as many again as may be gathering, because a slot stays in use until its replies are
  // sent.
  static uint32_t SlotCount(uint32_t credit_chunks) { return 2 * credit_chunks; }
  static uint64_t RegionBytes(uint32_t credit_chunks, uint32_t group_size, uint32_t max_chunk_bytes);

  GroupId id() const { return id_; }
  JobId job() const { return job_; }
  Epoch epoch() const { return epoch_; }
  // Not the epoch that the group started in: a rank may hold results that others lack.
  bool moved() const { return epoch_ != first_epoch_; }
  uint32_t size() const { return static_cast<uint32_t>(members.size()); }
  uint32_t max_chunk_bytes() const { return max_chunk_bytes_; }
  uint32_t credit_chunks() const { return credit_chunks_; }
  uint64_t slot_region() const { return slot_region_; }

  // Starts the epoch. Slots, pending pushes and peers are the caller's to give up before.
  void MoveTo(Epoch epoch);

  // True if the token describes this same group (its rank aside).
  bool Agrees(const GroupToken& token) const;

  // Index of the slot that gathers (op, chunk), or of a free one, or -1.
  int FindSlot(OpNumber op, ChunkNumber chunk) const;
  int FindFreeSlot() const;
  // Of the gathering slot whose chunk is last in the order of pushes, if that is after (op, chunk); or -1.
  int FindSlotToPreempt(OpNumber op, ChunkNumber chunk) const;
  // Whether the same push is held already.
  bool IsPending(const FrameHeader& push) const;
  // The pending push that is first in that order. There is one.
  std::deque<PendingPush>::iterator OldestPending();
  // Where a rank's contribution to a slot lies.
  uint64_t BufferOffset(uint32_t slot, Rank rank) const;
  uint64_t stride_bytes() const { return stride_bytes_; }

  // Takes in what a worker says of its own progress and of the group's; returns the group's watermark.
  OpNumber NoteWatermarks(Rank rank, const FrameHeader& header);

  // The ranks without the chunk of a gathering slot; the ranks that have not said that they have all results up to
  // `op`.
  Waiting RanksMissing(const ChunkSlot& slot) const;
  Waiting RanksBehind(OpNumber op) const;

  // Whether a member waits for a watermark that is reached; nobody waits for it then any more.
  bool TakeCommitsWaitedFor();

  bool AnyPresent() const;
  bool AnyAbsent() const;  // a rank that never said hello
  bool AnyMissing() const;
  bool AllSlotsIdle() const;

  std::vector<Member> members;  // by rank
  std::vector<ChunkSlot> slots;
  std::deque<PendingPush> pending;  // at most size * credit
  OpLedger ledger;
  OpNumber newest_result;  // of all members'
  bool somebody_waits_for_commit = false;
  bool failed = false;
  uint64_t release_at_ns = kNoDeadline;  // failed: who is in it then is taken for gone
  std::string failure;                   // why, for those who come later

 private:
  GroupId id_;
  JobId job_;
  Epoch first_epoch_;
  Epoch epoch_;
  uint32_t max_chunk_bytes_;
  uint32_t credit_chunks_;
  uint64_t slot_region_;
  uint64_t stride_bytes_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_SERVER_GROUP_H_
