#include "server/loop/loans.h"

#include <algorithm>
#include <utility>

namespace shoal {

Loans::~Loans() {
  std::vector<OfferId> offers;
  for (const auto& [offset, loan] : loans_) offers.push_back(loan.offer);
  for (const auto& [token, job] : jobs_) offers.insert(offers.end(), job->borrowed.begin(), job->borrowed.end());
  ReturnInOrder(std::move(offers));
}

bool Loans::Take(OfferId offer, uint64_t offset) {
  const std::byte* const data = lender_ == nullptr ? nullptr : lender_->Borrow(offer);
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
  for (const OfferId offer : found->second->borrowed) lender_->Return(offer);
  free_jobs_.push_back(std::move(found->second));
  jobs_.erase(found);
}

void Loans::Forget(uint64_t offset, uint64_t bytes) {
  std::vector<OfferId> offers;
  absl::erase_if(loans_, [&](const auto& entry) {
    if (entry.first < offset || entry.first - offset >= bytes) return false;
    offers.push_back(entry.second.offer);
    return true;
  });
  ReturnInOrder(std::move(offers));
}

void Loans::ReturnInOrder(std::vector<OfferId> offers) {
  std::sort(offers.begin(), offers.end());
  for (const OfferId offer : offers) lender_->Return(offer);
}

}  // namespace shoal
