// Transports that reach each other in memory, inside one process: for tests of loops and for trying things out.
//
// Each transport belongs to one thread, different transports of a network may belong to different threads. One lock
// guards the whole network: this is for correctness, not for speed. A payload of at least rendezvous_threshold_bytes
// stays with its sender until it is accepted or declined (kSent comes then); a smaller one is copied at once.
#ifndef SHOAL_NET_LOOPBACK_LOOPBACK_TRANSPORT_H_
#define SHOAL_NET_LOOPBACK_LOOPBACK_TRANSPORT_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "net/transport.h"
#include "net/transport_limits.h"

namespace shoal {

class LoopbackNetworkState;

struct LoopbackOptions {
  bool listen = true;
  size_t rendezvous_threshold_bytes = 0;
  TransportLimits limits;
};

// Where transports find each other. May be destroyed before its transports.
class LoopbackNetwork {
 public:
  LoopbackNetwork();
  ~LoopbackNetwork();

  // Any thread. ResourceExhausted: the process has no file descriptors left.
  absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const LoopbackOptions& options);

 private:
  std::shared_ptr<LoopbackNetworkState> state_;
};

}  // namespace shoal

#endif  // SHOAL_NET_LOOPBACK_LOOPBACK_TRANSPORT_H_
