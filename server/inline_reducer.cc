#include "server/inline_reducer.h"

#include <utility>

namespace shoal {

void RunReduceJob(const ReduceJob& job, std::vector<const std::byte*>* inputs) {
  inputs->clear();
  for (uint32_t i = 0; i < job.input_count; ++i) inputs->push_back(job.first_input + i * job.stride_bytes);
  Reduce(job.spec, *inputs, job.first_input, job.elements);
}

void InlineReducer::Start(const ReduceJob& job) {
  RunReduceJob(job, &inputs_);
  done_.push_back(job.token);
}

std::span<const uint64_t> InlineReducer::Poll() {
  polled_.clear();
  std::swap(polled_, done_);
  return polled_;
}

}  // namespace shoal
