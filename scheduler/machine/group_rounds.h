// Where the ranks of a group meet: each asks for the group, and when all have asked alike the round is complete. Part
// of the machine: pure, one thread.
//
// A round is known by job and group name. A completed or failed round is forgotten: the next to ask under the name
// starts another, so that a group can be made again after it was destroyed. (Who only repeats a request whose round was
// completed does not come here: SchedulerMachine tells it again.)
#ifndef SHOAL_SCHEDULER_MACHINE_GROUP_ROUNDS_H_
#define SHOAL_SCHEDULER_MACHINE_GROUP_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/wire_format.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxRounds = 65536;

// A rank that asked for the group and waits.
struct GroupWaiter {
  RequestHandle handle;
  GroupRequestId request;
  uint32_t min_servers = 1;
  uint64_t wait_ms = 0;
  uint64_t deadline_ns = 0;
  LinkFacts link;
};

struct GroupRound {
  JobId job;
  std::string name;
  std::vector<uint32_t> ranks;   // of the job, in group order
  uint32_t max_chunk_bytes = 0;  // as asked for; 0: to be chosen
  WireFormat wire = WireFormat::kAsIs;
  std::map<uint32_t, GroupWaiter> waiters;  // by rank of the job

  // The largest that any rank asked for.
  uint32_t MinServers() const;
  // Those that have not asked, in group order.
  std::vector<uint32_t> MissingRanks() const;
  // Of the fastest link (ranks that measure at the same time share a server's port), with the shortest round trip and
  // the cheapest message (others share a processor). What a rank has within its node counts if all have that.
  LinkFacts Link() const;
};

class GroupRounds {
 public:
  struct Failure {
    RequestHandle handle;
    absl::Status status;
  };

  // Takes the request of a live member, already checked (CheckRequest), into its round. Who has to be told at once
  // comes back: the same rank's earlier request (superseded), or everybody in the round if the ranks differ on its
  // shape.
  std::vector<Failure> Add(const Now& now, RequestHandle handle, const JoinGroup& request);

  // Takes out a round whose ranks are all there, with enough servers for its job and one at least that may serve it;
  // nullopt if there is none.
  std::optional<GroupRound> TakeComplete(const ServerRegistry& servers, const JobRegistry& jobs);

  // Requests whose wait is over; the text names the missing ranks (as `jobs` knows them) or servers.
  std::vector<Failure> Expire(const Now& now, const ServerRegistry& servers, const JobRegistry& jobs);

  // The rank's requests that have waited for a quarter of their time, or ten seconds: a line for each that names the
  // missing ranks or servers.
  std::vector<std::string> LongWaits(const Now& now, const HeartbeatWorker& rank, const ServerRegistry& servers,
                                     const JobRegistry& jobs) const;

  // Every request of the job fails with `status`.
  std::vector<Failure> FailJob(JobId job, const absl::Status& status);
  // The rank's requests fail with `status`; the others go on waiting.
  std::vector<Failure> FailRank(JobId job, uint32_t rank, const absl::Status& status);
  // The caller hung up.
  void Forget(RequestHandle handle);

  // When Expire has something to do next; kNoDeadline if nobody waits.
  uint64_t next_deadline_ns() const;
  const std::map<std::pair<JobId, std::string>, GroupRound>& rounds() const { return rounds_; }

 private:
  std::map<std::pair<JobId, std::string>, GroupRound> rounds_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_GROUP_ROUNDS_H_
