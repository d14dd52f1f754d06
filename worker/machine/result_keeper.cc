#include "worker/machine/result_keeper.h"

#include <algorithm>
#include <utility>

#include "worker/machine/operation_token.h"

namespace shoal {

bool ResultKeeper::NoteLanded(ChunkPlace landed) {
  newest_result_ = std::max(newest_result_, landed.op);
  if (landed <= settle_until_) {
    unproven_.push_back(landed);
    return false;
  }
  return true;
}

void ResultKeeper::LeaveEpoch(const EpochLinks& links, const OpQueue& ops) {
  for (const ShardLink& link : links) {
    for (const ChunkPlace& place : link.newest()) {
      const WorkerOp* op = ops.Find(place.op);
      if (op != nullptr && !op->results_kept()) unproven_.push_back(place);
    }
  }
  settle_until_ = newest_pushed_;
}

std::span<const ChunkNumber> ResultKeeper::TakeUnproven(OpNumber op, const EpochLinks& links) {
  taken_.clear();
  std::erase_if(unproven_, [&](const ChunkPlace& place) {
    if (place.op != op) return false;
    taken_.push_back(place.chunk);
    return true;
  });
  for (const ShardLink& link : links) {
    for (const ChunkPlace& place : link.newest()) {
      if (place.op == op) taken_.push_back(place.chunk);
    }
  }
  return taken_;
}

void ResultKeeper::Commit(OpNumber watermark) {
  if (watermark <= commit_watermark_) return;
  commit_watermark_ = watermark;
  retained_.Commit(watermark);
}

std::optional<uint16_t> ResultKeeper::StartHandOver(HandOver hand_over) {
  const auto free =
      std::find_if(hand_overs_.begin(), hand_overs_.end(), [](const HandOver& each) { return each.memory == nullptr; });
  const auto index = static_cast<size_t>(free - hand_overs_.begin());
  if (index >= OperationToken::kHandOver) return std::nullopt;
  if (free == hand_overs_.end()) hand_overs_.emplace_back();
  hand_overs_[index] = std::move(hand_over);
  return static_cast<uint16_t>(index);
}

void ResultKeeper::EndHandOver(uint16_t index) {
  HandOver ended = std::exchange(hand_overs_[index], {});
  retained_.GiveMemory(std::move(ended.memory));
}

bool ResultKeeper::HandsOver() const {
  return std::any_of(hand_overs_.begin(), hand_overs_.end(),
                     [](const HandOver& each) { return each.memory != nullptr; });
}

void ResultKeeper::ForEachHandOver(absl::FunctionRef<void(uint32_t)> each) const {
  for (const HandOver& hand_over : hand_overs_) {
    if (hand_over.memory != nullptr && hand_over.is_in_transport) each(hand_over.connection.index());
  }
}

}  // namespace shoal
