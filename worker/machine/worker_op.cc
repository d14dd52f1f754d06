#include "worker/machine/worker_op.h"

#include <algorithm>

namespace shoal {

WorkerOp::WorkerOp(OpNumber number, const SubmitCommand& command, uint64_t first_position, uint32_t rotation)
    : number_(number),
      command_(command),
      first_position_(first_position),
      rotation_(rotation),
      landed_(command.layout.chunk_count(), false),
      wait_(command.submitted_ns, command.deadline_ns) {}

FrameHeader WorkerOp::HeaderOf(ChunkNumber chunk) const {
  FrameHeader header;
  header.op = number_;
  header.bucket_elements = layout().element_count();
  header.first_element = layout().plan().FirstElement(chunk);
  header.chunk_elements = layout().plan().ElementCount(chunk);
  header.chunk = chunk;
  header.codec = layout().codec();
  header.reduce_op = command_.reduce_op;
  header.premul_factor = command_.premul_factor;
  return header;
}

void WorkerOp::Deal(uint32_t rotation) {
  if (missing_ranks_.missing_count > 0) missing_before_move_ = missing_ranks_;
  rotation_ = rotation;
  missing_ranks_ = {};
}

void WorkerOp::Land(ChunkNumber chunk, uint64_t now_ns) {
  NoteProgress(now_ns);
  landed_[chunk.value()] = true;
  ++chunks_landed_;
  while (first_missing_ < chunk_count() && landed_[first_missing_]) ++first_missing_;
}

void WorkerOp::NoteContributors(ChunkNumber chunk, uint32_t contributors, uint32_t size) {
  if (contributors_.empty()) {
    if (contributors == size) return;
    contributors_.assign(chunk_count(), size);
  }
  contributors_[chunk.value()] = contributors;
}

Contributors WorkerOp::ContributorsOf(uint32_t size) const {
  if (contributors_.empty()) return {.least = size, .most = size};
  const auto [least, most] = std::ranges::minmax(contributors_);
  return {.least = least, .most = most};
}

bool WorkerOp::ContributedRanges(uint32_t size, std::vector<ContributedRange>* ranges) const {
  ranges->clear();
  for (ChunkNumber chunk(0); chunk.value() < chunk_count(); chunk = ChunkNumber(chunk.value() + 1)) {
    const uint32_t contributors = ContributorsOf(chunk, size);
    if (ranges->empty() || ranges->back().contributors != contributors) {
      if (ranges->size() == kMostContributedRanges) return false;
      ranges->push_back({.first = layout().plan().FirstElement(chunk), .contributors = contributors});
    }
    ranges->back().count += layout().plan().ElementCount(chunk);
  }
  return true;
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
