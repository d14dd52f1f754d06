// One group on one shard: its members, its slots and its ledger.
//
// Data and small rules for ServerMachine, which owns it and does everything that concerns peers. One thread.
#ifndef SHOAL_SERVER_SERVER_GROUP_H_
#define SHOAL_SERVER_SERVER_GROUP_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/chunk_slot.h"
#include "core/frame.h"
#include "core/ids.h"
#include "core/op_ledger.h"
#include "net/transport.h"

namespace shoal {

class ServerGroup {
 public:
  enum class Presence : uint8_t { kAbsent, kPresent, kGone };

  struct Member {
    Presence presence = Presence::kAbsent;
    PeerId peer;
    Incarnation incarnation;
    OpNumber landed_watermark;
  };

  // An offered push that waits for a slot.
  struct PendingPush {
    PeerId peer;
    OfferId offer;
    FrameHeader header;
  };

  // `slot_region` is the offset of slot_count * size * chunk stride bytes.
  ServerGroup(const GroupToken& first_token, uint32_t credit_chunks, uint64_t slot_region);

  // Slots for a group of `credit`: as many again as may be gathering, because a slot stays in use until its replies are
  // sent.
  static uint32_t SlotCount(uint32_t credit_chunks) { return 2 * credit_chunks; }
  static uint64_t RegionBytes(uint32_t credit_chunks, uint32_t group_size, uint32_t max_chunk_bytes);

  GroupId id() const { return id_; }
  JobId job() const { return job_; }
  Epoch epoch() const { return epoch_; }
  uint32_t size() const { return static_cast<uint32_t>(members.size()); }
  uint32_t max_chunk_bytes() const { return max_chunk_bytes_; }
  uint32_t credit_chunks() const { return credit_chunks_; }
  uint64_t slot_region() const { return slot_region_; }

  // True if the token describes this same group (its rank aside).
  bool Agrees(const GroupToken& token) const;

  // Index of the slot that gathers (op, chunk), or of a free one, or -1.
  int FindSlot(OpNumber op, ChunkNumber chunk) const;
  int FindFreeSlot() const;
  // Where a rank's contribution to a slot lies.
  uint64_t BufferOffset(uint32_t slot, Rank rank) const;
  uint64_t stride_bytes() const { return stride_bytes_; }

  // Takes in what a worker says of its own progress and of the group's; returns the group's watermark.
  OpNumber NoteWatermarks(Rank rank, const FrameHeader& header);

  bool AnyPresent() const;
  bool AnyAbsent() const;  // a rank that never said hello
  bool AllSlotsIdle() const;

  std::vector<Member> members;  // by rank
  std::vector<ChunkSlot> slots;
  std::deque<PendingPush> pending;  // at most size * credit
  OpLedger ledger;
  bool failed = false;
  std::string failure;  // why, for those who come later

 private:
  GroupId id_;
  JobId job_;
  Epoch epoch_;
  uint32_t max_chunk_bytes_;
  uint32_t credit_chunks_;
  uint64_t slot_region_;
  uint64_t stride_bytes_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_SERVER_GROUP_H_
