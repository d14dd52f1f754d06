#include "server/loop/inline_reducer.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

// A part of a job begins at a multiple of so many elements, which is aligned for every codec.
constexpr uint64_t kStepElements = WireCodec::kMaxAlignmentElements;

}  // namespace

bool InlineReducer::TurnComesLater(const Waiting& a, const Waiting& b) {
  return a.read_bytes != b.read_bytes ? a.read_bytes > b.read_bytes : a.number < b.number;
}

void InlineReducer::Start(const ReduceJob& job) {
  if (job.group >= queues_.size()) queues_.resize(job.group + 1);
  Queue& queue = queues_[job.group];
  queue.jobs.push_back(job);
  if (queue.jobs.size() > 1) return;
  queue.read_bytes = std::max(queue.read_bytes, turn_began_at_bytes_);
  Wait(job.group);
}

void InlineReducer::Wait(uint32_t group) {
  waiting_.push_back({.read_bytes = queues_[group].read_bytes, .number = ++waited_, .group = group});
  std::push_heap(waiting_.begin(), waiting_.end(), TurnComesLater);
}

void InlineReducer::Work(uint64_t* budget_bytes) {
  const size_t done_before = done_.size();
  while (*budget_bytes > 0 && !waiting_.empty() && done_.size() == done_before) {
    std::pop_heap(waiting_.begin(), waiting_.end(), TurnComesLater);
    const Waiting next = waiting_.back();
    waiting_.pop_back();
    turn_began_at_bytes_ = next.read_bytes;
    Queue& queue = queues_[next.group];
    const uint64_t read_bytes =
        TakeTurn(&queue, waiting_.empty() ? *budget_bytes : std::min(*budget_bytes, kTurnBytes));
    *budget_bytes -= std::min(*budget_bytes, read_bytes);
    queue.read_bytes += read_bytes;
    // Where nobody else waited it owes nobody what it read.
    if (waiting_.empty()) turn_began_at_bytes_ = queue.read_bytes;
    if (!queue.jobs.empty()) Wait(next.group);
  }
}

uint64_t InlineReducer::TakeTurn(Queue* queue, uint64_t bytes) {
  uint64_t read_bytes = 0;
  while (read_bytes < bytes && queue->first < queue->jobs.size()) read_bytes += SumPart(queue, bytes - read_bytes);
  if (queue->first == queue->jobs.size()) {
    queue->jobs.clear();
    queue->first = 0;
  } else if (2 * queue->first > queue->jobs.size()) {
    queue->jobs.erase(queue->jobs.begin(), queue->jobs.begin() + static_cast<ptrdiff_t>(queue->first));
    queue->first = 0;
  }
  return read_bytes;
}

uint64_t InlineReducer::SumPart(Queue* queue, uint64_t bytes) {
  const ReduceJob& job = queue->jobs[queue->first];
  const WireCodec codec = job.spec.codec;
  const uint64_t step_bytes = codec.WireBytes(kStepElements) * job.inputs.size();
  const uint64_t allowed = std::max<uint64_t>(bytes / step_bytes, 1) * kStepElements;
  const uint64_t elements = std::min<uint64_t>(allowed, job.elements - queue->done_elements);
  const uint64_t offset = codec.WireBytes(queue->done_elements);
  inputs_.clear();
  for (const std::byte* const input : job.inputs) inputs_.push_back(input + offset);
  Reduce(job.spec, inputs_, job.output + offset, elements);
  queue->done_elements += static_cast<uint32_t>(elements);
  if (queue->done_elements == job.elements) {
    done_.push_back(job.token);
    ++queue->first;
    queue->done_elements = 0;
  }
  return codec.WireBytes(elements) * job.inputs.size();
}

std::span<const uint64_t> InlineReducer::Poll() {
  polled_.clear();
  std::swap(polled_, done_);
  return polled_;
}

}  // namespace shoal
