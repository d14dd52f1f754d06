#include "server/loans.h"

#include <utility>

namespace shoal {

bool Loans::Take(OfferId offer, uint64_t offset) {
  const std::byte* const data = transport_->Borrow(offer);
  if (data == nullptr) return false;
  loans_[offset] = {.offer = offer, .data = data};
  return true;
}

std::span<const std::byte* const> Loans::StartJob(const ReduceAction& action, std::span<const std::byte> slot_memory) {
  std::unique_ptr<Job> job;
  if (free_jobs_.empty()) {
    job = std::make_unique<Job>();
  } else {
    job = std::move(free_jobs_.back());
    free_jobs_.pop_back();
  }
  job->inputs.clear();
  job->borrowed.clear();
  for (uint32_t i = 0; i < action.input_count; ++i) {
    const uint64_t offset = action.offset + i * action.stride_bytes;
    const auto loan = loans_.find(offset);
    if (loan == loans_.end()) {
      job->inputs.push_back(slot_memory.data() + offset);
      continue;
    }
    job->inputs.push_back(loan->second.data);
    job->borrowed.push_back(loan->second.offer);
    loans_.erase(loan);
  }
  return jobs_.insert_or_assign(action.token, std::move(job)).first->second->inputs;
}

void Loans::EndJob(uint64_t token) {
  const auto found = jobs_.find(token);
  if (found == jobs_.end()) return;
  for (const OfferId offer : found->second->borrowed) transport_->Return(offer);
  free_jobs_.push_back(std::move(found->second));
  jobs_.erase(found);
}

void Loans::Forget(uint64_t offset, uint64_t bytes) {
  absl::erase_if(loans_, [&](const auto& entry) {
    if (entry.first < offset || entry.first - offset >= bytes) return false;
    transport_->Return(entry.second.offer);
    return true;
  });
}

}  // namespace shoal
