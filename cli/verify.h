// `shoalctl verify`: whether the ranks of a running job get the same bits from their all-reduces.
//
// CompareDigests, VerificationText and VerificationJson are pure.
#ifndef SHOAL_CLI_VERIFY_H_
#define SHOAL_CLI_VERIFY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/cluster_client.h"
#include "cli/trace.h"

namespace shoal::cli {

struct Verification {
  // An all-reduce of which not all ranks have the same result.
  struct Difference {
    std::string group;
    uint64_t op = 0;
    std::map<std::string, std::vector<std::string>> members;  // by what they have: the digest, elements, type
  };

  size_t members = 0;           // that took part
  size_t groups = 0;            // of which ops were compared
  size_t compared = 0;          // ops of which all ranks of the group have sent their result
  size_t compared_in_part = 0;  // and of which at least two have, but not all
  std::vector<Difference> differences;
  std::vector<std::string> remarks;  // sentences
};

// Of records as ResultDigests (worker/library) writes them; what can't be read becomes a remark.
Verification CompareDigests(const TraceRecords& fetched);

// Has the job's ranks take digests for so long. Errors: those of FetchRecords; Unavailable: no rank has sent a record;
// NotFound: no all-reduce has ended on two ranks in that time.
absl::StatusOr<Verification> VerifyJob(const std::string& job, double seconds, ClusterClient* client);

std::string VerificationText(const Verification& verification);
std::string VerificationJson(const Verification& verification);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_VERIFY_H_
