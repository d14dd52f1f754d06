// The ControlLink port: what a server says to the scheduler, a call at a time.
//
// Thread: one thread calls Register, Renew and Deregister, each of which blocks until the answer is there or timeout_ms
// have passed. StopRenewing may be called from any thread.
// Errors of all calls: Unavailable: the scheduler can't be reached. DeadlineExceeded: no answer in time. Both say so in
// a few words ("connection refused"); try again. Cancelled: StopRenewing was called. The others are in the comments.
#ifndef SHOAL_SERVER_LEASE_CONTROL_LINK_H_
#define SHOAL_SERVER_LEASE_CONTROL_LINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/token.h"
#include "server/machine/server_actions.h"

namespace shoal {

struct ServerRegistration {
  std::string name;
  Incarnation incarnation;
  std::vector<std::string> addresses;  // "ip:port", one per I/O thread
  uint32_t weight = 1;
  std::string node;
  uint64_t slot_memory_bytes = 0;
  std::string transports;  // for people
  JobId job;               // the only one that it serves; 0: serves all
};

struct ServerLease {
  ServerId server;
  uint64_t ttl_ms = 0;
  TokenKey token_key{};
  Epoch epoch;
};

struct LeaseRenewal {
  uint64_t ttl_ms = 0;
  Epoch epoch;
  bool drain = false;  // an operator wants the server to leave
};

class ControlLink {
 public:
  virtual ~ControlLink() = default;

  // FailedPrecondition: the scheduler speaks another control version. InvalidArgument: it refuses a value.
  // AlreadyExists: another server has the name's place or an address. Unimplemented: no scheduler of ours is there.
  virtual absl::StatusOr<ServerLease> Register(const ServerRegistration& registration, uint64_t timeout_ms) = 0;

  // NotFound: register again. Aborted: another process took this server's place.
  virtual absl::StatusOr<LeaseRenewal> Renew(ServerId server, Incarnation incarnation, const ServerCounters& load,
                                             uint64_t timeout_ms) = 0;

  // NotFound: the scheduler does not know it any more, nothing to do.
  virtual absl::Status Deregister(ServerId server, Incarnation incarnation, const std::string& reason,
                                  uint64_t timeout_ms) = 0;

  // Ends Register and Renew, the call in flight and all later ones, with Cancelled.
  virtual void StopRenewing() = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LEASE_CONTROL_LINK_H_
