// Who keeps the ops of a job waiting: here alone it is decided which ranks and servers are late, and why. Pure; one
// thread.
//
// Servers tell which ranks they waited for, ranks tell which servers they waited for and for how long they were away.
// SlowRanks and SlowServers weigh that up; what is slow about a server's node is told as that of the rank there.
#ifndef SHOAL_SCHEDULER_INSIGHT_STRAGGLERS_H_
#define SHOAL_SCHEDULER_INSIGHT_STRAGGLERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "scheduler/insight/slow_ranks.h"
#include "scheduler/insight/slow_servers.h"
#include "scheduler/machine/job.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxNews = 16;  // of a job, for its rank 0; older ones go

class Stragglers {
 public:
  // Ranks of a group waited for one of them at a server. Says nothing of a group that has moved since, of a server that
  // it does not use, or with numbers that can't be. Members send a heartbeat every `heartbeat_ns`.
  void OnRankLate(const Job& job, const ServerState& server, const LateRankReport& late, uint64_t heartbeat_ns,
                  Now now);
  // For how long the rank was away, and for which servers it waits, of groups of its own in their present epochs.
  void OnHeartbeat(const Job& job, const HeartbeatWorker& request, uint64_t heartbeat_ns, Now now);
  // It left or was lost. `is_last`: nobody waits any more.
  void Forget(JobRank rank, bool is_last);

  // Records what has changed, and leaves lines for the job's rank 0. It is cheap to call it often.
  void Judge(const Job& job, const ServerRegistry& servers, uint64_t heartbeat_ns, Now now, SchedulerActions* actions);
  std::vector<SlowRank> slow_ranks() const { return ranks_.slow(); }
  std::vector<SlowServer> slow_servers() const { return servers_.slow(); }
  // Lines that the job's rank 0 is to be told.
  std::vector<std::string> TakeNews();

 private:
  // With the other servers of its weight in the group.
  ServerComparison Compare(const Job& job, const ServerRegistry& servers, const GroupState& group, ServerId id) const;
  void AddNews(std::string line);

  SlowRanks ranks_;
  SlowServers servers_;
  uint64_t next_judge_ns_ = 0;
  std::deque<std::string> news_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_STRAGGLERS_H_
