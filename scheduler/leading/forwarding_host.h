// What a scheduler does while it does not lead: it passes every call on to the one that leads.
//
// So servers, workers and operators may talk to any of a cluster's schedulers. Bytes are passed on as they are, calls
// and streams alike, with the caller's deadline, cancellation, identity and address. While no scheduler leads, a call
// is refused with UNAVAILABLE. A call that was passed on once is not passed on again.
//
// It asks the leader again and again whether it is there. Calls that were passed on to a leader that does not answer
// end with UNAVAILABLE, and further ones are refused until it answers again: their callers can ask another scheduler,
// but only if they are told while their leases last (docs/failover.md, F16).
//
// Threads: any. Calls run on gRPC's own threads; starts one thread, which asks the leader.
#ifndef SHOAL_SCHEDULER_LEADING_FORWARDING_HOST_H_
#define SHOAL_SCHEDULER_LEADING_FORWARDING_HOST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/rpc/doorkeeper.h"

namespace shoal::scheduler {

class ForwardingHost {
 public:
  // `listen` and errors as those of GrpcControlHost::Listen; ResourceExhausted: the process can't have another thread.
  // `doorkeeper`: as there. `lease_ttl_ms`: of members, which need an answer within that time.
  static absl::StatusOr<std::unique_ptr<ForwardingHost>> Listen(const std::string& listen, uint64_t lease_ttl_ms,
                                                                std::shared_ptr<Doorkeeper> doorkeeper = nullptr);
  ~ForwardingHost();  // stops
  ForwardingHost(const ForwardingHost&) = delete;
  ForwardingHost& operator=(const ForwardingHost&) = delete;

  // With the actual port.
  const std::string& address() const { return address_; }

  // "host:port"; "": no scheduler leads. Calls that were passed on to another leader end with UNAVAILABLE.
  void SetLeader(const std::string& address);
  // False: it did not when it was asked last. True while no scheduler leads.
  bool leader_answers() const;

  // Ends open calls with UNAVAILABLE and stops listening.
  void Stop();

 private:
  class Service;

  ForwardingHost(uint64_t lease_ttl_ms, std::shared_ptr<Doorkeeper> doorkeeper);

  std::string address_;
  std::unique_ptr<Service> service_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_LEADING_FORWARDING_HOST_H_
