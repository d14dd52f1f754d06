#include "server/server_group.h"

#include <algorithm>

namespace shoal {
namespace {

uint64_t StrideBytes(uint32_t max_chunk_bytes) {
  return (uint64_t{max_chunk_bytes} + kChunkAlignmentBytes - 1) / kChunkAlignmentBytes * kChunkAlignmentBytes;
}

}  // namespace

ServerGroup::ServerGroup(const GroupToken& first_token, uint32_t credit_chunks, uint64_t slot_region)
    : members(first_token.group_size),
      slots(SlotCount(credit_chunks)),
      ledger(first_token.max_chunk_bytes),
      id_(first_token.group),
      job_(first_token.job),
      epoch_(first_token.epoch),
      max_chunk_bytes_(first_token.max_chunk_bytes),
      credit_chunks_(credit_chunks),
      slot_region_(slot_region),
      stride_bytes_(StrideBytes(first_token.max_chunk_bytes)) {
  for (ChunkSlot& slot : slots) slot.Size(first_token.group_size);
}

uint64_t ServerGroup::RegionBytes(uint32_t credit_chunks, uint32_t group_size, uint32_t max_chunk_bytes) {
  return uint64_t{SlotCount(credit_chunks)} * group_size * StrideBytes(max_chunk_bytes);
}

bool ServerGroup::Agrees(const GroupToken& token) const {
  return token.group == id_ && token.job == job_ && token.epoch == epoch_ && token.group_size == size() &&
         token.max_chunk_bytes == max_chunk_bytes_;
}

int ServerGroup::FindSlot(OpNumber op, ChunkNumber chunk) const {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].state() != ChunkSlot::State::kFree && slots[i].op() == op && slots[i].chunk() == chunk) {
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

bool ServerGroup::AnyPresent() const {
  return std::any_of(members.begin(), members.end(),
                     [](const Member& member) { return member.presence == Presence::kPresent; });
}

bool ServerGroup::AnyAbsent() const {
  return std::any_of(members.begin(), members.end(),
                     [](const Member& member) { return member.presence == Presence::kAbsent; });
}

bool ServerGroup::AllSlotsIdle() const {
  return std::all_of(slots.begin(), slots.end(), [](const ChunkSlot& slot) { return slot.busy() == 0; });
}

}  // namespace shoal
