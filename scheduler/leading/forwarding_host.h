// What a scheduler does while it does not lead: it passes every call on to the one that leads.
//
// So servers, workers and operators may talk to any of a cluster's schedulers. Bytes are passed on as they are, calls
// and streams alike, with the caller's deadline and cancellation. While no scheduler leads, a call is refused with
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

  // With the actual port.
  const std::string& address() const { return address_; }

  // "host:port"; "": no scheduler leads. Calls that were passed on to another leader end with UNAVAILABLE.
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
