// One of several schedulers that share an etcd: it leads, or passes calls on to the one that does.
//
// Threads: Start and the destructor from one, the others from any. Starts one thread, which stands for election again
// and again and serves while it leads, and gRPC's own threads.
#ifndef SHOAL_SCHEDULER_LEADING_SCHEDULER_ROLES_H_
#define SHOAL_SCHEDULER_LEADING_SCHEDULER_ROLES_H_

#include <condition_variable>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "process/mutex.h"
#include "scheduler/config/scheduler_config.h"
#include "scheduler/leading/etcd_election.h"
#include "scheduler/leading/forwarding_host.h"
#include "scheduler/leading/scheduler_sinks.h"
#include "scheduler/leading/scheduler_term.h"
#include "scheduler/store/etcd_client.h"

namespace shoal::scheduler {

class SchedulerRoles {
 public:
  // Listens when it returns; etcd may be started later. InvalidArgument: `config`. Unavailable: the address can't be
  // listened on. AlreadyExists: another process listens there. ResourceExhausted: the process can't have another
  // thread.
  static absl::StatusOr<std::unique_ptr<SchedulerRoles>> Start(const SchedulerConfig& config,
                                                               std::shared_ptr<Doorkeeper> doorkeeper,
                                                               SchedulerSinks sinks);
  ~SchedulerRoles();  // gives up the lead and stops
  SchedulerRoles(const SchedulerRoles&) = delete;
  SchedulerRoles& operator=(const SchedulerRoles&) = delete;

  const std::string& address() const { return address_; }

 private:
  SchedulerRoles(const SchedulerConfig& config, const EtcdTarget& target, const Credentials& etcd_credentials,
                 std::shared_ptr<Doorkeeper> doorkeeper, std::unique_ptr<ForwardingHost> forwarding,
                 SchedulerSinks sinks);

  void Run();
  // Serves for as long as the term lasts.
  void Lead(const Standing& standing);
  // Listens again after a term; false: stop.
  bool Follow();
  // False: stop.
  bool Pause();
  bool IsStopping();
  // Unless it is what was said last.
  void Log(EventKind kind, const std::string& text);

  const SchedulerConfig config_;
  const std::string address_;                     // listened on
  const std::shared_ptr<Doorkeeper> doorkeeper_;  // null: callers are not asked for their identity
  EtcdClient client_;
  EtcdElection election_;
  std::unique_ptr<ForwardingHost> forwarding_;  // null while this one leads
  const SchedulerSinks sinks_;
  std::string logged_;  // the newest text
  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<SchedulerTerm> term_;  // changed under mutex_; null: it does not lead
  std::thread thread_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LEADING_SCHEDULER_ROLES_H_
