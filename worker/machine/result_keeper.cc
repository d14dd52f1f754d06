#include "worker/machine/result_keeper.h"

#include <algorithm>
#include <utility>

#include "worker/machine/operation_token.h"

namespace shoal {

FrameHeader ResultKeeper::HeaderOfResult(const WorkerOp& op, ChunkNumber chunk) const {
  FrameHeader header = op.HeaderOf(chunk);
  header.contributors = op.ContributorsOf(chunk, group_size_);
  return header;
}

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
  std::erase_if(retained_, [&](Result& result) {
    if (result.header.op > watermark) return false;
    staging_.GiveChunk(std::move(result.memory));
    return true;
  });
}

absl::Status ResultKeeper::Keep(WorkerOp* op, const EpochLinks& links, WorkerActions* actions) {
  for (const ChunkNumber chunk : TakeUnproven(op->number(), links)) {
    absl::StatusOr<std::shared_ptr<StagingMemory>> memory = staging_.TakeChunk(op->on_device());
    if (!memory.ok()) return memory.status();
    const DeviceCopyToken token = links.CopyOf(DeviceCopyKind::kKept, /*shard=*/0, /*cell=*/0, op->number());
    if (!GroupStaging::FromTensor(token, *op, chunk, *memory, /*place=*/0, actions)) op->StartOperation();
    retained_.push_back({HeaderOfResult(*op, chunk), *std::move(memory)});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<uint16_t>> ResultKeeper::OnAsk(WorkerOp* op, ChunkPlace place, uint32_t shard,
                                                            const EpochLinks& links, WorkerActions* actions) {
  if (op == nullptr || op->reported()) {
    // Its memory is the caller's again.
    const auto kept = std::find_if(retained_.begin(), retained_.end(), [&](const Result& result) {
      return result.header.op == place.op && result.header.chunk == place.chunk;
    });
    if (kept == retained_.end()) return std::nullopt;
    return StartHandOver(
        {.memory = kept->memory, .connection = links[shard].UseOfConnection(), .header = kept->header});
  }
  // What has not landed is pushed as contribution, or was.
  if (place.chunk.value() >= op->chunk_count() || !op->HasLanded(place.chunk)) return std::nullopt;
  const absl::StatusOr<std::shared_ptr<StagingMemory>> memory = staging_.TakeChunk(op->on_device());
  if (!memory.ok()) return memory.status();
  const std::optional<uint16_t> index = StartHandOver(
      {.memory = *memory, .connection = links[shard].UseOfConnection(), .header = HeaderOfResult(*op, place.chunk)});
  if (!index.has_value()) return std::nullopt;
  const DeviceCopyToken token = links.CopyOf(DeviceCopyKind::kHandOver, shard, *index, place.op);
  if (GroupStaging::FromTensor(token, *op, place.chunk, *memory, /*place=*/0, actions)) return index;
  op->StartOperation();
  return std::nullopt;
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
  staging_.GiveChunk(std::move(ended.memory));
}

bool ResultKeeper::HandsOver() const {
  return std::any_of(hand_overs_.begin(), hand_overs_.end(),
                     [](const HandOver& each) { return each.memory != nullptr; });
}

void ResultKeeper::ForEachHandOver(absl::FunctionRef<void(PeerId)> each) const {
  for (const HandOver& hand_over : hand_overs_) {
    if (hand_over.memory != nullptr && hand_over.is_in_transport) each(hand_over.connection.peer());
  }
}

}  // namespace shoal
