// `shoalctl drain SERVER`: asks the scheduler to let a server leave, and on demand waits until it has left.
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
  std::chrono::milliseconds deadline{0};  // of the waiting
  bool json = false;
};

// Says to `out` what happens: with `json` the scheduler's answer and, after waiting, the server's last status; else
// lines for people. Errors: those of DrainServer. DEADLINE_EXCEEDED: it has not left in time; it goes on draining.
// ABORTED: it was lost on the way.
absl::Status Drain(const DrainOptions& options, ClusterClient* client, std::ostream& out);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_DRAIN_H_
