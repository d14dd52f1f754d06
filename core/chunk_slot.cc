#include "core/chunk_slot.h"

namespace shoal {

void ChunkSlot::Size(uint32_t group_size) {
  expected_ = group_size;
  offered_.assign(group_size, false);
  landed_.assign(group_size, false);
  is_result_.assign(group_size, false);
}

void ChunkSlot::Start(OpNumber op, ChunkNumber chunk, uint64_t now_ns) {
  state_ = State::kGathering;
  abandoned_ = false;
  op_ = op;
  chunk_ = chunk;
  since_ns_ = now_ns;
  landed_count_ = 0;
  contributors_ = expected_;
  offered_.assign(offered_.size(), false);
  landed_.assign(landed_.size(), false);
  is_result_.assign(is_result_.size(), false);
}

Refusal ChunkSlot::Offer(Rank rank, bool is_result) {
  if (state_ != State::kGathering || abandoned_ || offered_[rank.value()]) return Refusal::kDuplicate;
  offered_[rank.value()] = true;
  is_result_[rank.value()] = is_result;
  ++busy_;
  return Refusal::kNone;
}

bool ChunkSlot::Landed(Rank rank, bool ok) {
  --busy_;
  if (abandoned_) {
    FreeIfIdle();
    return false;
  }
  if (!ok) {
    offered_[rank.value()] = false;
    is_result_[rank.value()] = false;
    return false;
  }
  landed_[rank.value()] = true;
  if (++landed_count_ < expected_) return false;
  state_ = State::kReducing;
  ++busy_;  // the reducer's
  return true;
}

void ChunkSlot::StartReplies(uint32_t replies) {
  --busy_;
  if (abandoned_) {
    FreeIfIdle();
    return;
  }
  state_ = State::kReplying;
  busy_ += replies;
}

bool ChunkSlot::ReplySent() {
  --busy_;
  if (busy_ > 0) return false;
  state_ = State::kFree;
  return true;
}

void ChunkSlot::Abandon() {
  abandoned_ = true;
  FreeIfIdle();
}

void ChunkSlot::FreeIfIdle() {
  if (busy_ == 0) state_ = State::kFree;
}

}  // namespace shoal
