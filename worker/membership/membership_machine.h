// What a worker decides about its membership in a job: joining, the lease, groups, reports, colocated servers, leaving.
//
// Events and time in, actions out: it blocks nowhere, reads no clock and has no thread. What is random is drawn from a
// seed. One MembershipLoop (worker/loop) drives it over a SchedulerPort, in a process and in the simulator.
//
// A scheduler that is away changes nothing for groups that are open (invariant I6): what must reach it is said again
// until it answers. When the scheduler says twice that it knows no such member, the membership is over.
#ifndef SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_MACHINE_H_
#define SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_MACHINE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/now.h"
#include "core/retry_pace.h"
#include "worker/membership/call_book.h"
#include "worker/membership/closed_groups.h"
#include "worker/membership/group_requests.h"
#include "worker/membership/heartbeats.h"
#include "worker/membership/joining.h"
#include "worker/membership/leaving.h"
#include "worker/membership/membership_actions.h"
#include "worker/membership/membership_events.h"
#include "worker/membership/server_reports.h"
#include "worker/membership/watch_follower.h"

namespace shoal {

struct MembershipOptions {
  std::string scheduler;  // its addresses, for messages
  JobMember member;
  uint32_t min_servers = 1;     // that must be registered before the job is joined
  uint64_t timeout_ms = 30000;  // the worker's: a colocated server that is asked for late gets no more
  uint64_t jitter_seed = 0;
};

class MembershipMachine {
 public:
  explicit MembershipMachine(MembershipOptions options);
  MembershipMachine(const MembershipMachine&) = delete;
  MembershipMachine& operator=(const MembershipMachine&) = delete;

  // Takes in one thing that happened.
  void OnEvent(const JoinCommand& command, Now now, MembershipActions* actions);
  void OnEvent(const JoinGroupCommand& command, Now now, MembershipActions* actions);
  void OnEvent(const GroupEnded& event, Now now, MembershipActions* actions);
  void OnEvent(const CloseCommand& command, Now now, MembershipActions* actions);
  void OnEvent(const LeaveCommand& command, Now now, MembershipActions* actions);
  void OnEvent(const StatisticsRead& event, Now now, MembershipActions* actions);
  void OnEvent(const ColocatedServerStarted& event, Now now, MembershipActions* actions);
  void OnEvent(const ServerTrouble& event, Now now, MembershipActions* actions);
  void OnEvent(const GroupFailure& event, Now now, MembershipActions* actions);
  void OnEvent(const CallEnded& event, Now now, MembershipActions* actions);
  void OnEvent(const WatchNewsCame& event, Now now, MembershipActions* actions);
  void OnEvent(const WatchEnded& event, Now now, MembershipActions* actions);
  // Does what time asks for. Call it after events and when NextDeadlineNs() has come; earlier is harmless.
  void Tick(Now now, MembershipActions* actions);
  // On the monotonic clock; kNoDeadline: nothing is due.
  uint64_t NextDeadlineNs() const;

 private:
  MemberId Self() const { return {joining_.joined()->id, joining_.joined()->rank, options_.member.incarnation}; }
  bool is_member() const { return joining_.joined().has_value() && !left_; }
  // After anything that joining_ was told.
  void FollowJoining(Now now, MembershipActions* actions);
  void EndJoining(absl::StatusOr<JoinedJob> joined, MembershipActions* actions);
  // Callers that wait for a group, or to join, are told that the worker is closed.
  void EndWaits(MembershipActions* actions);
  // Ends heartbeats, the Watch and reports.
  void StopWorking(MembershipActions* actions);
  void OnLeft(const absl::Status& status, MembershipActions* actions);
  void OnColocationWanted(const WatchNews& news, MembershipActions* actions);
  void OnGroupNews(const std::vector<MoveGroupCommand>& moved, const std::vector<GiveGroupUpCommand>& given_up,
                   MembershipActions* actions);

  const MembershipOptions options_;
  CallBook calls_;
  Jitter jitter_;
  Joining joining_;
  Heartbeats heartbeats_;
  WatchFollower watch_;
  GroupRequests groups_;
  ClosedGroups closed_groups_;
  ServerReports reports_;
  Leaving leaving_;

  bool join_ended_ = false;  // JoinEnded was said
  bool closed_ = false;
  bool left_ = false;
  bool leave_asked_ = false;  // by a LeaveCommand
  std::set<JobRank> lost_ranks_told_;
  // Of the colocated server that is asked for when no other one is left.
  bool server_runs_ = false;
  bool server_starts_ = false;
  std::string server_wanted_because_;
  WatchNews early_colocation_;  // came before the join had ended
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_MEMBERSHIP_MACHINE_H_
