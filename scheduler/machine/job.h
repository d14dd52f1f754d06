// A job: its ranks with their leases, its open groups. Pure; one thread.
//
// JobRegistry alone changes a job and its ranks; others read them.
#ifndef SHOAL_SCHEDULER_MACHINE_JOB_H_
#define SHOAL_SCHEDULER_MACHINE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "scheduler/machine/job_groups.h"
#include "scheduler/machine/node_place.h"
#include "scheduler/machine/process_signs.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

struct Worker {
  RankState state;
  uint64_t joined_ns = 0;  // 0: at an earlier scheduler
  uint64_t lease_expires_ns = 0;
  bool lease_extended = false;  // since the last heartbeat
  uint64_t last_heartbeat_ns = 0;
  ProcessSigns signs;
  bool has_colocated_server = false;  // it was told to run one
  uint32_t awaited_servers = 0;       // it asks again until it hears of so many; 0: it waits for none
};

struct Job {
  JobId id;
  std::string name;
  uint32_t world_size = 0;
  JobPhase phase = JobPhase::kJoining;
  // kFailed: why: a rank that was lost, the operator who aborted it, or a group. Of an open job: the first group that
  // failed or was not made, for which the job will have failed if it ends so. It is forgotten when a group with all its
  // ranks is made, or is closed by all of them without having failed: the job got over it.
  std::string failure;
  std::vector<JobRank> failure_ranks = {};  // of that group, in order; of a job that was restored: all
  uint64_t started_at_unix_ms = 0;
  std::map<JobRank, Worker> workers;  // those that joined
  JobGroups groups;                   // that are open
  size_t live_count = 0;
  uint64_t ended_ns = 0;                                // the last rank went; of live_count 0
  std::optional<bool> needs_no_servers = std::nullopt;  // see JobRegistry; nullopt: to be found out for these ranks

  // The most servers that one of its live ranks waits for before it asks for groups; 0: none waits.
  uint32_t AwaitedServers() const;
  bool open() const { return phase == JobPhase::kJoining || phase == JobPhase::kRunning; }
  // "rank 3 of job "gpt" on node b".
  std::string Describe(JobRank rank) const;
  // "group "world" of job "gpt"": the group as a whole, its rails included.
  std::string DescribeGroup(const std::string& group_name) const;
  // The same, or "rail 1 of group ...".
  std::string Describe(const GroupState& group) const;
  // By rank of a group whose ranks have all joined the job: the names of their nodes, for people; and where they are,
  // for plans.
  std::vector<std::string> NodesOf(const std::vector<JobRank>& ranks) const;
  std::vector<NodePlace> PlacesOf(const std::vector<JobRank>& ranks) const;
  std::vector<NodePlace> LivePlaces() const;  // of all ranks that are live
  // Two of its ranks whose nodes have one name and are different ones; nullopt: there are none.
  std::optional<std::pair<JobRank, JobRank>> FindSharedNodeName() const;
  // The one whose loss failed the job comes first: it is the one to be named.
  std::vector<RankLost> LostRanks() const;
  // `failure` of a job that fails because the rank is lost for that reason.
  std::string WhyLost(JobRank rank, const std::string& reason) const;
  // The group of a server's report about one of its ranks; of this epoch or an older one. nullptr: it is closed, the
  // epoch is one to come, it has no such rank, or the rank is not live.
  const GroupState* FindReported(GroupId group, Epoch epoch, Rank rank) const;

  // What becomes of a rank whose process has ended, not before `process_end_ns`, or is taken to have ended: it is lost,
  // or nobody misses it (JobRegistry::TakeOver), and then what failed in its run is forgotten.
  MemberPhase PhaseOfEnded(JobRank rank, uint64_t process_end_ns, Now now);
  // Likewise of one whose lease has run out; `is_awaited` as for JobRegistry::ExpireLeases.
  MemberPhase PhaseOfExpired(JobRank rank, bool is_awaited, Now now);

 private:
  // A process joined after that, and no living one is in a group with the rank.
  bool IsOfAnEarlierRun(JobRank rank, uint64_t process_end_ns, Now now) const;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_JOB_H_
