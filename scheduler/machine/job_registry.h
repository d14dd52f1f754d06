// The jobs that the scheduler knows: their ranks with leases, their open groups. Part of the machine: pure, one thread.
//
// A job starts with its first rank, runs once all ranks have joined, ends when all have left, and has failed for good
// as soon as a rank is lost. The name of an ended or failed job may be used again: the next to join it starts a new
// job.
#ifndef SHOAL_SCHEDULER_MACHINE_JOB_REGISTRY_H_
#define SHOAL_SCHEDULER_MACHINE_JOB_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxLiveJobs = 4096;
inline constexpr size_t kMaxLiveWorkers = 65536;
inline constexpr size_t kMaxPastJobs = 64;        // without live ranks, still listed
inline constexpr size_t kMaxGroupsPerJob = 1024;  // the newest are listed

struct Worker {
  RankState state;
  WorkerLoad load;
  uint64_t lease_expires_ns = 0;
  uint64_t last_heartbeat_ns = 0;
  bool has_colocated_server = false;  // was told to
};

struct Job {
  JobId id;
  std::string name;
  uint32_t world_size = 0;
  JobPhase phase = JobPhase::kJoining;
  std::string failure;  // kFailed: who was lost and why
  uint64_t started_at_unix_ms = 0;
  std::map<uint32_t, Worker> workers;  // by rank, those that joined
  std::deque<GroupState> groups;
  size_t live_count = 0;

  bool open() const { return phase == JobPhase::kJoining || phase == JobPhase::kRunning; }
  // "rank 3 of job "gpt" on node b".
  std::string Describe(uint32_t rank) const;
  // By rank of a group whose ranks have all joined the job.
  std::vector<std::string> NodesOf(const std::vector<uint32_t>& ranks) const;
  std::vector<RankLost> LostRanks() const;
  GroupState* FindGroup(GroupId group);  // nullptr: no such group
  std::vector<GroupMap> GroupMaps() const;
};

class JobRegistry {
 public:
  struct Joined {
    JobId job;
    bool held = false;     // another process holds the rank: see below
    bool changed = false;  // false: this incarnation is in already
    bool started_job = false;
    bool job_runs_now = false;  // this was the last rank to come
  };

  struct Gone {
    RankLost rank;    // who, and why
    std::string who;  // for people
    std::string job_name;
    bool lost = false;            // false: left orderly
    bool failed_job_now = false;  // the first rank of the job to be lost
    bool ended_job_now = false;
  };

  explicit JobRegistry(uint64_t lease_ttl_ns) : lease_ttl_ns_(lease_ttl_ns) {}

  void Restore(const Now& now, const std::vector<JobState>& jobs, uint64_t next_job_id);

  // A rank whose holder still has its lease is not refused at once: `held` is set, nothing changes, and the caller asks
  // again when the holder shows a sign of life (then HolderError is the answer) or is gone. So a restarted process need
  // not wait out by itself the lease of the one that it replaces. INVALID_ARGUMENT: world size differs from the job's.
  // RESOURCE_EXHAUSTED: too many jobs or workers.
  absl::StatusOr<Joined> Join(const Now& now, const JoinJob& request);

  // Whether a live rank is to run a colocated server for its job: if `wanted`, one live rank of each node is. The
  // answer to the same process stays the same (until the scheduler restarts).
  bool AssignServer(JobId job, uint32_t rank, bool wanted);

  // ALREADY_EXISTS, naming who holds the rank that `request` wants. Only for a request that Join has just held.
  absl::Status HolderError(const Now& now, const JoinJob& request) const;

  // NOT_FOUND: job unknown, or the rank's lease is over; the text says why.
  absl::Status Renew(const Now& now, const HeartbeatWorker& request);
  // The live worker that a request came from; NOT_FOUND as for Renew.
  absl::StatusOr<Job*> FindMember(JobId job, uint32_t rank, Incarnation incarnation);

  // NOT_FOUND: as for Renew.
  absl::StatusOr<Gone> Leave(const LeaveJob& request);
  std::vector<Gone> ExpireLeases(const Now& now);
  void RenewAll(const Now& now);
  void AddLiveNodes(std::set<std::string>* nodes) const;
  uint64_t next_expiry_ns() const { return next_expiry_ns_; }

  void AddGroup(Job* job, GroupState group);

  const Job* Find(JobId id) const;
  const std::map<JobId, Job>& jobs() const { return jobs_; }
  std::map<JobId, Job>& jobs() { return jobs_; }
  // The job that a name stands for now; nullptr if none does.
  const Job* FindByName(const std::string& name) const;
  uint32_t live_job_count() const;
  uint32_t live_worker_count() const { return static_cast<uint32_t>(live_workers_); }
  uint64_t next_job_id() const { return next_job_id_; }
  // Jobs with a live rank.
  std::vector<JobState> States() const;

 private:
  absl::StatusOr<Job*> JobToJoin(const Now& now, const JoinJob& request, Joined* joined);
  void GrantLease(const Now& now, Worker* worker);
  Gone MarkGone(Job* job, uint32_t rank, MemberPhase phase, const std::string& reason);
  void KeepAsPast(JobId id);

  const uint64_t lease_ttl_ns_;
  std::map<JobId, Job> jobs_;
  std::map<std::string, JobId> by_name_;
  std::deque<JobId> past_jobs_;  // oldest first
  uint64_t next_job_id_ = 1;
  size_t live_workers_ = 0;
  uint64_t next_expiry_ns_ = kNoDeadline;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_JOB_REGISTRY_H_
