// A whole reduction server in one object: I/O threads, slot memory and the link to the scheduler. main() runs one, and
// a worker process with a colocated server.
//
// Threads: functions from any thread, one at a time. Starts the I/O threads, a thread that keeps the lease, and gRPC's
// own. Installs no signal handlers, reads no environment, never ends the process.
// Order at the start: first the listeners (their ports are registered), then the registration (its answer has the key
// with which group tokens are checked), then the loops.
#ifndef SHOAL_SERVER_SERVER_H_
#define SHOAL_SERVER_SERVER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/log_event.h"
#include "server/machine/server_counters.h"
#include "server/server_config.h"

namespace shoal {

class Server {
 public:
  // Returns when the server is registered. InvalidArgument: a value in `config` is wrong, or not of this node
  // (address, device). AlreadyExists: a port is taken. ResourceExhausted: no memory for slots. DeadlineExceeded: within
  // timeout_ms the network device got no link, or the scheduler did not register it. FailedPrecondition and others: the
  // scheduler refused it. Cancelled: `cancel_fd` (-1: none) became readable. Each text names what to do. `log` is
  // called from the starting thread and from the server's own threads, also from several at once.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config, EventSink log, int cancel_fd = -1);

  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& name() const;
  std::vector<std::string> addresses() const;  // "ip:port", one per I/O thread
  ServerCounters counters() const;             // of all I/O threads, at most a few 100 ms old

  // Leaves the cluster (workers get no new chunks to send here from the next map on) and opens no new group. Open
  // groups go on. Idempotent.
  void Drain(std::string_view reason);
  // After Drain: no group is open.
  bool drained() const;
  // After Drain, in words: the groups that are open, with the ranks that are in them (DescribeOpenGroups).
  std::string open_groups() const;
  // Drains, cuts the connections, ends the threads. Waits at most a few seconds. Idempotent.
  void Stop(std::string_view reason);

  // Becomes readable when the server is to be stopped. Either it has lost its place in the cluster for good (failure()
  // says why) and continues to serve its open groups; or an operator asked it to leave (asked_to_drain()): it has
  // drained itself as by Drain, but stays registered until no group is open. If the operator asks it to stay before
  // that, asked_to_drain() ends, it takes groups in again, and end_fd is not readable any more.
  int end_fd() const;
  absl::Status failure() const;
  bool asked_to_drain() const;

 private:
  class Parts;
  explicit Server(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_SERVER_H_
