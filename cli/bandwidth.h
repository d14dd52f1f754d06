// What shoal-perf, which has the data plane that this program has not, says: what the ways from this node to servers
// carry. It is looked for in the folder of the running program.
#ifndef SHOAL_CLI_BANDWIDTH_H_
#define SHOAL_CLI_BANDWIDTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "process/credential_files.h"

namespace shoal::cli {

struct Bandwidth {
  double mbit_per_s = 0;       // of payload, from here to the server
  double processor_share = 0;  // of one core of this node; near 1 it may be the limit
  std::string transports;      // that carried it: "tcp/eth0"
};

// As ranks on this node have them.
struct DataPlane {
  std::string net_device;
  std::string transports = "tcp";
};

// Sends to all of these addresses of one server at once, for half a second. Waits for `timeout_ms` at most until they
// are reached, and some seconds more. Unavailable: nothing could be sent, and why. Anything else says nothing of the
// way. NotFound: there is no shoal-perf of this release beside this program. Internal: that one failed.
absl::StatusOr<Bandwidth> MeasureBandwidth(const std::vector<std::string>& addresses, const std::string& scheduler,
                                           const DataPlane& data_plane, const CredentialFiles& credentials,
                                           uint64_t timeout_ms);

// What `shoal-perf --way` printed (perf/way.h), other programs' lines included. Internal: the line is not there, or not
// as it should be.
absl::StatusOr<Bandwidth> ParseWay(const std::string& output);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_BANDWIDTH_H_
