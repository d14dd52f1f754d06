// One term as the scheduler in charge: loads the state, listens, and answers requests until the term ends.
//
// Threads: Start, Run and the destructor from one; Stop from any. Starts gRPC's own threads.
#ifndef SHOAL_SCHEDULER_LEADING_SCHEDULER_TERM_H_
#define SHOAL_SCHEDULER_LEADING_SCHEDULER_TERM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "process/mutex.h"
#include "scheduler/config/scheduler_config.h"
#include "scheduler/leading/scheduler_sinks.h"
#include "scheduler/loop/scheduler_loop.h"
#include "scheduler/rpc/grpc_control_host.h"
#include "scheduler/store/store.h"

namespace shoal::scheduler {

// Lets a thread sleep until it is woken or a deadline passes.
class Waker {
 public:
  void Wake();
  // `deadline_ns`: monotonic clock, kNoDeadline for none.
  void WaitUntil(uint64_t deadline_ns);

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  bool woken_ SHOAL_GUARDED_BY(mutex_) = false;
};

class SchedulerTerm {
 public:
  // Errors as of Scheduler::Start.
  static absl::StatusOr<std::unique_ptr<SchedulerTerm>> Start(const SchedulerConfig& config, const std::string& listen,
                                                              std::unique_ptr<Store> store,
                                                              std::shared_ptr<Doorkeeper> doorkeeper,
                                                              SchedulerSinks sinks);
  ~SchedulerTerm();  // ends open calls with UNAVAILABLE and waits at most a second for them
  SchedulerTerm(const SchedulerTerm&) = delete;
  SchedulerTerm& operator=(const SchedulerTerm&) = delete;

  // "ip:port" with the actual port.
  const std::string& address() const { return host_->address(); }

  // Serves until Stop, or until the time that `ends_ns` gives has come (monotonic clock; asked again each round).
  void Run(const std::function<uint64_t()>& ends_ns);
  void Stop();

 private:
  SchedulerTerm(std::unique_ptr<Store> store, std::unique_ptr<GrpcControlHost> host,
                std::unique_ptr<ObservedScheduler> machine, SchedulerSinks sinks);

  Waker waker_;  // first: the store's and gRPC's threads use it until they end
  const std::unique_ptr<Store> store_;
  const std::unique_ptr<GrpcControlHost> host_;
  SchedulerLoop loop_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LEADING_SCHEDULER_TERM_H_
