#include "scheduler/machine/save_queue.h"

#include <algorithm>
#include <utility>

namespace shoal::scheduler {

void SaveQueue::Hold(Consequence consequence) { held_.push_back({changes_, std::move(consequence)}); }

std::optional<Consequence> SaveQueue::TakeReleased() {
  if (held_.empty() || held_.front().change > saved_) return std::nullopt;
  Consequence consequence = std::move(held_.front().consequence);
  held_.pop_front();
  return consequence;
}

void SaveQueue::ForgetWatcher(WatcherId watcher) {
  std::erase_if(held_, [&](const Held& held) {
    const auto* added = std::get_if<AddWatcher>(&held.consequence);
    return added != nullptr && added->watcher == watcher;
  });
}

std::optional<uint64_t> SaveQueue::BeginSave(Now now) {
  if (all_saved() || save_under_way_ || now.monotonic_ns < save_not_before_ns_) return std::nullopt;
  save_under_way_ = true;
  return changes_;
}

bool SaveQueue::OnSaved(uint64_t number) {
  save_under_way_ = false;
  saved_ = std::max(saved_, number);
  return std::exchange(last_save_failed_, false);
}

std::vector<RequestHandle> SaveQueue::OnSaveFailed(uint64_t number, Now now) {
  save_under_way_ = false;
  last_save_failed_ = true;
  save_not_before_ns_ = now.monotonic_ns + kSaveRetryNs;
  std::vector<RequestHandle> handles;
  std::erase_if(held_, [&](const Held& held) {
    const auto* reply = std::get_if<Reply>(&held.consequence);
    if (reply == nullptr || held.change > number) return false;
    handles.push_back(reply->handle);
    return true;
  });
  return handles;
}

uint64_t SaveQueue::NextSaveNs() const { return all_saved() || save_under_way_ ? kNoDeadline : save_not_before_ns_; }

}  // namespace shoal::scheduler
