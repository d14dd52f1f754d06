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

std::vector<ContributedRange> WorkerOp::ContributedRanges(ElementRange elements, uint32_t size) const {
  std::vector<ContributedRange> ranges;
  if (contributors_.empty()) {
    AddContributed({.first = elements.first, .count = elements.count, .contributors = size}, &ranges);
    return ranges;
  }
  const BucketPlan& plan = layout().plan();
  for (auto chunk = static_cast<uint32_t>(elements.first / plan.elements_per_chunk); chunk < chunk_count(); ++chunk) {
    const uint64_t first = plan.FirstElement(ChunkNumber(chunk));
    if (first >= elements.first + elements.count) break;
    AddContributed(
        {.first = first, .count = plan.ElementCount(ChunkNumber(chunk)), .contributors = contributors_[chunk]},
        &ranges);
  }
  return ranges;
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
