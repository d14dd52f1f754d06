// The control host over gRPC: the services of proto/shoal/v1, the standard health service, reflection on request.
//
// Threads: as ControlHost says; handlers run on gRPC's own threads and only convert and queue. A full queue refuses
// with RESOURCE_EXHAUSTED.
#ifndef SHOAL_SCHEDULER_RPC_GRPC_CONTROL_HOST_H_
#define SHOAL_SCHEDULER_RPC_GRPC_CONTROL_HOST_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/rpc/control_host.h"
#include "scheduler/rpc/doorkeeper.h"

namespace shoal::scheduler {

class GrpcControlHost : public ControlHost {
 public:
  // `listen`: "ip:port"; port 0: any free port. InvalidArgument: not of this form. AlreadyExists: another process
  // listens there. Unavailable: it can't listen there (the address is not one of this node). `doorkeeper`: null lets
  // everybody in, in plain text.
  static absl::StatusOr<std::unique_ptr<GrpcControlHost>> Listen(const std::string& listen, bool reflection,
                                                                 std::shared_ptr<Doorkeeper> doorkeeper = nullptr);

  ~GrpcControlHost() override;  // stops

  // With the actual port.
  const std::string& address() const { return address_; }

  // Ends open calls and streams with UNAVAILABLE and stops listening; waits at most a second for calls in flight.
  void Stop();

  std::optional<SchedulerEvent> Poll() override;
  void Execute(const Reply& reply) override;
  void Execute(const SendWatch& update) override;
  void Execute(const SendEvent& event) override;
  void Execute(const CloseStream& close) override;
  void SetWake(std::function<void()> wake) override;

 private:
  class Services;

  explicit GrpcControlHost(std::shared_ptr<Doorkeeper> doorkeeper);

  std::string address_;
  std::unique_ptr<Services> services_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_RPC_GRPC_CONTROL_HOST_H_
