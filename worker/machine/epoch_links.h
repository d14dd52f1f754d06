// The links of a group in one epoch: one for each shard of that epoch's map.
//
// One thread.
#ifndef SHOAL_WORKER_MACHINE_EPOCH_LINKS_H_
#define SHOAL_WORKER_MACHINE_EPOCH_LINKS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "core/shard_map.h"
#include "worker/machine/connections.h"
#include "worker/machine/op_queue.h"
#include "worker/machine/shard_link.h"

namespace shoal {

class EpochLinks {
 public:
  // `generation` tells links of one group handle apart, also of groups that had the handle before. `first`: the first
  // op that may have chunks to push.
  EpochLinks(std::shared_ptr<const ShardMap> map, uint16_t generation, OpNumber first, Connections* connections);

  const ShardMap& map() const { return *map_; }
  Epoch epoch() const { return map_->epoch(); }
  uint16_t generation() const { return generation_; }

  uint32_t size() const { return static_cast<uint32_t>(links_.size()); }
  ShardLink& operator[](uint32_t shard) { return links_[shard]; }
  const ShardLink& operator[](uint32_t shard) const { return links_[shard]; }
  std::vector<ShardLink>::iterator begin() { return links_.begin(); }
  std::vector<ShardLink>::iterator end() { return links_.end(); }
  std::vector<ShardLink>::const_iterator begin() const { return links_.begin(); }
  std::vector<ShardLink>::const_iterator end() const { return links_.end(); }
  // The shard that is reached over a connection; nullopt: none is.
  std::optional<uint32_t> FindShard(uint32_t connection) const;

  // The shard whose next chunk is first in the order that all ranks share; nullopt: nothing may be pushed now, because
  // links have no credit left or no chunks, their next chunks are not there yet, or the chunk is too far ahead of the
  // oldest unfinished one (core/flow_plan.h; `look_ahead_chunks` 0: that does not bound).
  std::optional<uint32_t> FindNextShard(const OpQueue& ops, OpNumber commit_watermark, uint32_t look_ahead_chunks);

  // A chunk for the shard is there to be pushed, now or when credit and look-ahead allow.
  bool HasNext(uint32_t shard, const OpQueue& ops, OpNumber commit_watermark);
  // The group needs no connection of these links any more, if the present one ends.
  void StopWanting();
  // Chunks on all links.
  uint64_t InFlight() const;

  // Of each a hello went out, or it was lost.
  bool AllGreeted() const;
  bool AllWelcomed() const;
  // The transport, or a copy, reads or writes memory for one of them.
  bool HoldsMemory() const;
  // A result is written to a tensor, or may be.
  bool ResultMayBeInTensor() const;

 private:
  bool FindNext(uint32_t shard, const OpQueue& ops, OpNumber commit_watermark) {
    return links_[shard].FindNext(shard, *map_, ops, commit_watermark);
  }
  // In the order that all ranks share, of the first chunk whose result has not landed; UINT64_MAX: there is none.
  uint64_t OldestUnfinished(const OpQueue& ops, OpNumber commit_watermark);

  std::shared_ptr<const ShardMap> map_;
  uint16_t generation_;
  std::vector<ShardLink> links_;  // by shard of the map
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_EPOCH_LINKS_H_
