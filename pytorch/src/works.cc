#include "pytorch/src/works.h"

#include <algorithm>
#include <utility>

namespace shoal::pytorch {

Works::Works(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool Works::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
}

bool Works::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr Works::exception() const {
  for (const auto& work : works_) {
    if (std::exception_ptr found = work->exception()) return found;
  }
  return nullptr;
}

bool Works::wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  bool done = true;
  for (const auto& work : works_) {
    std::chrono::milliseconds left = kNoTimeout;
    if (timeout != kNoTimeout) {
      left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      left = std::max(left, std::chrono::milliseconds(1));
    }
    done = work->wait(left) && done;
  }
  return done;
}

void Works::synchronize() {
  for (const auto& work : works_) work->synchronize();
}

void Works::abort() {
  for (const auto& work : works_) work->abort();
}

}  // namespace shoal::pytorch
