#include "server/machine/server_group.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

uint64_t StrideBytes(uint32_t max_chunk_bytes) {
  return (uint64_t{max_chunk_bytes} + kChunkAlignmentBytes - 1) / kChunkAlignmentBytes * kChunkAlignmentBytes;
}

void AddRank(Rank rank, Waiting* waiting) {
  ++waiting->missing_count;
  if (waiting->listed_count < kMaxMissingRanks) waiting->ranks[waiting->listed_count++] = rank;
}

}  // namespace

ServerGroup::ServerGroup(const GroupToken& first_token, Epoch epoch, uint32_t credit_chunks, uint64_t slot_region)
    : members(first_token.group_size),
      slots(SlotCount(credit_chunks)),
      ledger(first_token.max_chunk_bytes),
      id_(first_token.group),
      job_(first_token.job),
      first_epoch_(first_token.epoch),
      epoch_(epoch),
      max_chunk_bytes_(first_token.max_chunk_bytes),
      credit_chunks_(credit_chunks),
      slot_region_(slot_region),
      stride_bytes_(StrideBytes(first_token.max_chunk_bytes)) {
  for (ChunkSlot& slot : slots) slot.Size(first_token.group_size);
}

uint64_t ServerGroup::RegionBytes(uint32_t credit_chunks, uint32_t group_size, uint32_t max_chunk_bytes) {
  return uint64_t{SlotCount(credit_chunks)} * group_size * StrideBytes(max_chunk_bytes);
}

void ServerGroup::MoveTo(Epoch epoch) {
  epoch_ = epoch;
  newest_result = OpNumber(0);
  somebody_waits_for_commit = false;
  ledger.Restart();
  for (Member& member : members) member = {.landed_watermark = member.landed_watermark};
}

bool ServerGroup::Agrees(const GroupToken& token) const {
  return token.group == id_ && token.job == job_ && token.epoch == first_epoch_ && token.group_size == size() &&
         token.max_chunk_bytes == max_chunk_bytes_;
}

int ServerGroup::FindSlot(OpNumber op, ChunkNumber chunk) const {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].state() != ChunkSlot::State::kFree && !slots[i].abandoned() && slots[i].op() == op &&
        slots[i].chunk() == chunk) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int ServerGroup::FindFreeSlot() const {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].state() == ChunkSlot::State::kFree) return static_cast<int>(i);
  }
  return -1;
}

int ServerGroup::FindSlotToPreempt(OpNumber op, ChunkNumber chunk) const {
  int youngest = -1;
  std::pair<OpNumber, ChunkNumber> last(op, chunk);
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::pair<OpNumber, ChunkNumber> place(slots[i].op(), slots[i].chunk());
    if (slots[i].state() != ChunkSlot::State::kGathering || slots[i].abandoned() || place <= last) continue;
    youngest = static_cast<int>(i);
    last = place;
  }
  return youngest;
}

bool ServerGroup::IsPending(const FrameHeader& push) const {
  return std::any_of(pending.begin(), pending.end(), [&](const PendingPush& held) {
    return held.header.rank == push.rank && held.header.op == push.op && held.header.chunk == push.chunk;
  });
}

std::deque<ServerGroup::PendingPush>::iterator ServerGroup::OldestPending() {
  return std::min_element(pending.begin(), pending.end(), [](const PendingPush& a, const PendingPush& b) {
    return std::pair(a.header.op, a.header.chunk) < std::pair(b.header.op, b.header.chunk);
  });
}

uint64_t ServerGroup::BufferOffset(uint32_t slot, Rank rank) const {
  return slot_region_ + (uint64_t{slot} * size() + rank.value()) * stride_bytes_;
}

OpNumber ServerGroup::NoteWatermarks(Rank rank, const FrameHeader& header) {
  Member& member = members[rank.value()];
  member.landed_watermark = std::max(member.landed_watermark, header.landed_watermark);
  OpNumber landed_everywhere = member.landed_watermark;
  for (const Member& other : members) landed_everywhere = std::min(landed_everywhere, other.landed_watermark);
  ledger.Commit(std::max(landed_everywhere, header.commit_watermark));
  return ledger.watermark();
}

Waiting ServerGroup::RanksMissing(const ChunkSlot& slot) const {
  Waiting waiting;
  for (uint32_t r = 0; r < size(); ++r) {
    if (!slot.Has(Rank(r))) AddRank(Rank(r), &waiting);
  }
  return waiting;
}

Waiting ServerGroup::RanksBehind(OpNumber op) const {
  Waiting waiting;
  for (uint32_t r = 0; r < size(); ++r) {
    if (members[r].landed_watermark < op) AddRank(Rank(r), &waiting);
  }
  return waiting;
}

bool ServerGroup::TakeCommitsWaitedFor() {
  bool any = false;
  somebody_waits_for_commit = false;
  for (Member& member : members) {
    if (member.waits_for_commit == OpNumber(0)) continue;
    if (member.waits_for_commit > ledger.watermark()) {
      somebody_waits_for_commit = true;
      continue;
    }
    member.waits_for_commit = OpNumber(0);
    any = true;
  }
  return any;
}

bool ServerGroup::AnyPresent() const {
  return std::any_of(members.begin(), members.end(),
                     [](const Member& member) { return member.presence == Presence::kPresent; });
}

bool ServerGroup::AnyAbsent() const {
  return std::any_of(members.begin(), members.end(),
                     [](const Member& member) { return member.presence == Presence::kAbsent; });
}

bool ServerGroup::AnyMissing() const {
  return std::any_of(members.begin(), members.end(),
                     [](const Member& member) { return member.presence == Presence::kMissing; });
}

bool ServerGroup::AllSlotsIdle() const {
  return std::all_of(slots.begin(), slots.end(), [](const ChunkSlot& slot) { return slot.busy() == 0; });
}

}  // namespace shoal
