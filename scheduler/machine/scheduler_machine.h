// The membership: which processes are members or lost, which shard map is in force, which groups may open.
//
// Pure: no clock, I/O, lock, log or randomness; time and random numbers (in the first state) are arguments. One thread.
// Each object below owns a piece of the state and answers the requests about it. This hands them events, and saves what
// they know. What others will rely on is saved first (decisions.h).
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/now.h"
#include "core/shard_map.h"
#include "scheduler/machine/decisions.h"
#include "scheduler/machine/group_ends.h"
#include "scheduler/machine/group_moves.h"
#include "scheduler/machine/group_opener.h"
#include "scheduler/machine/group_requests.h"
#include "scheduler/machine/group_rounds.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/lease_grace.h"
#include "scheduler/machine/rank_members.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_state.h"
#include "scheduler/machine/server_members.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

class SchedulerMachine {
 public:
  struct Settings {
    uint64_t lease_ttl_ms = 5000;
    uint64_t port_buffer_bytes = 0;    // of ports between nodes; 0: not known
    std::string store;                 // where the state is kept, in words
    std::string open_to_network = "";  // what everybody on the network may do, for its status; empty: nothing
    bool is_colocated = false;         // it runs inside a worker, and ends with a rank
    std::string leader = "";           // of several schedulers: where the others reach this one, which leads
    bool encrypt = false;              // what ranks and servers send each other
  };

  // Goes on from `state`. `is_new`: it was made up just now (cluster id and token key drawn, all else empty), so it is
  // saved before anything is answered. DataLoss: the state contradicts itself (says where).
  static absl::StatusOr<std::unique_ptr<SchedulerMachine>> Make(const Settings& settings, const PersistedState& state,
                                                                bool is_new, Now now);

  // Takes in one thing that happened, and appends what is to be done now to `actions`.
  void OnEvent(const RequestArrived& event, Now now, SchedulerActions* actions);
  void OnEvent(const RequestCancelled& event, Now now, SchedulerActions* actions);
  void OnEvent(const WatchOpened& event, Now now, SchedulerActions* actions);
  void OnEvent(const StreamClosed& event, Now now, SchedulerActions* actions);
  void OnEvent(const Persisted& event, Now now, SchedulerActions* actions);
  void OnEvent(const Observed& event, Now now, SchedulerActions* actions);

  // Does what time asks for. Call it after the events at hand and when NextDeadlineNs() has come; earlier is harmless.
  // Called much later than that (the process was stopped, the machine slept), it starts every lease anew, as it does
  // where its own network is broken (lease_grace.h).
  void Tick(Now now, SchedulerActions* actions);

  // On the monotonic clock; kNoDeadline: nothing is due.
  uint64_t NextDeadlineNs() const;

  // ---- for those who look on ----

  const JobRegistry& jobs() const { return jobs_; }
  const ServerRegistry& servers() const { return servers_; }
  const GroupRounds& rounds() const { return group_requests_.rounds(); }
  uint64_t lease_ttl_ns() const { return settings_.lease_ttl_ms * kNsPerMs; }
  // Of the cluster as it is now; what is not the membership's is not set.
  ClusterView Cluster(Now now) const;

 private:
  SchedulerMachine(const Settings& settings, const PersistedState& state, ServerRegistry servers,
                   std::shared_ptr<const ShardMap> map, bool is_new, Now now);

  PersistedState Snapshot() const;
  // The end of each step: what was decided goes out, and changes are saved.
  void HandOut(Now now, SchedulerActions* actions);

  const Settings settings_;
  const std::string cluster_id_;
  const TokenKey token_key_;
  const uint64_t started_at_unix_ms_;
  ServerRegistry servers_;
  JobRegistry jobs_;
  Decisions decisions_;
  LeaseGrace lease_grace_;
  GroupEnds group_ends_;
  GroupMoves group_moves_;
  GroupOpener group_opener_;
  GroupRequests group_requests_;
  ServerMembers server_members_;
  RankMembers rank_members_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_
