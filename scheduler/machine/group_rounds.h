// Where the ranks of a group meet: each asks for the group, and the round is complete when all have asked for the same.
// Pure; one thread.
//
// A round is known by job and group name. A completed or failed round is forgotten: the next request under the name
// starts another, so that a group can be made again after it was destroyed. (A repeated request whose round is complete
// does not get here: GroupRequests answers it again.)
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
#include "core/ids.h"
#include "core/now.h"
#include "core/wire_format.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/node_reduce_decision.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxRounds = 65536;

// A rank that asked for the group and waits.
struct GroupWaiter {
  RequestHandle handle;
  GroupRequestId request;
  uint32_t min_servers = 1;
  uint32_t network_cards = 1;
  uint64_t wait_ms = 0;
  uint64_t deadline_ns = 0;
  LinkFacts link;
  std::optional<SharedOptions> options;
  std::optional<NodeReduceRequest> node_reduce;
};

struct GroupRound {
  JobId job;
  std::string name;
  std::vector<JobRank> ranks;    // in group order
  uint32_t max_chunk_bytes = 0;  // as asked for; 0: to be chosen
  WireFormat wire = WireFormat::kAsIs;
  std::map<JobRank, GroupWaiter> waiters;

  // How its ranks reduce within their nodes, as far as they have asked.
  NodeReduceDecision NodeReduce(const Job& its_job) const;
  // The largest that any rank asked for.
  uint32_t MinServers() const;
  // The ranks that have not asked, in group order.
  std::vector<JobRank> MissingRanks() const;
  // The link to plan with: the fastest that a rank measured (ranks that measure at the same time share a server's
  // port), the shortest round trip and the cheapest message (ranks may share a processor). Links within a node count
  // only if all ranks have one.
  LinkFacts Link() const;
  uint32_t NetworkCards() const;  // that every node has
  // SharedOptions', which all ranks that have asked have alike.
  uint32_t MinRanks() const;
};

class GroupRounds {
 public:
  struct Failure {
    RequestHandle handle;
    absl::Status status;
    // A group of these ranks of that job is not made, for that reason. 0: it may be yet, or the job knows why not.
    JobId job = JobId();
    std::vector<JobRank> ranks = {};
  };

  // Takes the request of a live member, already checked (CheckRequest), into its round. Returns the requests that fail
  // at once: the same rank's earlier one (superseded), or all of the round if the ranks differ on the group's shape or
  // on options that they must share.
  std::vector<Failure> Add(RequestHandle handle, const JoinGroup& request, Now now);

  // Takes out a round whose ranks are all there, and that needs no servers, or has enough for its job and one at least
  // that may serve it; nullopt if there is none.
  std::optional<GroupRound> TakeComplete(const ServerRegistry& servers, const JobRegistry& jobs);

  // Requests whose wait is over; the text names the missing ranks (as `jobs` knows them) or servers.
  std::vector<Failure> Expire(Now now, const ServerRegistry& servers, const JobRegistry& jobs);

  // The rank's requests that have waited for a quarter of their time, or ten seconds: a line for each that names the
  // missing ranks or servers.
  std::vector<std::string> LongWaits(const HeartbeatWorker& rank, const ServerRegistry& servers,
                                     const JobRegistry& jobs, Now now) const;

  // Every request of the job fails with `status`.
  std::vector<Failure> FailJob(JobId job, const absl::Status& status);
  // The rank's requests fail with `status`; the others go on waiting.
  std::vector<Failure> FailRank(JobId job, JobRank rank, const absl::Status& status);
  // So do all requests for groups that have the rank.
  std::vector<Failure> FailAllWith(JobId job, JobRank rank, const absl::Status& status);
  // The rank's own request with that number, if it waits, is cancelled.
  std::vector<Failure> GiveUp(JobId job, JobRank rank, const GroupRequestId& request);
  // The caller hung up.
  void Forget(RequestHandle handle);

  // When Expire has something to do next; kNoDeadline: no request waits.
  uint64_t next_deadline_ns() const;
  const std::map<std::pair<JobId, std::string>, GroupRound>& rounds() const { return rounds_; }

 private:
  std::map<std::pair<JobId, std::string>, GroupRound> rounds_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_GROUP_ROUNDS_H_
