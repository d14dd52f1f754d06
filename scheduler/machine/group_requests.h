// What ranks ask for their groups: to open one, to close some, to give a request up. Holds the requests that wait for
// other ranks or for servers. Pure; one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_GROUP_REQUESTS_H_
#define SHOAL_SCHEDULER_MACHINE_GROUP_REQUESTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/ids.h"
#include "core/now.h"
#include "scheduler/machine/decisions.h"
#include "scheduler/machine/group_ends.h"
#include "scheduler/machine/group_moves.h"
#include "scheduler/machine/group_opener.h"
#include "scheduler/machine/group_rounds.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

class GroupRequests {
 public:
  // All outlive it.
  GroupRequests(const ServerRegistry* servers, const JobRegistry* jobs, GroupOpener* opener, GroupEnds* ends,
                GroupMoves* moves, Decisions* decisions)
      : servers_(*servers), jobs_(*jobs), opener_(*opener), ends_(*ends), moves_(*moves), decisions_(*decisions) {}

  void Answer(RequestHandle handle, const JoinGroup& request, Now now);
  void Answer(RequestHandle handle, const CloseGroups& request, Now now);
  // The rank has given these groups up.
  void TakeFailures(const Job& job, JobRank rank, const std::vector<GroupFailure>& failures, Now now);
  // What the rank waits for no more: its requests that wait are answered, and groups that they opened are given up.
  void GiveUp(const Job& job, JobRank rank, Incarnation incarnation, const std::vector<GivenUpRequest>& requests,
              Now now);
  // Opens groups that have all they need now.
  void OpenComplete(Now now);
  // Requests of the rank, or of all ranks of the job, are answered with that.
  void FailRank(JobId job, JobRank rank, const absl::Status& why) { Fail(rounds_.FailRank(job, rank, why)); }
  void FailAllWith(JobId job, JobRank rank, const absl::Status& why) { Fail(rounds_.FailAllWith(job, rank, why)); }
  void FailJob(JobId job, const absl::Status& why) { Fail(rounds_.FailJob(job, why)); }
  // The caller hung up.
  void Forget(RequestHandle handle) { rounds_.Forget(handle); }

  // Answers requests that have waited for long enough.
  void Tick(Now now) { Refuse(rounds_.Expire(now, servers_, jobs_)); }
  uint64_t NextDeadlineNs() const { return rounds_.next_deadline_ns(); }
  const GroupRounds& rounds() const { return rounds_; }

 private:
  // True: the request opened a group of the job already, and gets the same answer once more.
  bool AnswerAgain(RequestHandle handle, const JoinGroup& request, const Job& job, Now now);
  // These rest on what was decided; those on nothing that is to be saved.
  void Fail(const std::vector<GroupRounds::Failure>& failures);
  void Refuse(const std::vector<GroupRounds::Failure>& failures);

  const ServerRegistry& servers_;
  const JobRegistry& jobs_;
  GroupOpener& opener_;
  GroupEnds& ends_;
  GroupMoves& moves_;
  Decisions& decisions_;
  GroupRounds rounds_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_GROUP_REQUESTS_H_
