// The thread that keeps this process a member of its job: it owns a MembershipLoop and its gRPC port, and hands what
// comes out to callers, to the I/O thread and to the program's standard error.
//
// Thread: any. Callers wait on condition variables; the thread itself waits for nobody but gRPC. A colocated server
// takes a while to start: that happens on a thread of its own, which ends then.
#ifndef SHOAL_WORKER_LIBRARY_MEMBER_THREAD_H_
#define SHOAL_WORKER_LIBRARY_MEMBER_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "process/mutex.h"
#include "process/notice_log.h"
#include "proto/credentials.h"
#include "proto/trace_sender.h"
#include "worker/colocated/colocated_server.h"
#include "worker/library/io_thread.h"
#include "worker/library/member_queue.h"
#include "worker/library/rank_keys.h"
#include "worker/loop/membership_loop.h"
#include "worker/rpc/grpc_scheduler_port.h"

namespace shoal {

class MemberThread {
 public:
  // `credentials`: that the scheduler is shown. `queue`, `io`, `keys`, `notices` and `traces` outlive it; it is the
  // only reader of `queue`. `colocated`: how to run a colocated server, but for the job and the time that it may take.
  // ResourceExhausted: the process can't have another thread.
  static absl::StatusOr<std::unique_ptr<MemberThread>> Start(const MembershipOptions& options,
                                                             const Credentials& credentials,
                                                             const ColocatedServerOptions& colocated,
                                                             MemberQueue* queue, IoThread* io, RankKeys* keys,
                                                             NoticeLog* notices, TraceSender* traces);
  ~MemberThread();  // stops, without leaving the job
  MemberThread(const MemberThread&) = delete;
  MemberThread& operator=(const MemberThread&) = delete;

  // Joins the job. Once. Errors: those of JoinEnded.
  absl::Status Join(uint64_t deadline_ns);
  // Errors: those of GroupJoinEnded; ResourceExhausted: too many calls wait already.
  absl::StatusOr<GroupInfo> JoinGroup(const GroupRequest& request, uint64_t deadline_ns);

  // Once Join has succeeded.
  JobId job() const;
  JobRank rank() const;
  // OK, or how the scheduler ended the membership (FailedPrecondition).
  absl::Status status() const;
  // The newest map that the scheduler published; nullptr before the first.
  std::shared_ptr<const ShardMap> map() const;
  // Waits for the first map; nullptr: none came by the deadline.
  std::shared_ptr<const ShardMap> WaitForMap(uint64_t deadline_ns);

  // Ends what callers wait for, with Cancelled. The lease is renewed until Leave.
  void Close();
  // Tells the scheduler that this process leaves the job and what it has counted (nullopt: that can not be known), for
  // two seconds at most, and ends the thread. Call Close first. Idempotent; one thread at a time.
  void Leave(const std::string& reason, bool failed, std::optional<WorkerCounters> counters);
  // After Leave: the colocated server of this process, now the caller's. Null: none runs.
  std::unique_ptr<ColocatedServer> TakeServer();

 private:
  struct GroupAnswer {
    std::optional<absl::StatusOr<GroupInfo>> group;
  };

  MemberThread(const MembershipOptions& options, const Credentials& credentials,
               const ColocatedServerOptions& colocated, MemberQueue* queue, IoThread* io, RankKeys* keys,
               NoticeLog* notices, TraceSender* traces);

  void Run();
  void Stop();
  void Deliver(JoinEnded& outcome);
  void Deliver(GroupJoinEnded& outcome);
  void Deliver(MembershipEnded& outcome);
  void Deliver(MapPublished& outcome);
  void Deliver(TicketCame& outcome);
  void Deliver(ReadStatistics& outcome);
  void Deliver(RunColocatedServer& outcome);
  void Deliver(Left& outcome);
  void Deliver(TraceAsked& outcome);
  void Deliver(MembershipNotice& outcome);
  void Deliver(RankLostCommand& outcome);
  void Deliver(MoveGroupCommand& outcome);
  void Deliver(GiveGroupUpCommand& outcome);
  void EndWaits();

  const ColocatedServerOptions colocated_;
  MemberQueue* const queue_;
  IoThread* const io_;
  RankKeys* const keys_;
  NoticeLog* const notices_;
  TraceSender* const traces_;
  GrpcSchedulerPort port_;  // of the thread, but for Wake
  MembershipLoop loop_;     // of the thread

  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  bool ended_ SHOAL_GUARDED_BY(mutex_) = false;  // nothing comes out any more
  std::optional<absl::StatusOr<JoinedJob>> joined_ SHOAL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<GroupAnswer>> group_answers_ SHOAL_GUARDED_BY(mutex_);  // by ticket
  uint64_t last_ticket_ SHOAL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<const ShardMap> map_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<ColocatedServer> server_ SHOAL_GUARDED_BY(mutex_);

  std::thread server_starter_;  // of the thread; then of who has joined that one
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_MEMBER_THREAD_H_
