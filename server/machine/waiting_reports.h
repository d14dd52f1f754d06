// Tells ranks that wait which ranks they wait for: those that contributed to a chunk, and those that want to leave once
// all have their results. It is said again for as long as it is true.
//
// One thread.
#ifndef SHOAL_SERVER_MACHINE_WAITING_REPORTS_H_
#define SHOAL_SERVER_MACHINE_WAITING_REPORTS_H_

#include <algorithm>
#include <cstdint>

#include "core/now.h"
#include "server/machine/group_table.h"
#include "server/machine/server_actions.h"

namespace shoal {

class WaitingReports {
 public:
  // After `patience_ns` of waiting a rank is told, and then each time so much later.
  explicit WaitingReports(uint64_t patience_ns) : patience_ns_(patience_ns) {}

  // A rank has entered a group.
  void Begin(Now now) { next_ns_ = std::min(next_ns_, now.monotonic_ns + patience_ns_); }
  // Says what is due.
  void Tick(const GroupTable& groups, Now now, ServerActions* actions);
  uint64_t NextDeadlineNs() const { return next_ns_; }

 private:
  void ReportGathering(const ServerGroup& group, Now now, ServerActions* actions) const;
  void ReportUncommitted(const ServerGroup& group, Now now, ServerActions* actions) const;

  const uint64_t patience_ns_;
  uint64_t next_ns_ = kNoDeadline;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_WAITING_REPORTS_H_
