// Ranks whose connection broke: they are waited for, named to the scheduler, and given up as the last resort, when the
// scheduler was not heard for long (core/failure_detection.h).
//
// One thread.
#ifndef SHOAL_SERVER_MACHINE_ABSENT_RANKS_H_
#define SHOAL_SERVER_MACHINE_ABSENT_RANKS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/now.h"
#include "server/machine/group_table.h"
#include "server/machine/server_counters.h"
#include "server/machine/server_events.h"

namespace shoal {

class AbsentRanks {
 public:
  // `lease_ttl_ns` of the cluster, until the scheduler says another.
  explicit AbsentRanks(uint64_t lease_ttl_ns) : lease_ttl_ns_(lease_ttl_ns) {}

  void NoteScheduler(const SchedulerHeard& event, Now now);
  // The scheduler has lost its state: it knows none of these groups any more.
  void NoteSchedulerForgot(GroupTable* groups);
  // The rank's connection broke.
  void MarkAbsent(ServerGroup* group, Rank rank, std::string because, Now now);
  // How many were marked since the start.
  uint64_t noted() const { return noted_; }

  // Those whose time is over: index of the group and rank.
  std::vector<std::pair<uint32_t, Rank>> TakeOverdue(const GroupTable& groups, Now now);
  // No absent rank is given up before; kNoDeadline: none is absent.
  uint64_t NextDeadlineNs() const { return next_ns_; }

  static std::vector<AbsentRank> List(const GroupTable& groups);

 private:
  uint64_t GiveUpTimeNs(const ServerGroup& group, const ServerGroup::RankState& absent) const;
  // The times may be earlier than they were.
  void LookAgain();

  uint64_t lease_ttl_ns_;
  uint64_t scheduler_heard_ns_ = 0;
  bool scheduler_is_colocated_ = false;
  uint64_t noted_ = 0;
  uint64_t next_ns_ = kNoDeadline;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_ABSENT_RANKS_H_
