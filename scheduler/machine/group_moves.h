// Moves open groups from server to server, and publishes the map of the servers. Pure; one thread.
//
// Ranks and the scheduler may see a server differently for long: it renews its lease here and refuses a group, or is
// out of a rank's reach. What was reported is remembered (JobGroup), so that a group is not moved to and fro, and moves
// are paced (MovePace).
#ifndef SHOAL_SCHEDULER_MACHINE_GROUP_MOVES_H_
#define SHOAL_SCHEDULER_MACHINE_GROUP_MOVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/token.h"
#include "scheduler/machine/decisions.h"
#include "scheduler/machine/group_ends.h"
#include "scheduler/machine/group_plan.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_numbers.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

class GroupMoves {
 public:
  // All outlive it. It looks at every group soon: moves that the scheduler before this one had put off are not saved.
  GroupMoves(uint64_t lease_ttl_ns, const TokenKey& token_key, const ServerRegistry* servers, JobRegistry* jobs,
             GroupEnds* ends, Decisions* decisions, Now now);

  void Answer(RequestHandle handle, const ReportServer& request, Now now);
  // Servers came, left, were lost, or are to leave: the map is published, groups go over to the live servers, and jobs
  // without any are asked to run some.
  void OnServersChanged(Now now);
  // A rank of the job is lost, and these groups go on without it, or without its node: they move, or fail where too few
  // ranks are left.
  void OnRankLost(JobId job, const std::vector<GroupId>& groups, Now now);
  // A rank has no part any more in a group that goes on without lost ranks, and with rails neither has its node: it
  // closes the group, and as in the other case. `what` goes after the rank's name.
  void OnRankGone(const Job& job, GroupId id, JobRank rank, const std::string& what, Now now);
  // The server may have the memory now for groups that it refused.
  void OnMemoryFreed(ServerId server, Now now);

  // Moves groups that waited for it.
  void Tick(Now now);
  uint64_t NextDeadlineNs() const { return next_move_ns_; }
  const MoveNumbers& numbers() const { return numbers_; }

 private:
  struct NextMap {
    GroupPlan plan;
    std::vector<ExcludedServer> excluded;
  };

  // It has lost a rank: it moves without it, or fails if too few are left.
  void GoOnOrFail(const Job& job, JobGroup* group, Now now);
  // nullptr: it is gone, or does not go on without lost ranks, or has lost this one already.
  JobGroup* FindGoingOn(const Job& job, GroupId id, JobRank rank);
  // A rank of the group says that another one has left it.
  void OnRankLeft(const Job& job, const GroupState& group, const ReportServer& report, Now now);
  void PublishServers(Now now);
  void AskForColocation(Now now);
  void LookAgain(JobGroup* group, uint64_t at_ns);
  // Moves it if its ranks want that, or the servers are others, and its pace allows it.
  void MoveIfNeeded(const Job& job, JobGroup* group, Now now);
  void Move(const Job& job, JobGroup* group, NextMap next, Now now);
  // nullopt: no server may serve it, or it would stay where it is.
  std::optional<NextMap> FindNextMap(const Job& job, const JobGroup& group) const;
  // For another roster alone. nullopt: there are no more epochs.
  std::optional<NextMap> SameServers(const JobGroup& group) const;
  Epoch NextEpoch(const GroupState& group) const;
  // The group's next map, of the live servers without the excluded ones. Errors of PlanGroup: there is none.
  absl::StatusOr<GroupPlan> PlanFor(const Job& job, const GroupState& group,
                                    const std::vector<ExcludedServer>& excluded) const;
  // The group fails if no server that is left has the memory for it, and that has lasted.
  void GiveUpIfRefusedByAll(const Job& job, JobGroup* group, Now now);

  const uint64_t lease_ttl_ns_;
  const TokenKey token_key_;
  const ServerRegistry& servers_;
  JobRegistry& jobs_;
  GroupEnds& ends_;
  Decisions& decisions_;
  uint64_t next_move_ns_ = kNoDeadline;  // no group that waits may move, or is given up, before
  MoveNumbers numbers_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_GROUP_MOVES_H_
