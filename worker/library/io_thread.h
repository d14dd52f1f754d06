// The worker's I/O thread: drives a WorkerLoop over a transport and a reduction within the node, and tells callers what
// came of their calls.
//
// Thread: any, but Stop from one at a time. The transport, the reduction, the stager's side of the loop and the loop
// belong to whoever has the turn: the thread that Start makes, or, while that one stands back, a caller who waits for a
// small op (docs/adr/0016).
#ifndef SHOAL_WORKER_LIBRARY_IO_THREAD_H_
#define SHOAL_WORKER_LIBRARY_IO_THREAD_H_

#include <atomic>
#include <bitset>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/transport.h"
#include "process/mutex.h"
#include "process/notice_log.h"
#include "worker/device/cuda_stager.h"
#include "worker/library/caller_records.h"
#include "worker/library/member_queue.h"
#include "worker/library/submit_queue.h"
#include "worker/local_reduce/local_reduce.h"
#include "worker/loop/worker_loop.h"

namespace shoal {

class IoThread {
 public:
  // What is done when an op has failed its group, but for one that this process ended itself (CANCELLED). Called in the
  // loop's turn: it must not block, and may read what belongs to the turn.
  using OnGroupFailed = std::function<void(const CallerGroup& group, const absl::Status& why)>;

  // `completions`, `member` (which hears of troubles with servers) and `notices` outlive the thread. `local_reduce`:
  // nullptr: there is none; `stager` likewise. ResourceExhausted: the process can't have another thread.
  static absl::StatusOr<std::unique_ptr<IoThread>> Start(std::unique_ptr<Transport> transport,
                                                         std::unique_ptr<LocalReduce> local_reduce,
                                                         std::unique_ptr<CudaStager> stager,
                                                         const WorkerMachineOptions& options,
                                                         CompletionQueue* completions, MemberQueue* member,
                                                         NoticeLog* notices, OnGroupFailed on_group_failed = nullptr);
  ~IoThread();  // stops
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  // Measures the way to a server, for at most `timeout_ms`. Zeros where nothing could be measured. One at a time.
  LinkFacts MeasureLink(const Shard& shard, uint64_t timeout_ms);

  // Opens a group on its servers and waits for that. Errors: those of the machine; ResourceExhausted: kMaxWorkerGroups
  // are open; Cancelled: stopped.
  // `devices`: as LocalGroup has it.
  absl::StatusOr<std::shared_ptr<CallerGroup>> OpenGroup(std::shared_ptr<const GroupInfo> info, uint64_t deadline_ns,
                                                         const std::optional<DeviceMeeting>& devices = std::nullopt);

  // Errors: those of SubmitQueue::Submit.
  absl::Status Submit(const SubmitCommand& command, const std::shared_ptr<CallerOp>& op);
  // Errors: those of CudaStager::Open; FailedPrecondition: this worker was connected without devices.
  absl::Status OpenDevice(uint32_t ordinal);
  // Of a tensor on a device. The host waits for nothing that is on a device that was opened. FailedPrecondition: this
  // worker was connected without devices, or the stream is being captured. Other errors: those of SubmitQueue::Submit
  // and CudaStager::Prepare; where the device or the host's memory is to blame the group has failed as well, because
  // the other ranks have begun the op. What goes wrong later ends the op.
  absl::Status SubmitOnDevice(const SubmitCommand& command, const std::shared_ptr<CallerOp>& op,
                              const DeviceOpCall& call);
  // On all ranks, because of something that concerns this one alone.
  void FailGroup(CallerGroup* group, const std::string& reason);
  // All groups, as those of a rank that is lost.
  void GiveUp(const std::string& reason);
  // What comes in the stream after this call sees the result of an op that was submitted on a device. Errors: those of
  // CudaStager::WaitOnStream.
  absl::Status WaitOnStream(const CallerOp& op, DeviceStream stream);
  // False: not complete by then. For a small op the caller runs the loop's rounds itself for a while before it sleeps.
  bool Wait(CallerOp* op, uint64_t deadline_ns);

  SubmitQueue& queue() { return queue_; }

  // As they are now; of a stopped thread as they were at its end. Unavailable: the thread does not answer.
  absl::StatusOr<WorkerCounters> Counters();

  // Ends open ops with Cancelled, says goodbye to the servers (giving up after `goodbye_ms`) and joins the thread. Then
  // every op is complete and every group closed. Idempotent.
  void Stop(uint64_t goodbye_ms);

 private:
  // The way back from the driver's callbacks, which may come when the thread is gone.
  struct ReadyTensors {
    Mutex mutex;
    SubmitQueue* queue SHOAL_GUARDED_BY(mutex) = nullptr;  // null: the thread is gone

    void Post(WorkerCommand command);
  };

  IoThread(std::unique_ptr<Transport> transport, std::unique_ptr<LocalReduce> local_reduce,
           std::unique_ptr<CudaStager> stager, const WorkerMachineOptions& options, CompletionQueue* completions,
           MemberQueue* member, NoticeLog* notices, OnGroupFailed on_group_failed);

  struct Round {
    uint64_t at_ns = 0;     // when it began
    bool progress = false;  // something happened in it
  };

  void Run();
  // What fails in the middle of a round (memory) can't be given to whichever caller runs it: it ends the
  // process.
  Round RunRound() noexcept SHOAL_REQUIRES(turn_);
  // Runs a round if the turn is free and the I/O thread does not sleep, which is then to be woken first.
  Round TryRound();
  void RunRoundsUntilDone(CallerOp* op, uint64_t deadline_ns);
  // What the machine must be told, what callers wait for: takes a round's batch. Callers' records go to the tables.
  void Register(SubmittedBatch* batch) SHOAL_REQUIRES(turn_);
  void Deliver(const WorkerOutcomes& outcomes) SHOAL_REQUIRES(turn_);
  void Deliver(const GroupOpened& outcome) SHOAL_REQUIRES(turn_);
  // What waits on devices for other ranks ends.
  static void AbortOnDevices(const CallerGroup& group);
  void Deliver(const OpDone& outcome) SHOAL_REQUIRES(turn_);
  void Deliver(const GroupBroken& outcome) SHOAL_REQUIRES(turn_);
  void Deliver(const GroupClosed& outcome) SHOAL_REQUIRES(turn_);
  // So that the scheduler hears of it.
  void Tell(MembershipCommand command);
  void Deliver(const LinkMeasured& outcome) SHOAL_REQUIRES(turn_);
  void Complete(const std::shared_ptr<CallerOp>& op, const absl::Status& status, uint64_t duration_ns)
      SHOAL_REQUIRES(turn_);
  // Of an op that a group's WholeOps have submitted. True: it is submitted once more.
  bool IsRepeated(const CallerOp& op, const OpDone& outcome) SHOAL_REQUIRES(turn_);
  // After such an op, which has ended.
  void GoOn(CallerGroup* group, const absl::Status& status) SHOAL_REQUIRES(turn_);
  // False if something waits: the thread must not sleep.
  bool PrepareToSleep(std::optional<int64_t>* timeout_ns) SHOAL_REQUIRES(turn_);
  void EndWhatIsLeft() SHOAL_REQUIRES(turn_);

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<LocalReduce> local_reduce_;  // null: there is none
  const std::unique_ptr<CudaStager> stager_;   // null: there is none
  CompletionQueue* const completions_;
  MemberQueue* const member_;
  NoticeLog* const notices_;
  const OnGroupFailed on_group_failed_;  // may be empty
  SubmitQueue queue_;
  std::unique_ptr<WorkerLoop> loop_;
  const std::shared_ptr<ReadyTensors> ready_tensors_ = std::make_shared<ReadyTensors>();

  std::atomic<uint32_t> callers_looking_ = 0;  // that run rounds
  std::atomic<bool> has_ops_ = false;          // written under turn_
  std::atomic<bool> has_large_ops_ = false;    // likewise

  Mutex turn_;
  SubmittedBatch batch_ SHOAL_GUARDED_BY(turn_);
  WorkerOutcomes outcomes_ SHOAL_GUARDED_BY(turn_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<CallerOp>> ops_ SHOAL_GUARDED_BY(turn_);  // by ticket
  std::vector<std::shared_ptr<CallerGroup>> groups_ SHOAL_GUARDED_BY(turn_);              // by handle
  size_t small_ops_ SHOAL_GUARDED_BY(turn_) = 0;                                          // of ops_
  bool progressed_ SHOAL_GUARDED_BY(turn_) = false;                                       // in the last round
  uint64_t progress_ns_ SHOAL_GUARDED_BY(turn_) = 0;       // begin of the round after the last one with progress
  bool caller_ran_round_ SHOAL_GUARDED_BY(turn_) = false;  // since the I/O thread stood back
  bool asleep_ SHOAL_GUARDED_BY(turn_) =
      false;  // what wakes it is armed: a round would take what is to wake the I/O thread
  bool shutdown_done_ SHOAL_GUARDED_BY(turn_) = false;

  Mutex mutex_;
  std::bitset<kMaxWorkerGroups> handles_in_use_ SHOAL_GUARDED_BY(mutex_);
  WorkerCounters last_counters_ SHOAL_GUARDED_BY(mutex_);                          // set when the thread ends
  std::shared_ptr<std::promise<LinkFacts>> measurement_ SHOAL_GUARDED_BY(mutex_);  // null: nobody waits for one

  Mutex stop_mutex_;
  std::thread thread_;  // joined under stop_mutex_
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_IO_THREAD_H_
