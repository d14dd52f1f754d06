// A whole scheduler in one object: store, machine, loop thread and gRPC host. main() runs one, and so does a worker
// process when no scheduler was given.
//
// Threads: all functions from any thread, but Stop and the destructor from one at a time. Starts one loop thread, the
// store's writer and gRPC's own threads. Installs no signal handlers and reads no environment.
#ifndef SHOAL_SCHEDULER_SCHEDULER_H_
#define SHOAL_SCHEDULER_SCHEDULER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/log_event.h"
#include "scheduler/config/scheduler_config.h"
#include "scheduler/machine/scheduler_numbers.h"

namespace shoal {

class Scheduler {
 public:
  // Loads the state, listens, and serves until Stop; with a store in etcd it serves while it leads and else passes
  // calls on, and etcd may be started later. InvalidArgument: a value in `config` is out of range. Unavailable: the
  // address can't be listened on. AlreadyExists: another process listens there, or has the state file. DataLoss,
  // FailedPrecondition: the state file is corrupt, of another program or of another version. NotFound,
  // PermissionDenied: its folder. Each text says what to do. `log` takes each event, without config.log_events warnings
  // and errors alone, and with config.audit_log all that tell of calls (nothing here opens that file); called from the
  // scheduler's threads.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Start(const SchedulerConfig& config, EventSink log = nullptr);

  ~Scheduler();  // stops
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // "ip:port" with the actual port.
  std::string address() const;

  // As of about a second ago; null while it does not lead, or if config.http is empty and it is not colocated.
  std::shared_ptr<const scheduler::SchedulerNumbers> numbers() const;

  // Ends open calls with UNAVAILABLE, waits for the threads (a second at most for calls in flight). Idempotent.
  void Stop();

 private:
  class Parts;
  explicit Scheduler(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_SCHEDULER_H_
