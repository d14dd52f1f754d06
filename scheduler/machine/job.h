// A job: its ranks with their leases, its open groups. Pure; one thread.
//
// It starts with its first rank, runs once all ranks have joined, ends when all have left, and fails as soon as a rank
// is lost or an operator aborts it. An open job has no size: ranks get their numbers as they come, it runs once
// min_ranks are there, and a rank that is lost fails it only if fewer are left. Its own functions change it, and
// JobRegistry, which counts ranks and leases.
#ifndef SHOAL_SCHEDULER_MACHINE_JOB_H_
#define SHOAL_SCHEDULER_MACHINE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/failure_detection.h"
#include "core/ids.h"
#include "core/now.h"
#include "scheduler/machine/job_groups.h"
#include "scheduler/machine/node_place.h"
#include "scheduler/machine/process_signs.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_requests.h"
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
  // As it was saved; its live ranks have no leases yet.
  static Job Restored(const JobState& state);
  JobState State() const;

  JobId id;
  std::string name;
  uint32_t world_size = 0;  // of an open job: how many ranks have had a number, so that all are below it
  uint32_t min_ranks = 0;   // of an open job; 0: it is a fixed one
  std::string tenant = {};  // whose it is; empty: callers were not asked for their identity
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
  std::optional<bool> needs_no_servers = std::nullopt;  // see NeedsNoServers; nullopt: to be found out for these ranks

  // The most servers that one of its live ranks waits for before it asks for groups; 0: none waits.
  uint32_t AwaitedServers() const;
  bool open() const { return phase == JobPhase::kJoining || phase == JobPhase::kRunning; }
  bool is_fixed() const { return min_ranks == 0; }
  uint64_t PatienceNs() const { return is_fixed() ? kProcessEndedPatienceNs : kOpenJobPatienceNs; }
  // How many ranks it has, or is to have.
  uint32_t size() const { return is_fixed() ? world_size : static_cast<uint32_t>(live_count); }
  bool all_joined() const { return is_fixed() ? workers.size() == world_size : live_count >= min_ranks; }
  bool IsLive(JobRank rank) const;
  // "rank 3 of job "gpt" on node b is lost (no heartbeat for 5 s)", of a rank that has joined and is not live.
  std::string DescribeGone(JobRank rank) const;
  // Of an open job: the live rank of the process; nullopt: it has none.
  std::optional<JobRank> RankOf(Incarnation incarnation) const;
  // "3 ranks: 0, 2 ("trainer-b"), 5": those that are live.
  std::string DescribeRoster() const;
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
  // ALREADY_EXISTS, naming the process that holds the rank that `request` wants.
  absl::Status HolderError(const JoinJob& request, Now now) const;
  // NOT_FOUND: this process has not the rank, or the rank's lease is over; the text says why.
  absl::Status CheckMember(JobRank rank, Incarnation incarnation) const;
  // When the process that holds the rank may be taken for ended because another one wants its place; kNoDeadline: it
  // may not.
  uint64_t TakeOverAtNs(JobRank rank) const;
  // The group of a server's report about one of its ranks; of this epoch or an older one. nullptr: it is closed, the
  // epoch is one to come, it has no such rank, or the rank is not live.
  const GroupState* FindReported(GroupId group, Epoch epoch, Rank rank) const;

  // ---- changes ----

  // Whether a live rank is to run a colocated server for its job: if `wanted`, one live rank of each node is. The
  // answer to the same process stays the same (until the scheduler restarts).
  bool AssignServer(JobRank rank, bool wanted);
  // These ranks are asked to run a colocated server each.
  void NoteColocatedServers(const std::vector<JobRank>& ranks) {
    for (const JobRank rank : ranks) workers.at(rank).has_colocated_server = true;
  }
  // The live rank was answered that there are fewer servers than these, which it waits for; 0: it has what it wanted.
  // Not saved: a rank that waits asks again, several times a second.
  void NoteAwaitedServers(JobRank rank, uint32_t count) { workers.at(rank).awaited_servers = count; }
  // All ranks of the job are there, and can reduce among themselves on one node. Cheap: ranks ask it again and again.
  bool NeedsNoServers();
  // Of an open job: of the ranks that are gone, those that no group has are forgotten, but for the newest ones.
  void ForgetGone();
  // An operator ends the open job.
  void Abort(const std::string& reason);
  // A group of these ranks failed or was not made; or was made, or closed by all without a failure: see `failure`.
  // True: that has changed.
  bool NoteGroupFailed(std::vector<JobRank> ranks, const std::string& why);
  bool NoteGroupWorks(std::vector<JobRank> ranks);
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
