// This process's membership in a Shoal job, and the groups in it, without any torch.
//
// A Session owns the worker handle and the threads that fetch completions. A Group owns a group handle. Its Start is
// the one way for an all-reduce into the library, which queues it. Where one can't begin on this rank alone, the group
// is aborted, or the ranks' next ones would be summed with each other's. Whoever waits for an operation needs no other
// thread of this process (docs/adr/0016); threads fetch the completions of those that nobody waits for.
//
// Threads: every method may be called from any thread. `done` runs on threads of this file or on the caller's, with no
// lock held. It may block for as long as it likes, also on another operation: another thread fetches completions
// meanwhile. fork(): in a child every call throws ShoalError, and destructors free nothing.
#ifndef SHOAL_PYTORCH_SRC_SESSION_H_
#define SHOAL_PYTORCH_SRC_SESSION_H_

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "process/mutex.h"
#include "pytorch/src/shoal_library.h"

namespace shoal::pytorch {

// How many ranks' contributions a result has, at least and at most; zeros where that is not known.
struct Contributors {
  uint32_t least = 0;
  uint32_t most = 0;
};

// How an operation ended, and the time from its submission to that.
using Done = std::function<void(const shoal_error& result, uint64_t duration_ns)>;

// One all-reduce in place. The memory at `data` must stay until the operation is complete.
struct Operation {
  void* data = nullptr;
  std::optional<uint32_t> device;  // `data` is on the device of that ordinal; absent: in host memory
  void* stream = nullptr;          // of the device: the memory holds the contribution when what is in there now is done
  uint64_t count = 0;
  shoal_dtype dtype = SHOAL_FLOAT32;
  shoal_reduce_op op = SHOAL_SUM;
  double premul_factor = 0;
  uint64_t timeout_ms = 0;  // from the call on; 0: the session's
};

shoal_error MakeError(shoal_code code, const std::string& message);

// At least one: no time at all would mean the default, or none.
uint64_t MillisecondsUntil(std::chrono::steady_clock::time_point deadline);

// Whether a call failed because its group had: whoever failed it says why, and it is not to be aborted for that.
bool GroupHasEnded(shoal_code code);

// Whether a call failed for its arguments, which every rank is refused alike: the group goes on.
bool IsRefusal(shoal_code code);

// How long closing waits for callbacks and calls of others. Those that are not over then keep what they use, and
// closing says so.
inline constexpr std::chrono::milliseconds kOthersEnd{30'000};

class Group;
class Session;

// An operation that its caller looks after. The memory at `data` must stay until it is complete.
class StartedOperation {
 public:
  StartedOperation(std::shared_ptr<Group> group, shoal_op* op, bool on_device);
  ~StartedOperation();
  StartedOperation(const StartedOperation&) = delete;
  StartedOperation& operator=(const StartedOperation&) = delete;

  // False: still open after `timeout_ms` (0: does not wait). True: `result` is how it ended. With UINT64_MAX it is
  // always true: an operation has a deadline. Runs a part of the library's work meanwhile.
  bool Wait(uint64_t timeout_ms, shoal_error* result);
  bool complete() const;
  bool on_device() const { return on_device_; }
  uint64_t duration_ns() const;
  Contributors contributors() const;
  // `done` is called when it is complete, on a thread of the session or here. At most once.
  void Notify(Done done);
  // Of an operation on a device: what comes in the stream after this call sees the result. Returns what the library
  // says; after an error nothing was put into the stream.
  shoal_error WaitOnStream(void* stream);

 private:
  const std::shared_ptr<Group> group_;
  shoal_op* const op_;
  const bool on_device_;
};

class Group : public std::enable_shared_from_this<Group> {
 public:
  // `rank_count` 0: not known.
  Group(std::shared_ptr<Session> session, shoal_group* group, uint32_t rank_count);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // nullptr: `error` says why it did not begin. The first operations on devices of a node may wait for the other ranks.
  std::shared_ptr<StartedOperation> Start(const Operation& operation, shoal_error* error);
  // As shoal_group_takes_devices has it.
  int takes_devices() const { return takes_devices_; }
  // Those that somebody still looks after, in no order; some may be complete.
  std::vector<std::shared_ptr<StartedOperation>> StartedOnDevices();
  // The sum of what all ranks contribute, byte by byte; each rank calls it alike, with as many bytes. Throws
  // ShoalError, also if the group has gone on without a rank.
  std::string SumBytes(std::string bytes, uint64_t timeout_ms);
  // Ends open operations with CANCELLED; later ones end at once.
  void Abort(const std::string& reason);
  // As shoal_group_failure has it; of a group that was closed, as it was then.
  shoal_error failure();
  // As shoal_group_read_feedback and shoal_group_add_feedback have it. CANCELLED: the group is closed.
  shoal_error ReadFeedback(uint32_t index, float* values, uint64_t* count);
  shoal_error AddFeedback(const float* values, uint64_t count);
  // Waits for operations on devices, some seconds at most (for all groups together, where they are destroyed one after
  // the other), ends what is still open then (there is nothing in a correct program) and frees the group. Returns what
  // was not over in time and is left behind, or "". Idempotent.
  [[nodiscard]] std::string Close();

 private:
  friend class StartedOperation;

  // Until when this group, being destroyed, waits for what is on devices.
  std::chrono::steady_clock::time_point DevicesEndBy() const;
  // Gives operations on devices, which nobody has waited for, the time to end.
  void AwaitDevices(std::chrono::steady_clock::time_point until);
  // Of an operation that could not begin here. Other ranks may have begun it, and would take this
  // rank's next one for it.
  void AbortIfOthersGoOn(const shoal_error& error) SHOAL_REQUIRES(mutex_);
  shoal_error FailureInLibrary() const SHOAL_REQUIRES(mutex_);

  const std::shared_ptr<Session> session_;
  const uint32_t rank_count_;
  const int takes_devices_;
  Mutex mutex_;
  std::condition_variable changed_;
  shoal_group* group_ SHOAL_GUARDED_BY(mutex_);  // nullptr once closed
  std::unordered_map<StartedOperation*, std::weak_ptr<StartedOperation>> started_ SHOAL_GUARDED_BY(mutex_);
  uint32_t starting_ SHOAL_GUARDED_BY(mutex_) = 0;  // calls of the library that start an operation, without mutex_
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  shoal_error last_failure_ SHOAL_GUARDED_BY(mutex_) = {};  // once closed
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // Joins the job and waits for that. Throws ShoalError. `on_closed` runs once, at the end of Close.
  static std::shared_ptr<Session> Connect(const ShoalLibrary& library, const shoal_worker_options& options,
                                          std::function<void()> on_closed,
                                          std::chrono::milliseconds others_end = kOthersEnd);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // As shoal_worker_open_device has it. Throws ShoalError.
  void OpenDevice(uint32_t device);
  // Waits for all ranks of the group. `ranks` empty: all ranks of the job. Name
  // and ranks of `options` are not looked at. Throws ShoalError.
  std::shared_ptr<Group> CreateGroup(const std::string& name, const std::vector<uint32_t>& ranks,
                                     shoal_group_options options);

  // Closes the group; with the last one, the session, unless it is in an open job. Throws as Close.
  void CloseGroup(const std::shared_ptr<Group>& group);

  // Closes all groups, then the worker, joins the threads and runs on_closed. Idempotent. Call without Python's GIL.
  // Throws ShoalError when all that is done, if something was not over in time and is left behind; and what on_closed
  // throws.
  void Close();

  // Leaves the job as a rank that is lost, for which others need not wait. Close is still to follow. Throws ShoalError.
  void GiveUp(const std::string& reason);

  // Runs `task` in a thread, after the one before; Close waits for it. If the session is closed, or there is no thread,
  // it runs here.
  void RunBeside(const std::function<void()>& task);

  shoal_statistics Statistics();
  std::vector<shoal_server_statistics> ServerStatistics();

  const ShoalLibrary& library() const { return library_; }
  // Of this process in the job; one that the scheduler gave it, if the job is open.
  uint32_t rank() const { return rank_; }
  bool in_open_job() const { return in_open_job_; }
  bool reduces_on_devices() const { return reduces_on_devices_; }
  bool checks_finite() const { return checks_finite_; }
  bool forked() const { return getpid() != process_id_; }
  void ThrowIfForked() const;

 private:
  friend class Group;
  friend class StartedOperation;

  Session(const ShoalLibrary& library, const shoal_worker_options& options, shoal_worker* worker,
          std::chrono::milliseconds others_end, std::function<void()> on_closed);

  // False: the session is closed, or has no thread and could start none; `done` will not be called.
  bool Notify(shoal_op* op, Done done);
  // Returns what was not over in time and is left behind, or "".
  std::string EndThreads();
  void RunThread();
  void FetchCompletions();
  void WakeFetcher() SHOAL_REQUIRES(mutex_);
  // Starts a thread that fetches completions. False: `error` says why not.
  bool AddThread(shoal_error* error) SHOAL_REQUIRES(mutex_);
  shoal_worker* OpenWorker() SHOAL_REQUIRES(mutex_);  // throws ShoalError if closed
  // Calls `use` with the worker, which is not closed meanwhile, and without mutex_: the library may wait for its I/O
  // thread or a device. Throws ShoalError if the session is closed.
  void WithWorker(const std::function<void(shoal_worker*)>& use);

  const ShoalLibrary& library_;
  const uint32_t rank_;
  const bool in_open_job_;
  const bool reduces_on_devices_;
  const bool checks_finite_;
  const pid_t process_id_;
  const std::chrono::milliseconds others_end_;
  std::function<void()> on_closed_ SHOAL_GUARDED_BY(mutex_);

  Mutex mutex_;
  std::condition_variable changed_;
  shoal_worker* worker_ SHOAL_GUARDED_BY(mutex_);  // nullptr once closed
  std::vector<std::shared_ptr<Group>> groups_ SHOAL_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Done> open_ SHOAL_GUARDED_BY(mutex_);  // by user_data
  uint64_t next_user_data_ SHOAL_GUARDED_BY(mutex_) = 1;
  int64_t unfetched_ SHOAL_GUARDED_BY(mutex_) = 0;  // accepted by the library and not fetched
  bool fetching_ SHOAL_GUARDED_BY(mutex_) = false;  // one thread is in shoal_next_completion
  uint32_t users_ SHOAL_GUARDED_BY(mutex_) = 0;     // in WithWorker
  uint32_t idle_threads_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::unordered_set<std::thread::id> running_threads_ SHOAL_GUARDED_BY(mutex_);  // of threads_
  bool close_called_ SHOAL_GUARDED_BY(mutex_) = false;
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;              // the threads end
  std::vector<std::thread> threads_ SHOAL_GUARDED_BY(mutex_);  // each holds the session
  std::thread beside_ SHOAL_GUARDED_BY(mutex_);                // of RunBeside
  // Until then, a group that is destroyed does not wait for its operations on devices: another one's have not ended.
  std::atomic<std::chrono::steady_clock::time_point> devices_stuck_until_{};
};

// A scheduler or a server inside this process. Threads: one at a time.
class Service {
 public:
  // Throw ShoalError.
  static std::unique_ptr<Service> Start(const ShoalLibrary& library, const shoal_scheduler_options& options);
  static std::unique_ptr<Service> Start(const ShoalLibrary& library, const shoal_server_options& options);
  ~Service() { Stop(); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  std::string address() const { return service_ == nullptr ? "" : library_.shoal_service_address(service_); }
  // As shoal_service_live_ranks has it.
  uint32_t live_ranks() const { return service_ == nullptr ? UINT32_MAX : library_.shoal_service_live_ranks(service_); }
  void Stop();

 private:
  Service(const ShoalLibrary& library, shoal_service* service)
      : library_(library), service_(service), process_id_(getpid()) {}

  const ShoalLibrary& library_;
  shoal_service* service_;
  const pid_t process_id_;
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_SESSION_H_
