// What the way from this node to one server carries, for people who look for the cause of a slow job. (Groups are
// planned by worker/machine/link_probe.h, which sends a hundredth of it and needs an answer at once.)
//
// The payloads are those of probes: the server drops each and says so. The connections are of their own, belong to no
// job, and end with the measurement. Other traffic on the way shares it meanwhile.
#ifndef SHOAL_WORKER_LIBRARY_WAY_MEASUREMENT_H_
#define SHOAL_WORKER_LIBRARY_WAY_MEASUREMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/transport.h"

namespace shoal {

struct WayToMeasure {
  std::vector<std::string> addresses;  // "ip:port" of one server's I/O threads, not empty; all are sent to at once
  uint64_t connect_timeout_ms = 5000;
  uint64_t duration_ms = 500;
};

struct WayFacts {
  uint64_t round_trip_ns = 0;  // the shortest of a few empty probes to the first address
  uint64_t bytes_per_s = 0;    // of payload that has arrived, in the second half of the duration
  double processor_share = 0;  // of one core that the calling thread used in that time; near 1 it may be the limit
  std::string transports;      // by which the payload goes, each once: "tcp/eth0"
};

// Waits: both times, and up to five seconds more where little comes through. The transport has no other user meanwhile.
// InvalidArgument: an address is wrong. Unavailable: a connection was refused or broke; the text names the server's
// address and the reason. DeadlineExceeded: it was not made, or nothing came back, in time. FailedPrecondition: that
// process is no Shoal server, or of another version, or configured otherwise.
absl::StatusOr<WayFacts> MeasureWay(const WayToMeasure& way, Transport* transport);

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_WAY_MEASUREMENT_H_
