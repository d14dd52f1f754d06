#include "server/loop/inline_reducer.h"

#include <algorithm>
#include <utility>

namespace shoal {
namespace {

// A part of a job begins at a multiple of so many elements, which is aligned for every type.
constexpr uint64_t kStepElements = 64;

}  // namespace

void InlineReducer::Start(const ReduceJob& job) {
  if (job.group >= queues_.size()) queues_.resize(job.group + 1);
  Queue& queue = queues_[job.group];
  if (queue.jobs.empty()) waiting_.push_back(job.group);
  queue.jobs.push_back(job);
}

void InlineReducer::Work(uint64_t* budget_bytes) {
  while (*budget_bytes > 0 && !waiting_.empty()) {
    if (next_ >= waiting_.size()) next_ = 0;
    Queue& queue = queues_[waiting_[next_]];
    const uint64_t turn_bytes = waiting_.size() == 1 ? *budget_bytes : std::min(*budget_bytes, kTurnBytes);
    *budget_bytes -= std::min(*budget_bytes, TakeTurn(&queue, turn_bytes));
    if (queue.jobs.empty()) {
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(next_));
    } else {
      ++next_;
    }
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
  const uint64_t element_bytes = DataTypeSize(job.spec.dtype);
  const uint64_t row_bytes = element_bytes * job.inputs.size();
  const uint64_t allowed = std::max<uint64_t>(bytes / row_bytes / kStepElements, 1) * kStepElements;
  const uint64_t elements = std::min<uint64_t>(allowed, job.elements - queue->done_elements);
  const uint64_t offset = queue->done_elements * element_bytes;
  inputs_.clear();
  for (const std::byte* const input : job.inputs) inputs_.push_back(input + offset);
  Reduce(job.spec, inputs_, job.output + offset, elements);
  queue->done_elements += static_cast<uint32_t>(elements);
  if (queue->done_elements == job.elements) {
    done_.push_back(job.token);
    ++queue->first;
    queue->done_elements = 0;
  }
  return elements * row_bytes;
}

std::span<const uint64_t> InlineReducer::Poll() {
  polled_.clear();
  std::swap(polled_, done_);
  return polled_;
}

}  // namespace shoal
