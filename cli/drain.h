// `shoalctl drain SERVER`: asks the scheduler to take a server out, and with --wait waits until it has left.
#ifndef SHOAL_CLI_DRAIN_H_
#define SHOAL_CLI_DRAIN_H_

#include <chrono>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "cli/cluster_client.h"

namespace shoal::cli {

struct DrainOptions {
  std::string server;
  bool wait = false;
  std::chrono::milliseconds deadline{0};  // for `wait`
  bool json = false;
};

// Writes what happens to `out`: human-readable lines, or with `json` one document, which is the scheduler's answer, or
// after waiting, well or not, that as "drain" and the server's last status as "server" (missing if it was not seen).
// Errors: those of DrainServer. DEADLINE_EXCEEDED: the server has not left in time and continues to drain. ABORTED: it
// was lost meanwhile.
absl::Status Drain(const DrainOptions& options, ClusterClient* client, std::ostream& out);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_DRAIN_H_
