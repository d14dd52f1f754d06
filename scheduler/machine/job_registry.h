// The jobs that the scheduler knows. Pure; one thread.
//
// Finds them by name and id, bounds how many there are, and keeps the leases of their ranks. The name of an ended or
// failed job may be used again: the next to join it starts a new job.
#ifndef SHOAL_SCHEDULER_MACHINE_JOB_REGISTRY_H_
#define SHOAL_SCHEDULER_MACHINE_JOB_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/now.h"
#include "scheduler/machine/job.h"
#include "scheduler/machine/job_groups.h"
#include "scheduler/machine/node_place.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxLiveJobs = 4096;
inline constexpr size_t kMaxLiveWorkers = 65536;
inline constexpr size_t kMaxPastJobs = 64;  // without live ranks, still listed

class JobRegistry {
 public:
  struct Joined {
    JobId job;
    JobRank rank;
    bool held = false;     // another process holds the rank: see Join
    bool changed = false;  // false: this incarnation has joined already
    bool started_job = false;
    bool job_runs_now = false;  // this was the last rank to join, or the last that an open job waited for
  };

  struct Gone {
    RankLost rank;
    std::string who;  // the rank in words: Job::Describe
    std::string job_name;
    bool lost = false;                   // false: it left in good order
    std::vector<GroupId> groups = {};    // those that it had not closed
    std::vector<GroupId> going_on = {};  // JobGroups::NoteLost
    // It was the first one to be lost, or an open job has too few left, or the last one to go, and there is a
    // Job::failure.
    bool failed_job_now = false;
    std::string failure;  // of the job, if it failed now
    bool ended_job_now = false;
  };

  explicit JobRegistry(uint64_t lease_ttl_ns) : lease_ttl_ns_(lease_ttl_ns) {}

  void Restore(const std::vector<JobState>& jobs, uint64_t next_job_id, Now now);

  // A process that wants a rank whose holder still has its lease is not refused at once: `held` is set, nothing
  // changes, and the caller asks again when the holder is gone, or answers with Job::HolderError when the holder shows
  // a sign of life. So a restarted process need not wait for the end of its predecessor's lease itself.
  // INVALID_ARGUMENT: world size differs from the job's, or one is open and the other is fixed. RESOURCE_EXHAUSTED: too
  // many jobs or workers. Where tenants are known, the last quarter of both is for those who have less than an equal
  // part, counted with one more who may come: so nobody's jobs keep another tenant out.
  absl::StatusOr<Joined> Join(const JoinJob& request, Now now);

  // NOT_FOUND: job unknown, or the rank's lease is over; the text says why.
  absl::Status Renew(const HeartbeatWorker& request, Now now);
  // The job of the live worker that a request came from; NOT_FOUND as for Renew.
  absl::StatusOr<const Job*> FindMember(JobId job, JobRank rank, Incarnation incarnation) const;

  // The process does not know yet that it has the rank: its lease does not run out before BeginLease.
  void HoldLease(JobId job, JobRank rank);
  // The rank's lease counts from now, if the process is live and still has the rank.
  void BeginLease(JobId job, JobRank rank, Incarnation incarnation, Now now);

  // NOT_FOUND: as for Renew.
  absl::StatusOr<Gone> Leave(const LeaveJob& request, Now now);
  // Those whose lease ran out or whose process has ended, now lost; or not, as TakeOver says. `is_awaited`: another
  // process waits for the place, and the caller gives it to that one when this returns.
  std::vector<Gone> ExpireLeases(const std::function<bool(JobId, JobRank)>& is_awaited, Now now);
  // All leases start anew. What shows that a process has ended stays, and counts if `ends_processes`; else it does with
  // the next call that says so.
  void RenewLeases(bool ends_processes, Now now);
  // After a moment in which nobody was heard: leases start anew of those who have sent a heartbeat since they last did
  // so for that reason. What shows that a process has ended counts.
  void ExtendLeasesOnce(Now now);
  // As RenewLeases, after a time in which this scheduler was not reached: what was seen then is no evidence.
  void RenewAll(Now now);

  // A process opened a Watch stream for its job; the stream is closed.
  void OnStreamOpened(const WatchOpened& stream);
  void OnStreamClosed(WatcherId watcher, Now now);
  // A server lost the connection of a rank, in this epoch of the group or an older one.
  void OnRankAbsent(const AbsentRankReport& absent, Now now);
  // The rank's holder has ended, and this process takes its place. Only when that time has come. It is not lost, and
  // the job goes on, if the job was started again before all of its ranks had come, or after some had left: ranks of
  // the new run have taken places that were free, and share no group with the holder.
  Gone TakeOver(JobId job, const JoinJob& request, Now now);

  void AddLivePlaces(std::vector<NodePlace>* places) const;
  uint64_t next_expiry_ns() const { return next_expiry_ns_; }

  // A job that is there.
  Job& At(JobId job) { return jobs_.at(job); }
  // All groups that do without the server may use it again.
  void ForgetExclusions(ServerId server);

  const Job* Find(JobId id) const;
  const std::map<JobId, Job>& jobs() const { return jobs_; }
  // The newest job of that name; nullptr: there is none.
  const Job* FindByName(const std::string& name) const;
  // NotFound, with the open jobs: of a name that no job has.
  absl::Status NoneNamed(const std::string& name) const;
  // NotFound: no job has the name. FailedPrecondition: it has ended or failed, so there is nothing to `verb`.
  absl::StatusOr<const Job*> FindOpen(const std::string& name, std::string_view verb) const;
  uint32_t live_job_count() const;
  uint32_t live_worker_count() const { return static_cast<uint32_t>(live_workers_); }
  uint64_t next_job_id() const { return next_job_id_; }
  // Jobs with a live rank.
  std::vector<JobState> States() const;

 private:
  static absl::Status CheckKind(const Job& job, const JoinJob& request);
  // RESOURCE_EXHAUSTED: what all tenants share runs out, and the one who asks has enough of it.
  absl::Status CheckShare(const std::string& tenant, bool begins_job) const;
  absl::StatusOr<Job*> JobToJoin(const JoinJob& request, Joined* joined, Now now);
  void GrantLease(Worker* worker, Now now);
  Gone MarkGone(Job* job, JobRank rank, MemberPhase phase, const std::string& reason, Now now);
  void KeepAsPast(JobId id);

  // The live worker of that process; nullptr: there is none.
  Worker* FindLive(JobId job, JobRank rank, Incarnation incarnation);

  struct Streamer {
    JobId job;
    JobRank rank;
    Incarnation incarnation;
  };

  const uint64_t lease_ttl_ns_;
  std::map<WatcherId, Streamer> streams_;  // open ones, of live workers when they were opened
  std::map<JobId, Job> jobs_;
  std::map<std::string, JobId> by_name_;
  std::deque<JobId> past_jobs_;  // oldest first
  uint64_t next_job_id_ = 1;
  size_t live_workers_ = 0;
  uint64_t next_expiry_ns_ = kNoDeadline;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_JOB_REGISTRY_H_
