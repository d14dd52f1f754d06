// What the scheduler must be told of servers: one report after the other, each again and again until the group has
// another map, since nobody else can give it one. A report that was answered may wait at the scheduler until it can be
// acted on; it is repeated at a slow pace, as the scheduler may forget it, and the news of the move may be lost. A
// scheduler that does not know the group or the rank (any more) never moves the group: it is given up then. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_SERVER_REPORTS_H_
#define SHOAL_WORKER_MEMBERSHIP_SERVER_REPORTS_H_

#include <cstdint>
#include <deque>
#include <string>

#include "core/now.h"
#include "core/retry_pace.h"
#include "worker/membership/call_book.h"
#include "worker/membership/repeated_calls.h"

namespace shoal {

class ServerReports {
 public:
  // `scheduler`: its addresses, for messages. All outlive it.
  ServerReports(const std::string* scheduler, const JobMember* self, CallBook* calls, Jitter* jitter)
      : scheduler_(scheduler), self_(self), calls_(calls), jitter_(jitter) {}

  // Takes the place of an older report of the same group and server, so there is never more than one for each server of
  // each group.
  void Add(const ServerTrouble& trouble);
  // The group has a map of that epoch: reports of older ones are over.
  void OnMoved(GroupId group, Epoch epoch);
  // The group has ended here, or failed.
  void OnEnded(GroupId group);
  void OnAnswer(const absl::Status& status, const JoinedJob& joined, Now now, MembershipActions* actions);
  void Stop(MembershipActions* actions);
  // Reports are made while there is a membership.
  void Tick(const MemberId& member, Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const;

 private:
  struct Report {
    ServerTrouble trouble;
    uint64_t due_ns = 0;
    uint32_t answers = 0;
    RefusalsInARow refusals;
    bool is_asked = false;  // the call under way is for it
  };

  absl::Status NeverMoved(const ServerTrouble& trouble, JobRank rank, const absl::Status& refusal) const;

  const std::string* const scheduler_;
  const JobMember* const self_;
  CallBook* const calls_;
  Jitter* const jitter_;
  std::deque<Report> reports_;  // oldest first
  CallId call_;
  uint64_t retry_ns_ = 0;  // no call is made before: the last one broke
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_SERVER_REPORTS_H_
