// What a worker says to the scheduler, over gRPC.
//
// Thread: any. Every call blocks until its answer or its deadline (on MonotonicNs()); CancelCalls ends them early with
// Cancelled. Calls that may wait for the scheduler to come (JoinJob, JoinGroup) try again while it can't be reached.
// Errors of all calls: the scheduler's own code and message; Unavailable "no scheduler answered at H:P within 30 s ..."
// when there was no answer; FailedPrecondition when what answers is not a scheduler of ours.
#ifndef SHOAL_WORKER_RPC_SCHEDULER_CLIENT_H_
#define SHOAL_WORKER_RPC_SCHEDULER_CLIENT_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/colocation.h"
#include "core/ids.h"
#include "core/shard_map.h"
#include "process/notice_log.h"
#include "worker/machine/group_info.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_outcomes.h"

namespace grpc {
class ClientContext;
}

namespace shoal {

// Who this process is in its job.
struct JobMember {
  std::string job_name;
  uint32_t rank = 0;
  uint32_t world_size = 0;
  Incarnation incarnation;
  std::string node;
  Colocation colocation = Colocation::kOff;
  bool colocates_without_servers = false;
};

struct JoinedJob {
  JobId id;
  uint64_t lease_ttl_ms = 0;
  uint32_t server_count = 0;
  bool colocate_server = false;  // this process is to run a colocated server for the job
};

struct HeartbeatAnswer {
  uint64_t ttl_ms = 0;
  std::vector<std::string> waits;  // groups that this rank waits for already some time, and for whom
};

struct GroupRequest {
  std::string name;
  std::vector<uint32_t> ranks;   // of the job, in group order
  uint32_t max_chunk_bytes = 0;  // 0: the scheduler chooses
  LinkFacts link;                // as measured
  uint32_t min_servers = 1;
  WireFormat wire = WireFormat::kAsIs;
};

// What a Watch stream brings: each part is empty if nothing changed.
struct WatchNews {
  std::shared_ptr<const ShardMap> map;
  std::vector<RankLostCommand> lost_ranks;
  std::vector<MoveGroupCommand> moved_groups;
  // Ranks that are to run a colocated server, as none is left; and why that is so.
  std::vector<uint32_t> colocation_wanted;
  std::string colocation_wanted_because;
};

class SchedulerClient {
 public:
  // An open Watch stream. One thread.
  class WatchStream {
   public:
    virtual ~WatchStream() = default;
    // Blocks. False: the stream is over.
    virtual bool Read(WatchNews* news) = 0;
  };

  // `address` is "host:port". Connects with the first call. `notices` outlives it, and hears of long waits.
  SchedulerClient(std::string address, NoticeLog* notices);
  ~SchedulerClient();

  const std::string& address() const { return address_; }

  // Waits until `min_servers` servers are registered, too. AlreadyExists: another process holds the rank.
  // InvalidArgument: the world size differs from the job's, and others. DeadlineExceeded: too few servers; the job is
  // left again.
  absl::StatusOr<JoinedJob> JoinJob(const JobMember& member, uint32_t min_servers, uint64_t deadline_ns);

  // Waits for the other ranks and for servers. DeadlineExceeded names who is missing. NotFound: no member any more.
  absl::StatusOr<GroupInfo> JoinGroup(const JobMember& member, JobId job, const GroupRequest& request,
                                      uint64_t deadline_ns);

  // NotFound: the lease is over. After silence the next call uses a new connection.
  absl::StatusOr<HeartbeatAnswer> Heartbeat(const JobMember& member, JobId job, const WorkerCounters& load,
                                            uint64_t deadline_ns);

  // Asks for a new map of the group. NotFound: no member any more.
  absl::Status ReportServer(const JobMember& member, JobId job, const ServerTrouble& trouble, uint64_t deadline_ns);

  // Works after CancelCalls as well. `failed`: the other ranks are told that this one is lost.
  absl::Status LeaveJob(const JobMember& member, JobId job, const std::string& reason, bool failed,
                        uint64_t deadline_ns);

  // Must end before the client does. After CancelCalls its first Read is false.
  std::unique_ptr<WatchStream> Watch(JobId job);

  // Ends all calls and streams, and later ones at once.
  void CancelCalls();

 private:
  class Connection;
  class CallScope;
  class GrpcWatchStream;
  using CallSet = std::set<grpc::ClientContext*>;

  // `calls`: where CancelCalls finds it; may be null.
  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, uint64_t deadline_ns, CallSet* calls, Response* response);
  // Calls `attempt` again while it says that the scheduler can't be reached. `waits_for_others`: it may last although
  // one can.
  template <typename Attempt>
  absl::Status TryUntil(uint64_t deadline_ns, bool waits_for_others, Attempt attempt);
  std::shared_ptr<Connection> connection();
  // Also ends open streams, and has calls that wait for other ranks made again: they'd stay with a silent scheduler.
  void Reconnect(const std::shared_ptr<Connection>& broken);
  // False: CancelCalls was called.
  bool Sleep(uint64_t ns);

  const std::string address_;
  const std::string target_;  // what gRPC is given
  NoticeLog* const notices_;
  std::atomic<uint64_t> group_requests_{0};  // so far: an attempt that broke is repeated under its number
  std::mutex mutex_;
  std::condition_variable cancelled_changed_;
  // Under mutex_:
  std::shared_ptr<Connection> connection_;
  CallSet calls_;
  CallSet waits_;  // may last
  bool cancelled_ = false;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_RPC_SCHEDULER_CLIENT_H_
