// A scheduler or a server that lives inside this process: the set-up with nothing else running.
//
// Thread: any, Stop from one at a time.
#ifndef SHOAL_WORKER_COLOCATED_SERVICE_H_
#define SHOAL_WORKER_COLOCATED_SERVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"
#include "server/server.h"

namespace shoal {

class Service {
 public:
  // Of this process (`is_colocated` is set here). Errors: those of Scheduler::Start.
  static absl::StatusOr<std::unique_ptr<Service>> StartScheduler(SchedulerConfig config);
  // An empty name becomes one that no other server of this node has. Errors: those of Server::Start.
  static absl::StatusOr<std::unique_ptr<Service>> StartServer(ServerConfig config);

  ~Service();  // stops
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // "ip:port" of a scheduler, "ip:port,ip:port" of a server's I/O threads.
  const std::string& address() const { return address_; }

  // Of a scheduler: the ranks that have joined and have neither left nor been lost, as of a second or two ago. nullopt:
  // it is not known yet, or this is a server.
  std::optional<uint32_t> live_ranks() const;

  // Ends it. A server leaves the cluster first, but does not wait for the groups that use it.
  void Stop();

 private:
  Service() = default;

  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Server> server_;
  std::string address_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_COLOCATED_SERVICE_H_
