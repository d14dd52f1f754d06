#include "worker/machine/worker_op.h"

namespace shoal {

WorkerOp::WorkerOp(OpNumber number, const SubmitCommand& command, uint64_t first_position, uint32_t rotation,
                   size_t shard_count)
    : number_(number),
      command_(command),
      first_position_(first_position),
      rotation_(rotation),
      landed_(command.layout.chunk_count(), false),
      landings_({.last_ns = std::vector<uint64_t>(shard_count)}),
      wait_(command.submitted_ns, command.deadline_ns) {}

void WorkerOp::Deal(uint32_t rotation) {
  if (missing_ranks_.missing_count > 0) missing_before_move_ = missing_ranks_;
  rotation_ = rotation;
  missing_ranks_ = {};
  landings_ = {};
}

void WorkerOp::Land(ChunkNumber chunk, uint32_t shard, uint64_t now_ns) {
  landed_[chunk.value()] = true;
  if (!landings_.last_ns.empty()) {
    if (landings_.first_ns == 0) landings_.first_ns = now_ns;
    landings_.last_ns[shard] = now_ns;
  }
  ++chunks_landed_;
  while (first_missing_ < chunk_count() && landed_[first_missing_]) ++first_missing_;
}

void WorkerOp::NoteMissingRanks(const Waiting& missing, uint32_t shard, ChunkNumber chunk) {
  missing_ranks_ = missing;
  missing_before_move_ = {};
  missing_shard_ = shard;
  missing_chunk_ = chunk;
}

void WorkerOp::ForgetMissingRanks(uint32_t shard, ChunkNumber chunk) {
  if (missing_shard_ == shard && missing_chunk_ == chunk) missing_ranks_ = {};
  if (missing_chunk_ == chunk) missing_before_move_ = {};
}

}  // namespace shoal
