// What a scheduler that does not lead answers with: it passes every call on to the one that leads, whatever the call.
//
// So servers, workers and operators may talk to any of a cluster's schedulers. Bytes are passed on as they are, calls
// and streams alike; the caller's deadline and its giving up go with them. While nobody leads a call is refused with
// UNAVAILABLE. A call that was passed on once is not passed on again.
//
// Threads: any. Calls run on gRPC's own threads.
#ifndef SHOAL_SCHEDULER_LEADING_FORWARDING_HOST_H_
#define SHOAL_SCHEDULER_LEADING_FORWARDING_HOST_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace shoal::scheduler {

class ForwardingHost {
 public:
  // `listen` and errors as those of GrpcControlHost::Listen.
  static absl::StatusOr<std::unique_ptr<ForwardingHost>> Listen(const std::string& listen);
  ~ForwardingHost();  // stops
  ForwardingHost(const ForwardingHost&) = delete;
  ForwardingHost& operator=(const ForwardingHost&) = delete;

  // With the port that is really listened on.
  const std::string& address() const { return address_; }

  // "host:port"; "": nobody leads. Calls that were passed on before go on.
  void SetLeader(const std::string& address);

  // Ends open calls with UNAVAILABLE and stops listening.
  void Stop();

 private:
  class Service;

  ForwardingHost();

  std::string address_;
  std::unique_ptr<Service> service_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LEADING_FORWARDING_HOST_H_
