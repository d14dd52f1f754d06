#include "server/loop/inline_reducer.h"

#include <utility>

namespace shoal {

void InlineReducer::Start(const ReduceJob& job) {
  Reduce(job.spec, job.inputs, job.output, job.elements);
  done_.push_back(job.token);
}

std::span<const uint64_t> InlineReducer::Poll() {
  polled_.clear();
  std::swap(polled_, done_);
  return polled_;
}

}  // namespace shoal
