// Ranks as members: they join their jobs, renew their leases, leave, are lost, and are replaced. Pure; one thread.
//
// JobRegistry owns the jobs. This decides what else follows, and holds joins for ranks that another process still has.
#ifndef SHOAL_SCHEDULER_MACHINE_RANK_MEMBERS_H_
#define SHOAL_SCHEDULER_MACHINE_RANK_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/connection_ticket.h"
#include "core/ids.h"
#include "core/now.h"
#include "core/token.h"
#include "scheduler/machine/decisions.h"
#include "scheduler/machine/group_ends.h"
#include "scheduler/machine/group_moves.h"
#include "scheduler/machine/group_requests.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/node_place.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxHeldJoins = 4096;

class RankMembers {
 public:
  struct Settings {
    uint64_t lease_ttl_ms = 0;
    TokenKey token_key{};
    bool encrypt = false;  // what ranks and servers send each other
  };

  // All outlive it.
  RankMembers(const Settings& settings, const ServerRegistry* servers, JobRegistry* jobs, GroupEnds* ends,
              GroupMoves* moves, GroupRequests* groups, Decisions* decisions)
      : settings_(settings),
        servers_(*servers),
        jobs_(*jobs),
        ends_(*ends),
        moves_(*moves),
        groups_(*groups),
        decisions_(*decisions) {}

  void Answer(RequestHandle handle, const JoinJob& request, Now now);
  void Answer(RequestHandle handle, const HeartbeatWorker& request, Now now);
  void Answer(RequestHandle handle, const LeaveJob& request, Now now);
  void Answer(RequestHandle handle, const GetTicket& request, Now now);
  // The job fails, and so do its groups, which its ranks hear of at once.
  void Answer(RequestHandle handle, const AbortJob& request, Now now);
  // The caller hung up.
  void Forget(RequestHandle handle);
  // A process waits for a rank that another one has.
  bool AnyAwaited() const { return !held_joins_.empty(); }

  // Ranks whose leases have run out or whose processes have ended are lost, or replaced.
  void Tick(Now now);
  uint64_t NextDeadlineNs() const;

 private:
  // A request for a rank that another process still holds. It waits until the holder shows a sign of life (then it is
  // refused) or is gone (then it is tried again).
  struct HeldJoin {
    RequestHandle handle;
    JoinJob request;
    JobId job;  // whose rank is held
  };

  ConnectionTicket Ticket(const TicketHolder& holder, Now now) const;
  // Answers, unless another process holds the rank and may still be alive: then false.
  bool TryJoin(RequestHandle handle, const JoinJob& request, Now now, JobId* held_by);
  // Of an open job.
  void RecordRoster(const Job& job, const std::string& change, Now now);
  // Of a job that has just got its last rank.
  void WarnOfSharedNodeName(const Job& job, Now now);
  // `place`: where the rank is.
  bool WantsServer(const JoinJob& request, const NodePlace& place) const;
  void RetryHeldJoins(Now now);
  // kNoDeadline: the holder is not known to have ended.
  uint64_t TakeOverAtNs(const HeldJoin& held) const;
  // Joins that are held by a process which has ended go ahead.
  void TakeOver(Now now);
  void OnGone(const JobRegistry::Gone& gone, Now now);
  // It has not left by itself.
  void OnEnded(const JobRegistry::Gone& gone, Now now);

  const Settings settings_;
  const ServerRegistry& servers_;
  JobRegistry& jobs_;
  GroupEnds& ends_;
  GroupMoves& moves_;
  GroupRequests& groups_;
  Decisions& decisions_;
  std::vector<HeldJoin> held_joins_;  // in the order in which they came
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_RANK_MEMBERS_H_
