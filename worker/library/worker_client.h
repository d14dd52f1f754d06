// This process's membership in a job, with its groups and ops: what the public C functions stand on.
//
// Thread: any, all at the same time. Ownership: handles of callers share a client; Close ends what it does and frees
// its threads and connections, later calls return Cancelled.
#ifndef SHOAL_WORKER_LIBRARY_WORKER_CLIENT_H_
#define SHOAL_WORKER_LIBRARY_WORKER_CLIENT_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/flight_recorder.h"
#include "process/credential_files.h"
#include "process/flight_folder.h"
#include "process/mutex.h"
#include "proto/credentials.h"
#include "proto/trace_sender.h"
#include "worker/colocated/colocated_server.h"
#include "worker/library/caller_records.h"
#include "worker/library/io_thread.h"
#include "worker/library/member_queue.h"
#include "worker/library/member_thread.h"
#include "worker/library/rank_keys.h"
#include "worker/library/result_digests.h"

namespace shoal {

struct WorkerClientOptions {
  std::string scheduler;  // "host:port"
  std::string job_name;
  uint32_t rank = 0;  // of an open job: 0, and so is world_size
  uint32_t world_size = 0;
  std::optional<OpenJob> open = std::nullopt;
  uint32_t local_world_size = 0;  // of the node's ranks, as their launcher says; 0: not known
  std::string node_name;
  std::string boot_id;  // as in JobMember
  uint32_t min_servers = 1;
  uint64_t timeout_ms = 30'000;  // for joining; also the default of groups and ops
  std::string net_device;        // empty: that of each route
  uint32_t network_cards = 1;    // of the node, over which its ranks are dealt; net_device is on one of them
  std::string transports = "tcp";
  bool network_only = false;
  Colocation colocation = Colocation::kOff;  // whether this process would run a colocated server for its job
  std::string server_address;                // at which that server is reached; empty: found out
  bool checksums = false;
  bool check_finite = false;              // contributions are looked at before anything is sent; not with cuda
  bool colocate_without_servers = false;  // run one for the job when none is left, and don't only wait
  bool quiet = false;                     // no lines to standard error
  NodeReduceChoice node_reduce = NodeReduceChoice::kAuto;  // of groups that do not ask for another
  bool cuda = false;                                       // tensors may be on CUDA devices
  uint64_t device_memory_bytes = 0;                        // of the host, for those; 0: CudaStagerOptions'
  std::string flight_recorder = kOwnFlightFolder;  // where a record is written when a group has failed: FlightFolder
  CredentialFiles credentials;                     // that it shows the scheduler
};

struct GroupOptions {
  std::string name;
  std::vector<uint32_t> ranks;   // of the job, in group order; empty: all
  uint32_t max_chunk_bytes = 0;  // 0: the scheduler chooses
  uint64_t timeout_ms = 0;       // 0: the worker's
  WireFormat wire = WireFormat::kAsIs;
  std::optional<NodeReduceChoice> node_reduce;  // none: the worker's
  uint32_t min_ranks = 0;                       // GroupInfo's, as are the next two
  bool scales_sums = false;
  bool whole_op = false;
  bool error_feedback = false;  // then its ranks do not reduce within their nodes, and `wire` rounds
};

// Where a tensor on a device is.
struct DevicePlace {
  uint32_t device = 0;            // its ordinal
  DeviceStream stream = nullptr;  // of that device: behind what is in it the contribution is made
};

struct WorkerStatistics {
  WorkerCounters counters;
  uint64_t map_epoch = 0;
  uint32_t shard_count = 0;
  uint32_t server_count = 0;
  double result_square_sum = 0;
};

class WorkerClient {
 public:
  static constexpr uint64_t kServerGoodbyeMs = 10'000;

  // Errors: those of MemberThread::Join, MakeDataPlaneTransport, MakeHostLocalReduce, NoticeLog::Start,
  // ColocatedServer::Start and CudaStager::Make.
  static absl::StatusOr<std::shared_ptr<WorkerClient>> Connect(const WorkerClientOptions& options);
  ~WorkerClient();  // closes
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  // Errors: those of MemberThread::JoinGroup and IoThread::OpenGroup; FailedPrecondition: the scheduler ended this
  // worker's membership.
  absl::StatusOr<std::shared_ptr<CallerGroup>> CreateGroup(GroupOptions group);

  // So that AllReduce does not wait for the device where it is the first one there. Errors: those of
  // IoThread::OpenDevice.
  absl::Status OpenDevice(uint32_t ordinal);
  // OK: AllReduce takes tensors on devices of this group. FailedPrecondition: this worker has no devices.
  // Unimplemented: its ranks reduce within nodes, and can't among their devices, or its wire has 8 bits, or it has
  // whole_op or error_feedback. Any thread.
  absl::Status CheckTakesDevices(const CallerGroup& group) const;

  // Starts an all-reduce: fills in the call's group, ticket and times (`timeout_ms` 0: the worker's) and submits it.
  // `place` counts for a tensor on a device. With check_finite InvalidArgument: the contribution has NaN or infinity;
  // then the group is aborted on all ranks, which learn why. For a tensor on a device: those of CheckTakesDevices and
  // IoThread::SubmitOnDevice; Unimplemented: NCCL does not reduce it. FailedPrecondition: it is on another device than
  // the group's others. Cancelled, Aborted: the group or worker is closed, or the group is broken.
  absl::StatusOr<std::shared_ptr<CallerOp>> AllReduce(const std::shared_ptr<CallerGroup>& group, SubmitCommand call,
                                                      const DevicePlace& place, uint64_t timeout_ms);

  // What comes in the stream after this call sees the op's result. InvalidArgument: its tensor is not on a device.
  // Other errors: those of IoThread::WaitOnStream.
  absl::Status WaitOnStream(const CallerOp& op, DeviceStream stream);
  // False: not complete by then.
  bool Wait(CallerOp* op, uint64_t deadline_ns);
  // Looks at a complete op's result, once, before its caller may change it: with check_finite its squares are counted,
  // while an operator compares results its digest is taken.
  void CountResult(CallerOp* op);

  // The op's completion is fetched from completions(). FailedPrecondition: that was asked for before.
  absl::Status Notify(const std::shared_ptr<CallerOp>& op, uint64_t user_data);

  void AbortGroup(CallerGroup* group, const std::string& reason);
  // Waits until the group's ops are complete and its end is known.
  void CloseGroup(CallerGroup* group);

  // Of this process in its job. Any thread.
  uint32_t rank() const { return rank_; }
  absl::StatusOr<WorkerStatistics> Statistics();
  CompletionQueue& completions() { return completions_; }

  // Leaves the job as a rank that is lost, for which others need not wait. What is open ends with Cancelled; Close
  // frees the rest.
  void GiveUp(const std::string& reason);

  // Ends open ops with Cancelled, closes groups, leaves the job, waits for flight records to be written and sent, and
  // joins all threads. Takes a few seconds at most, also when nobody answers; a process that runs a colocated server
  // waits for the other ranks to leave its groups, at most kServerGoodbyeMs. Idempotent.
  void Close();

 private:
  WorkerClient(const WorkerClientOptions& options, Incarnation incarnation, std::unique_ptr<NoticeLog> notices,
               const Credentials& credentials);

  // "rank 0 of job "gpt" on node-1"; "process 77 of ..." before an open job has said which rank it is.
  std::string Describe() const;
  std::vector<TraceSource> SourcesOfTraces();
  void SaveFlight(const CallerGroup& group, const absl::Status& why);
  // What happened before a failure, to the scheduler. The folder's thread.
  std::string SendFlight(const FlightFolder::Record& record, uint64_t deadline_ns) const;
  absl::Status Start();
  // But for the job, and the time that it may take.
  ColocatedServerOptions ServerOptions() const;
  // Of a group that the scheduler has made. FailedPrecondition: kNccl was asked for and can't be had.
  absl::StatusOr<std::shared_ptr<CallerGroup>> OpenGroup(const std::shared_ptr<const GroupInfo>& info,
                                                         NodeReduceChoice choice, uint64_t deadline_ns);
  // Whether this rank may reduce with others on its node: with devices and without NCCL only if that was asked for by
  // name, as the group takes no tensors on devices then. `goes_on`: without lost ranks, which NCCL can't. Any thread.
  bool CanNodeReduce(NodeReduceChoice choice, bool goes_on = false);
  // What this rank says to the others of the node; not OK: why it can't reduce among devices. Any thread.
  absl::StatusOr<DeviceMeeting> MeetingOnDevices(const GroupInfo& info, NodeReduceChoice choice);
  // Looked for when it is first needed, so that a program's own is loaded before. Any thread.
  absl::StatusOr<std::shared_ptr<const nccl::Api>> Nccl();
  // Measured at the first call, which takes a few round trips and 512 KiB, and half a second at most until no other
  // rank of the node measures; zeros where nothing could be measured.
  LinkFacts Link(uint64_t deadline_ns);
  // Of the scheduler's Watch stream and the groups; nullptr: none is known yet.
  std::shared_ptr<const ShardMap> NewestMap() const;

  const WorkerClientOptions options_;
  std::atomic<uint32_t> rank_;  // of an open job: none before the process has joined
  const Incarnation incarnation_;
  const std::unique_ptr<NoticeLog> notices_;
  const Credentials credentials_;
  CompletionQueue completions_;
  MemberQueue member_queue_;
  FlightRecorder recorder_;                // of the I/O thread's turn, but for traces
  std::unique_ptr<FlightFolder> flights_;  // null: none. Of Close when the I/O thread has ended
  ResultDigests digests_;
  RankKeys keys_;
  TraceSender traces_;
  bool can_node_reduce_ = false;  // set by Start
  std::unique_ptr<IoThread> io_;  // null: never joined
  std::unique_ptr<MemberThread> member_;
  std::atomic<uint64_t> next_ticket_ = 1;

  Mutex squares_mutex_;
  double result_square_sum_ SHOAL_GUARDED_BY(squares_mutex_) = 0;

  Mutex nccl_mutex_;
  // Absent: not looked for yet.
  std::optional<absl::StatusOr<std::shared_ptr<const nccl::Api>>> nccl_ SHOAL_GUARDED_BY(nccl_mutex_);

  Mutex link_mutex_;
  std::optional<LinkFacts> link_ SHOAL_GUARDED_BY(link_mutex_);

  mutable Mutex map_mutex_;
  std::shared_ptr<const ShardMap> newest_group_map_ SHOAL_GUARDED_BY(map_mutex_);

  Mutex close_mutex_;
  bool closed_ SHOAL_GUARDED_BY(close_mutex_) = false;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_WORKER_CLIENT_H_
