// What the scheduler must be told of servers: one report after the other, each until it is answered, since nobody else
// can give the group another map. Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_SERVER_REPORTS_H_
#define SHOAL_WORKER_MEMBERSHIP_SERVER_REPORTS_H_

#include <cstdint>
#include <deque>

#include "core/now.h"
#include "worker/membership/call_book.h"

namespace shoal {

class ServerReports {
 public:
  // Outlives it.
  explicit ServerReports(CallBook* calls) : calls_(calls) {}

  // Takes the place of an older report of the same group and server that has not been made yet, so the queue never
  // holds more than one for each server of each group.
  void Add(const ServerTrouble& trouble);
  void OnAnswer(const absl::Status& status, Now now);
  void Stop(MembershipActions* actions);
  // Reports are made while there is a membership.
  void Tick(const MemberId& member, Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const;

 private:
  CallBook* const calls_;
  std::deque<ServerTrouble> waiting_;  // the first is being reported while call_ is not 0
  CallId call_;
  uint64_t retry_ns_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_SERVER_REPORTS_H_
