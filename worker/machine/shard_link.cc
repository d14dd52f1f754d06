#include "worker/machine/shard_link.h"

#include <algorithm>
#include <utility>

#include "core/op_ledger.h"

namespace shoal {

void ShardLink::Greet(OpNumber landed_watermark) {
  state_ = State::kGreeted;
  told_watermark_ = landed_watermark;
}

void ShardLink::Welcome(uint32_t credit, std::shared_ptr<StagingMemory> staging) {
  state_ = State::kWelcomed;
  staging_ = std::move(staging);
  window_.Open(credit);
  cells_.assign(credit, {});
  newest_.assign(credit, {});
}

void ShardLink::Lose(std::string why) {
  state_ = State::kLost;
  lost_because_ = std::move(why);
}

bool ShardLink::TakeReport(bool reachable) {
  if (!lost() || (reported_ && !reachable)) return false;
  reported_ = true;
  return true;
}

bool ShardLink::TakeCut() { return !std::exchange(cut_, true); }

bool ShardLink::TakeCommitQuestion(OpNumber landed_watermark) {
  if (!welcomed() || std::exchange(asked_about_commit_, true)) return false;
  told_watermark_ = landed_watermark;
  return true;
}

bool ShardLink::TakeWatermark(OpNumber landed_watermark) {
  if (!welcomed() || told_watermark_ >= landed_watermark) return false;
  told_watermark_ = landed_watermark;
  return true;
}

bool ShardLink::FindNext(uint32_t shard, const ShardMap& map, const OpQueue& ops, OpNumber commit_watermark) {
  if (next_known_) return true;
  if (next_.op < ops.first()) next_ = {.op = ops.first()};
  const std::vector<uint32_t>& table = map.deal_table();
  while (MayPushOp(next_.op, commit_watermark)) {
    const WorkerOp* op = ops.Find(next_.op);
    if (op == nullptr) return false;
    uint32_t chunk = next_.chunk.value();
    for (; chunk < op->chunk_count(); ++chunk) {
      if (table[(uint64_t{op->rotation()} + chunk) % table.size()] != shard || op->HasLanded(ChunkNumber(chunk))) {
        continue;
      }
      next_.chunk = ChunkNumber(chunk);
      next_known_ = true;
      return true;
    }
    next_ = {.op = OpNumber(next_.op.value() + 1)};
  }
  return false;
}

std::optional<ChunkPlace> ShardLink::OldestInFlight() const {
  if (window_.Empty()) return std::nullopt;
  return cells_[window_.oldest() % window_.credit()].place();
}

uint16_t ShardLink::Push(OpNumber landed_watermark) {
  const uint64_t position = window_.Push();
  const auto cell = static_cast<uint16_t>(position % window_.credit());
  cells_[cell] = ChunkInFlight(next_, position);
  next_known_ = false;
  next_.chunk = ChunkNumber(next_.chunk.value() + 1);
  told_watermark_ = landed_watermark;
  return cell;
}

std::optional<uint16_t> ShardLink::FindCell(ChunkPlace place) const {
  const auto found =
      std::find_if(cells_.begin(), cells_.end(), [place](const ChunkInFlight& chunk) { return chunk.Is(place); });
  if (found == cells_.end()) return std::nullopt;
  return static_cast<uint16_t>(found - cells_.begin());
}

bool ShardLink::HoldsChunkOf(OpNumber op) const {
  return std::any_of(cells_.begin(), cells_.end(), [op](const ChunkInFlight& chunk) { return chunk.IsOf(op); });
}

bool ShardLink::CopiesChunkOf(OpNumber op) const {
  return std::any_of(cells_.begin(), cells_.end(),
                     [op](const ChunkInFlight& chunk) { return chunk.IsOf(op) && chunk.copying(); });
}

bool ShardLink::SendsChunkOf(OpNumber op) const {
  return std::any_of(cells_.begin(), cells_.end(),
                     [op](const ChunkInFlight& chunk) { return chunk.IsOf(op) && !chunk.copying(); });
}

void ShardLink::Finish(uint16_t cell) {
  cells_[cell].Free();
  window_.Finish(cells_[cell].position());
}

std::vector<OfferId> ShardLink::DropHeld() {
  std::vector<OfferId> dropped;
  for (ChunkInFlight& chunk : cells_) {
    const OfferId offer = chunk.DropHeld();
    if (chunk.open() && offer != OfferId(0)) dropped.push_back(offer);
  }
  return dropped;
}

bool ShardLink::HoldsMemory() const {
  return std::any_of(cells_.begin(), cells_.end(), [](const ChunkInFlight& chunk) { return chunk.HoldsMemory(); });
}

bool ShardLink::IsInTransport() const {
  return std::any_of(cells_.begin(), cells_.end(), [](const ChunkInFlight& chunk) { return chunk.IsInTransport(); });
}

bool ShardLink::ResultMayBeInTensor() const {
  return std::any_of(cells_.begin(), cells_.end(),
                     [](const ChunkInFlight& chunk) { return chunk.ResultMayBeInTensor(); });
}

bool ShardLink::ReadsTensor(ChunkPlace place) const {
  return std::any_of(cells_.begin(), cells_.end(),
                     [place](const ChunkInFlight& chunk) { return chunk.Is(place) && chunk.ReadsTensor(); });
}

}  // namespace shoal
