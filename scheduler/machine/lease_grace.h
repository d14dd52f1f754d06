// When leases that have run out count, and when they start anew because the fault is more likely this scheduler's.
// Pure; one thread.
//
// Members could not renew their leases while this process was stopped, or its node slept. If none of the members on
// several nodes is heard, this node's own network is broken. And while the state can't be saved, nobody can be told
// that it is a member, and a loss could not be saved.
#ifndef SHOAL_SCHEDULER_MACHINE_LEASE_GRACE_H_
#define SHOAL_SCHEDULER_MACHINE_LEASE_GRACE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "core/now.h"
#include "scheduler/machine/decisions.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

class LeaseGrace {
 public:
  // Whose leases run out now, if they are due.
  enum class RunOut : uint8_t { kNobodys, kServers, kEverybodys };

  // All outlive it.
  LeaseGrace(std::string cluster_id, uint64_t lease_ttl_ns, ServerRegistry* servers, JobRegistry* jobs,
             Decisions* decisions, Now now)
      : cluster_id_(std::move(cluster_id)),
        lease_ttl_ns_(lease_ttl_ns),
        servers_(*servers),
        jobs_(*jobs),
        decisions_(*decisions),
        heard_at_ns_(now.monotonic_ns) {}

  // `is_rank_awaited`: a process waits to take over a rank. It has reached this node after the rank's holder fell
  // silent.
  RunOut Judge(bool is_rank_awaited, Now now);
  // A member has sent a sign of life.
  void OnMemberHeard(bool is_rank_awaited, Now now);

 private:
  RunOut JudgeUnsaved(uint64_t due_ns, Now now);
  // A shorter time without any heartbeat says nothing.
  uint64_t LeastSilenceNs() const;
  // For how long no member was heard, although they are on several nodes; 0: they are not, or not for so long.
  uint64_t SilenceOfAllNs(bool is_rank_awaited, Now now) const;
  // Leases start anew if that is this scheduler's own silence. True: what was seen in it is no evidence of an end.
  bool ExcuseAfter(uint64_t silence_ns, Now now);
  void RenewAll(Now now);

  const std::string cluster_id_;
  const uint64_t lease_ttl_ns_;
  ServerRegistry& servers_;
  JobRegistry& jobs_;
  Decisions& decisions_;
  uint64_t heard_at_ns_;        // of any member; before the first one: the start
  bool has_heard_any_ = false;  // member, since the start
  bool cut_off_ = false;        // as far as the journal says
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_LEASE_GRACE_H_
