// The commands that change a cluster at once, through the scheduler's admin service.
#ifndef SHOAL_CLI_CHANGES_H_
#define SHOAL_CLI_CHANGES_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "cli/cluster_client.h"

namespace shoal::cli {

// Each writes what the scheduler did to `out`: a human-readable line or two, or with `json` its answer. Errors: those
// of the call (admin.proto).

absl::Status Undrain(const std::string& server, bool json, ClusterClient* client, std::ostream& out);
absl::Status Evict(const std::string& server, bool json, ClusterClient* client, std::ostream& out);
// `reason`: in the operator's words, which the job's ranks are told; may be empty.
absl::Status Abort(const std::string& job, const std::string& reason, bool json, ClusterClient* client,
                   std::ostream& out);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_CHANGES_H_
