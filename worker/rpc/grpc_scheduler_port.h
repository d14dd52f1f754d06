// SchedulerPort over gRPC: calls and streams of one process, all on one completion queue.
//
// Thread: one at a time, which also does gRPC's work on this queue while it sleeps here; Wake from any, but not while
// the port is being destroyed. No call has a thread of its own, and none blocks.
#ifndef SHOAL_WORKER_RPC_GRPC_SCHEDULER_PORT_H_
#define SHOAL_WORKER_RPC_GRPC_SCHEDULER_PORT_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/credentials.h"
#include "worker/membership/scheduler_port.h"

namespace shoal {

class GrpcSchedulerPort : public SchedulerPort {
 public:
  // `address` is one that SchedulerTarget takes. Connects with the first call.
  explicit GrpcSchedulerPort(const std::string& address, const Credentials& credentials = {});
  ~GrpcSchedulerPort() override;
  GrpcSchedulerPort(const GrpcSchedulerPort&) = delete;
  GrpcSchedulerPort& operator=(const GrpcSchedulerPort&) = delete;

  void StartCall(CallId call, const SchedulerCall& what, uint64_t deadline_ns) override;
  void CancelCall(CallId call) override;
  void OpenWatch(WatchId watch, const MemberId& member) override;
  void CloseWatch(WatchId watch) override;
  void UseNewConnections() override;
  std::span<const SchedulerPortEvent> Poll() override;

  // Blocks until Poll may have something, Wake, or the deadline (monotonic clock; kNoDeadline: none).
  void SleepUntil(uint64_t deadline_ns);
  // Ends SleepUntil, also the next one if nobody sleeps now.
  void Wake();

 private:
  class Connection;
  class Operation;
  template <typename Response>
  class UnaryCall;
  class WatchStream;

  template <typename Request, typename Response, typename Begin>
  void StartUnary(CallId call, const Request& request, uint64_t deadline_ns, Begin begin);
  // Calls whose deadline gRPC has let pass end without an answer. Returns when the next one is to.
  uint64_t EndOverdueCalls();
  // Takes one thing from the queue, waiting until the deadline. False: nothing came.
  bool TakeOne(uint64_t deadline_ns);

  const std::string address_;
  const std::string target_;  // what gRPC is given
  const Credentials credentials_;
  grpc::CompletionQueue queue_;
  grpc::Alarm alarm_;
  std::atomic<bool> alarm_is_set_ = false;
  std::shared_ptr<Connection> connection_;
  struct OpenCall {
    Operation* operation;  // of operations_
    uint64_t overdue_ns;   // kNoDeadline: it was ended
  };
  std::map<CallId, OpenCall> calls_;
  std::map<WatchId, WatchStream*> watches_;                      // of operations_, those not closed
  std::map<Operation*, std::unique_ptr<Operation>> operations_;  // that gRPC still works on
  bool woken_ = false;                                           // since the last SleepUntil
  std::vector<SchedulerPortEvent> arrived_;
  std::vector<SchedulerPortEvent> polled_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_RPC_GRPC_SCHEDULER_PORT_H_
