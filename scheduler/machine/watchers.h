// The open streams on which processes follow the shard map and their job. Pure; one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_WATCHERS_H_
#define SHOAL_SCHEDULER_MACHINE_WATCHERS_H_

#include <map>

#include "core/ids.h"
#include "scheduler/machine/scheduler_actions.h"

namespace shoal::scheduler {

class Watchers {
 public:
  // `job`: the one that it follows beside the shard map; 0: none.
  void Add(WatcherId watcher, JobId job) { jobs_[watcher] = job; }
  void Remove(WatcherId watcher) { jobs_.erase(watcher); }

  // Sends the update to every watcher, or to those of the job. The update's own `watcher` does not count.
  void TellAll(const SendWatch& update, SchedulerActions* actions) const;
  void TellJob(JobId job, const SendWatch& update, SchedulerActions* actions) const;

 private:
  std::map<WatcherId, JobId> jobs_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_WATCHERS_H_
