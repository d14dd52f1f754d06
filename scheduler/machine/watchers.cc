#include "scheduler/machine/watchers.h"

namespace shoal::scheduler {

void Watchers::TellAll(const SendWatch& update, SchedulerActions* actions) const {
  for (const auto& [watcher, job] : jobs_) {
    SendWatch& sent = std::get<SendWatch>(actions->emplace_back(update));
    sent.watcher = watcher;
  }
}

void Watchers::TellJob(JobId job, const SendWatch& update, SchedulerActions* actions) const {
  for (const auto& [watcher, watched] : jobs_) {
    if (watched != job) continue;
    SendWatch& sent = std::get<SendWatch>(actions->emplace_back(update));
    sent.watcher = watcher;
  }
}

}  // namespace shoal::scheduler
