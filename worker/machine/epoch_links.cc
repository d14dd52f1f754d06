#include "worker/machine/epoch_links.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

uint64_t PositionOf(ChunkPlace place, const OpQueue& ops) {
  return ops.Find(place.op)->first_position() + place.chunk.value();
}

}  // namespace

EpochLinks::EpochLinks(GroupHandle group, uint16_t generation, std::shared_ptr<const ShardMap> map, OpNumber first,
                       Connections* connections)
    : group_(group), map_(std::move(map)), generation_(generation) {
  links_.reserve(map_->shards().size());
  for (const Shard& shard : map_->shards()) {
    links_.emplace_back(connections->Find(shard.address, shard.server_name), first);
  }
}

std::optional<uint32_t> EpochLinks::FindShard(uint32_t connection) const {
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    if (links_[shard].connection() == connection) return shard;
  }
  return std::nullopt;
}

uint64_t EpochLinks::OldestUnfinished(const OpQueue& ops, OpNumber commit_watermark) {
  uint64_t oldest = UINT64_MAX;
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    if (const std::optional<ChunkPlace> place = links_[shard].OldestInFlight(); place.has_value()) {
      oldest = std::min(oldest, PositionOf(*place, ops));
    } else if (FindNext(shard, ops, commit_watermark)) {
      oldest = std::min(oldest, PositionOf(links_[shard].next(), ops));
    }
  }
  return oldest;
}

std::optional<uint32_t> EpochLinks::FindNextShard(const OpQueue& ops, OpNumber commit_watermark,
                                                  uint32_t look_ahead_chunks) {
  std::optional<uint32_t> best;
  for (uint32_t shard = 0; shard < links_.size(); ++shard) {
    if (!links_[shard].CanPush() || !HasReady(shard, ops, commit_watermark)) continue;
    if (!best.has_value() || links_[shard].next() < links_[*best].next()) best = shard;
  }
  // The rest of the links are further ahead.
  if (!best.has_value() || look_ahead_chunks == 0) return best;
  const uint64_t ahead = PositionOf(links_[*best].next(), ops) - OldestUnfinished(ops, commit_watermark);
  return ahead < look_ahead_chunks ? best : std::nullopt;
}

bool EpochLinks::HasReady(uint32_t shard, const OpQueue& ops, OpNumber commit_watermark) {
  if (!FindNext(shard, ops, commit_watermark)) return false;
  const ChunkPlace next = links_[shard].next();
  return ops.Find(next.op)->IsReady(next.chunk);
}

std::optional<EpochLinks::Turn> EpochLinks::TakeTurn(const OpQueue& ops, OpNumber commit_watermark,
                                                     uint32_t look_ahead_chunks) {
  const std::optional<uint32_t> shard = FindNextShard(ops, commit_watermark, look_ahead_chunks);
  if (!shard.has_value()) return std::nullopt;
  Turn turn = {.shard = *shard, .cell = links_[*shard].Push(ops.landed_watermark())};
  if (HasReady(*shard, ops, commit_watermark)) {
    uint64_t in_flight = 0;
    for (const ShardLink& link : links_) in_flight += link.in_flight();
    turn.in_flight = static_cast<uint8_t>(std::min<uint64_t>(in_flight, UINT8_MAX));
  }
  return turn;
}

void EpochLinks::StopWanting() {
  for (ShardLink& link : links_) link.StopWanting();
}

bool EpochLinks::AllGreeted() const {
  return std::all_of(links_.begin(), links_.end(), [](const ShardLink& link) { return link.greeted(); });
}

bool EpochLinks::AllWelcomed() const {
  return std::all_of(links_.begin(), links_.end(), [](const ShardLink& link) { return link.welcomed(); });
}

bool EpochLinks::HoldsMemory() const {
  return std::any_of(links_.begin(), links_.end(), [](const ShardLink& link) { return link.HoldsMemory(); });
}

bool EpochLinks::ResultMayBeInTensor() const {
  return std::any_of(links_.begin(), links_.end(), [](const ShardLink& link) { return link.ResultMayBeInTensor(); });
}

}  // namespace shoal
