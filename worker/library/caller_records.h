// What callers of the library wait on: records of ops and groups that the loop fills in.
//
// Thread: any. Ownership: shared between the caller's handle and the loop's tables, so a handle may be released first.
#ifndef SHOAL_WORKER_LIBRARY_CALLER_RECORDS_H_
#define SHOAL_WORKER_LIBRARY_CALLER_RECORDS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/dtype.h"
#include "process/mutex.h"
#include "worker/device/device_op.h"
#include "worker/device/local_devices.h"
#include "worker/library/error_feedback.h"
#include "worker/library/whole_ops.h"
#include "worker/machine/group_info.h"
#include "worker/machine/worker_counters.h"

namespace shoal {

class CallerGroup {
 public:
  CallerGroup(GroupHandle handle, std::shared_ptr<const GroupInfo> info)
      : handle_(handle), info_(std::move(info)), whole_ops_(info_->whole_op ? std::make_unique<WholeOps>() : nullptr) {}

  GroupHandle handle() const { return handle_; }
  const GroupInfo& info() const { return *info_; }
  WholeOps* whole_ops() const { return whole_ops_.get(); }  // nullptr: the group has none
  // nullptr: the group has none. Set before anybody else sees the group.
  ErrorFeedback* error_feedback() const { return error_feedback_.get(); }
  void UseErrorFeedback() { error_feedback_ = std::make_unique<ErrorFeedback>(info_->wire); }

  // How opening ended; the first word counts. The rest is as LocalGroupMet has it. False: whoever waited for it has
  // given up, so that nobody will close the group.
  bool SetOpened(const absl::Status& status, const std::optional<DeviceMeeting>& devices = std::nullopt,
                 std::shared_ptr<const NodeFailures> failures = nullptr);
  // How opening ended; Internal if nothing was said until the deadline (the I/O thread is stuck).
  absl::Status WaitOpened(uint64_t deadline_ns);

  // Of an open group that is reduced within nodes.
  std::optional<DeviceMeeting> device_meeting() const;
  std::shared_ptr<const NodeFailures> node_failures() const;

  // How its ranks on this node reduce among their devices; nullptr: they can't, or it is too late. Set before the group
  // is its caller's.
  void SetLocalDevices(std::shared_ptr<LocalDevices> devices);
  std::shared_ptr<LocalDevices> local_devices() const;
  // At the end of the group.
  std::shared_ptr<LocalDevices> TakeLocalDevices();

  // A group's ops on devices come to their streams in the order of their numbers.
  Mutex& launch_mutex() SHOAL_RETURNS_MUTEX(launch_mutex_) { return launch_mutex_; }

  // Once: nothing of the group is left in the machine.
  void SetClosed();
  // False: not by then.
  bool WaitClosed(uint64_t deadline_ns);

  // True: it is the group's first failure, which stays; later submits end with it at once.
  bool SetFailure(const absl::Status& why);
  // OK, or why the group takes no more ops.
  absl::Status failure() const;
  // The group is broken while no op of it need be open. The next op will fail with that, as ops do, and not when it is
  // submitted.
  void SetBroken(const absl::Status& why);
  // OK, or the first of both.
  absl::Status failure_or_break() const;

  // The number of the op that begins next, if no other thread begins one; the first has 1.
  uint64_t next_op_number() const { return ops_begun_.load(std::memory_order_relaxed) + 1; }
  // Returns the number of the op that begins.
  uint64_t BeginOp() { return ops_begun_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // Of an op that was refused, as if it had not begun.
  void TakeOpBack() { ops_begun_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  const GroupHandle handle_;
  const std::shared_ptr<const GroupInfo> info_;
  const std::unique_ptr<WholeOps> whole_ops_;
  std::unique_ptr<ErrorFeedback> error_feedback_;
  std::atomic<uint64_t> ops_begun_ = 0;
  std::atomic<bool> has_failure_ = false;

  Mutex launch_mutex_;

  mutable Mutex mutex_;
  std::condition_variable changed_;
  bool opened_ SHOAL_GUARDED_BY(mutex_) = false;
  bool given_up_ SHOAL_GUARDED_BY(mutex_) = false;  // whoever waited for that
  absl::Status opened_status_ SHOAL_GUARDED_BY(mutex_);
  std::optional<DeviceMeeting> device_meeting_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<const NodeFailures> node_failures_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<LocalDevices> local_devices_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ SHOAL_GUARDED_BY(mutex_);
  absl::Status break_ SHOAL_GUARDED_BY(mutex_);
};

// Where an op's tensor is, in host memory.
struct HostTensor {
  const std::byte* data = nullptr;
  uint64_t element_count = 0;
  DataType dtype = DataType::kFloat32;
  uint64_t op_number = 0;  // of the op in its group
};

class CallerOp {
 public:
  CallerOp(std::shared_ptr<CallerGroup> group, uint64_t ticket, uint64_t bytes, uint64_t deadline_ns)
      : group_(std::move(group)), ticket_(ticket), bytes_(bytes), deadline_ns_(deadline_ns) {}

  CallerGroup& group() const { return *group_; }
  uint64_t ticket() const { return ticket_; }
  uint64_t bytes() const { return bytes_; }  // of its tensor
  // nullptr: its tensor is in host memory. Set before anybody else sees the op.
  const std::shared_ptr<DeviceOp>& device_op() const { return device_op_; }
  void SetDeviceOp(std::shared_ptr<DeviceOp> device_op) { device_op_ = std::move(device_op); }
  // The tensor that is to be looked at when the op is done. Set before anybody else sees the op.
  void SetCountedTensor(const HostTensor& tensor) { counted_tensor_ = tensor; }
  // Of an op that is done: calls `count` with the tensor, once. Returns when that is over, also in other threads: their
  // callers may free the tensor then.
  void CountTensorOnce(const std::function<void(const HostTensor&)>& count);
  uint64_t deadline_ns() const { return deadline_ns_; }
  // Its completion goes to the CompletionQueue, with `user_data`. True: the op is complete already, and the caller puts
  // it there. FailedPrecondition: this was asked for before.
  absl::StatusOr<bool> Notify(uint64_t user_data);
  uint64_t user_data() const;  // as Notify got it

  // Once, by the I/O thread, which gives the op to the CompletionQueue if this returns true.
  [[nodiscard]] bool Complete(absl::Status status, uint64_t duration_ns);

  bool done() const { return done_.load(std::memory_order_acquire); }
  // False: not complete by then.
  bool WaitUntil(uint64_t deadline_ns);
  // Of an op that is done.
  const absl::Status& status() const { return status_; }
  uint64_t duration_ns() const { return duration_ns_; }
  // Of a complete op; set before that by whoever completes it.
  Contributors contributors() const { return contributors_; }
  void SetContributors(Contributors contributors) { contributors_ = contributors; }

 private:
  const std::shared_ptr<CallerGroup> group_;
  const uint64_t ticket_;
  const uint64_t bytes_;
  const uint64_t deadline_ns_;
  std::shared_ptr<DeviceOp> device_op_;

  mutable Mutex mutex_;
  std::condition_variable completed_;
  std::optional<uint64_t> user_data_ SHOAL_GUARDED_BY(mutex_);  // of an op with Notify
  Mutex count_mutex_;
  std::optional<HostTensor> counted_tensor_;  // under count_mutex_ once others see the op
  std::atomic<bool> done_ = false;
  absl::Status status_;
  uint64_t duration_ns_ = 0;
  Contributors contributors_;
};

// Completed ops that somebody wants to be told of, in the order of completion.
class CompletionQueue {
 public:
  void Push(std::shared_ptr<CallerOp> op);
  // DeadlineExceeded: none came. Cancelled: Close was called and all were fetched.
  absl::StatusOr<std::shared_ptr<CallerOp>> Pop(uint64_t deadline_ns);
  void Close();

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<CallerOp>> ops_ SHOAL_GUARDED_BY(mutex_);
  bool closed_ SHOAL_GUARDED_BY(mutex_) = false;
};

// A question for the machine's counters.
class CountersRequest {
 public:
  CountersRequest() = default;
  // `on_answer` is called with them, by the thread that has the loop's turn.
  explicit CountersRequest(std::function<void(const WorkerCounters&)> on_answer) : on_answer_(std::move(on_answer)) {}

  void Answer(WorkerCounters counters);
  // False: no answer until the deadline.
  bool Wait(uint64_t deadline_ns, WorkerCounters* counters);

 private:
  const std::function<void(const WorkerCounters&)> on_answer_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool answered_ SHOAL_GUARDED_BY(mutex_) = false;
  WorkerCounters counters_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_CALLER_RECORDS_H_
