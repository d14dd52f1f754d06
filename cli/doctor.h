// `shoalctl doctor`: looks from this node at what a job here would need, and says what to do where something is
// missing.
#ifndef SHOAL_CLI_DOCTOR_H_
#define SHOAL_CLI_DOCTOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/bandwidth.h"
#include "cli/cluster_client.h"
#include "cli/node_settings.h"
#include "cli/schedulers.h"
#include "cli/ways.h"
#include "proto/credentials.h"
#include "shoal/v1/status.pb.h"

namespace shoal::cli {

// kGood: as it should be. kNote: nothing tells whether it is. kWarning: it may cost speed, or will one day. kProblem:
// it stops a job.
enum class Verdict : uint8_t { kGood, kNote, kWarning, kProblem };

struct Finding {
  std::string check;  // "scheduler", "server", "clock", ...
  Verdict verdict = Verdict::kGood;
  std::string text;  // what was found
  std::string fix;   // what to do; empty: nothing
};

// What was looked at. `asked` and `answered`: the clock of this node before and after the scheduler gave its own.
struct Examination {
  absl::Status scheduler;                  // not OK: why the cluster is not known
  std::vector<AskedScheduler> schedulers;  // none: there is only one address
  v1::Cluster cluster;
  std::vector<std::string>
      leader;  // IP:PORT of the scheduler that leads; none: not known, or there is only one address
  v1::ListServersResponse servers;
  std::vector<Way> ways;  // to each address of each server that is to be tried, in that order
  // By the server's name, of those to which a link leads from this node; nullopt: it was not asked for.
  std::optional<std::map<std::string, absl::StatusOr<Bandwidth>>> bandwidths;
  NodeSettings node;
  std::string node_name;  // of this node
  uint64_t asked_unix_ms = 0;
  uint64_t answered_unix_ms = 0;
};

// A job here would use it: it is live or draining, and does not serve another job alone.
bool IsToBeTried(const v1::ServerStatus& server);

// Pure.
std::vector<Finding> Judge(const Examination& examination);
size_t CountOf(const std::vector<Finding>& findings, Verdict verdict);
// One line for each finding, its fix below, and a last line with the counts, which names --bandwidth unless that was
// asked for.
std::string FindingsText(const std::vector<Finding>& findings, bool bandwidth_asked);
// {"findings":[{"check":..., "verdict":"good", "text":..., "fix":...}, ...], "problems":N, "warnings":N}
std::string FindingsJson(const std::vector<Finding>& findings);

struct ExamineOptions {
  std::string scheduler;  // the address that the client has
  uint64_t timeout_ms = 0;
  std::optional<DataPlane> bandwidth;  // measure it over this
  bool json = false;
  Credentials credentials = {};  // of the client
  CredentialFiles credential_files = {};
};

// Looks, and writes what it found, also where no scheduler answers. FAILED_PRECONDITION: there is a problem. Waits for
// `timeout_ms` at most for each call, and for kMostAtATime servers' ports; a second and a timeout for each bandwidth.
absl::Status Examine(const ExamineOptions& options, ClusterClient* client, std::ostream& out);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_DOCTOR_H_
