// Keeps this process a member of its job: renews the lease and follows what the scheduler says of the others.
//
// Thread: any. Three threads of its own: one sends heartbeats, one reads the Watch stream, one reports lost servers.
// Losses of ranks and new maps of groups go to the I/O thread's queue; when the scheduler asks for it because no server
// is left, it runs one (docs/adr/0015). A scheduler that is away changes nothing (invariant I6): the threads try again
// until Stop. When the scheduler says that the lease is over, the membership ends; groups that are open go on without
// it.
#ifndef SHOAL_WORKER_LIBRARY_JOB_MEMBERSHIP_H_
#define SHOAL_WORKER_LIBRARY_JOB_MEMBERSHIP_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/wait_report.h"
#include "process/notice_log.h"
#include "worker/colocated/colocated_server.h"
#include "worker/library/io_thread.h"
#include "worker/rpc/scheduler_client.h"

namespace shoal {

class JobMembership {
 public:
  // `scheduler`, `io`, `troubles` and `notices` outlive it. `may_colocate`: how to run a colocated server; none: not
  // to. ResourceExhausted: the process can't have more threads.
  static absl::StatusOr<std::unique_ptr<JobMembership>> Start(SchedulerClient* scheduler, IoThread* io,
                                                              TroubleQueue* troubles, NoticeLog* notices,
                                                              const JobMember& member, const JoinedJob& job,
                                                              std::optional<ColocatedServerOptions> may_colocate);
  ~JobMembership();  // stops
  JobMembership(const JobMembership&) = delete;
  JobMembership& operator=(const JobMembership&) = delete;

  // OK, or how the scheduler ended the membership (FailedPrecondition).
  absl::Status status() const;
  // The newest map that the scheduler published; nullptr before the first.
  std::shared_ptr<const ShardMap> map() const;
  // Waits for the first map; nullptr: none came by the deadline.
  std::shared_ptr<const ShardMap> WaitForMap(uint64_t deadline_ns);

  // After Stop: the server that is hosted here, now the caller's. Null: none is.
  std::unique_ptr<ColocatedServer> TakeServer() { return std::move(server_); }

  // Call SchedulerClient::CancelCalls first: it ends the call and the stream that the threads wait in. Idempotent; one
  // thread at a time.
  void Stop();

 private:
  JobMembership(SchedulerClient* scheduler, IoThread* io, TroubleQueue* troubles, NoticeLog* notices,
                const JobMember& member, const JoinedJob& job, std::optional<ColocatedServerOptions> may_colocate);

  void SendHeartbeats();
  // Lines for people about a scheduler that is away, and about groups that wait for ranks or servers.
  void ReportWaits(const absl::StatusOr<HeartbeatAnswer>& renewal);
  void FollowWatch();
  void StartColocatedServer(const std::string& because);
  void ReportTroubles();
  // False: Stop was called.
  bool Sleep(uint64_t ns);
  bool stopping() const;

  SchedulerClient* const scheduler_;
  IoThread* const io_;
  TroubleQueue* const troubles_;
  NoticeLog* const notices_;
  const JobMember member_;
  const JoinedJob job_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // stopping_, or the first map
  // Under mutex_:
  bool stopping_ = false;
  absl::Status status_;
  std::shared_ptr<const ShardMap> map_;

  // Of the watch thread alone:
  std::set<JobRank> lost_ranks_told_;
  std::optional<ColocatedServerOptions> may_colocate_;
  std::unique_ptr<ColocatedServer> server_;  // and of the caller after Stop
  // Of the heartbeat thread alone.
  std::optional<WaitReport> scheduler_wait_;
  std::optional<WaitReport> group_wait_;
  std::thread heartbeat_thread_;
  std::thread watch_thread_;
  std::thread report_thread_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_JOB_MEMBERSHIP_H_
