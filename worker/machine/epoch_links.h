// The links of a group in one epoch, one for each shard of that epoch's map. They decide which chunk is pushed next,
// when and to whom.
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
#include "worker/machine/device_copy.h"
#include "worker/machine/op_queue.h"
#include "worker/machine/operation_token.h"
#include "worker/machine/shard_link.h"

namespace shoal {

class EpochLinks {
 public:
  // `generation` tells links of one group handle apart, also of groups that had the handle before. `first`: the first
  // op that may have chunks to push.
  EpochLinks(GroupHandle group, uint16_t generation, std::shared_ptr<const ShardMap> map, OpNumber first,
             Connections* connections);

  const ShardMap& map() const { return *map_; }
  Epoch epoch() const { return map_->epoch(); }
  uint16_t generation() const { return generation_; }

  // These tokens name a cell of a link in what is under way for it.
  uint64_t OperationOf(uint32_t shard, uint16_t cell) const {
    return OperationToken{group_.value(), generation_, static_cast<uint16_t>(shard), cell}.Pack();
  }
  DeviceCopyToken CopyOf(DeviceCopyKind kind, uint32_t shard, uint16_t cell, OpNumber op) const {
    return {group_, kind, generation_, static_cast<uint16_t>(shard), cell, op};
  }

  uint32_t size() const { return static_cast<uint32_t>(links_.size()); }
  ShardLink& operator[](uint32_t shard) { return links_[shard]; }
  const ShardLink& operator[](uint32_t shard) const { return links_[shard]; }
  std::vector<ShardLink>::iterator begin() { return links_.begin(); }
  std::vector<ShardLink>::iterator end() { return links_.end(); }
  std::vector<ShardLink>::const_iterator begin() const { return links_.begin(); }
  std::vector<ShardLink>::const_iterator end() const { return links_.end(); }
  // The shard that is reached over a connection; nullopt: none is.
  std::optional<uint32_t> FindShard(uint32_t connection) const;

  // A chunk that is pushed.
  struct Turn {
    uint32_t shard = 0;
    uint16_t cell = 0;
    uint8_t in_flight = 0;  // as in PushPace
  };
  // The chunk to push now, which has a cell from then on: the next one of all shards in the order that all ranks share.
  // nullopt: nothing may be pushed now, because links have no credit left or no chunks, their next chunks are not there
  // yet, or the chunk is too far ahead of the oldest unfinished one (core/flow_plan.h; `look_ahead_chunks` 0: that does
  // not bound).
  std::optional<Turn> TakeTurn(const OpQueue& ops, OpNumber commit_watermark, uint32_t look_ahead_chunks);

  // The group needs no connection of these links any more, if the present one ends.
  void StopWanting();

  // Of each a hello went out, or it was lost.
  bool AllGreeted() const;
  bool AllWelcomed() const;
  // The transport, or a copy, reads or writes memory for one of them.
  bool HoldsMemory() const;
  // A result is written to a tensor, or may be.
  bool ResultMayBeInTensor() const;

 private:
  // The shard has a chunk that is to be pushed; it is the link's next().
  bool FindNext(uint32_t shard, const OpQueue& ops, OpNumber commit_watermark) {
    return links_[shard].FindNext(shard, *map_, ops, commit_watermark);
  }
  // The shard has such a chunk, and its contribution is there.
  bool HasReady(uint32_t shard, const OpQueue& ops, OpNumber commit_watermark);
  // The shard whose chunk TakeTurn takes.
  std::optional<uint32_t> FindNextShard(const OpQueue& ops, OpNumber commit_watermark, uint32_t look_ahead_chunks);
  // In the order that all ranks share, of the first chunk whose result has not landed; UINT64_MAX: there is none.
  uint64_t OldestUnfinished(const OpQueue& ops, OpNumber commit_watermark);

  GroupHandle group_;
  std::shared_ptr<const ShardMap> map_;
  uint16_t generation_;
  std::vector<ShardLink> links_;  // by shard of the map
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_EPOCH_LINKS_H_
