// Whole lists from the pages of the status service, for those that show them: shoalctl and the scheduler's page. Any
// thread.
#ifndef SHOAL_PROTO_STATUS_PAGES_H_
#define SHOAL_PROTO_STATUS_PAGES_H_

#include <functional>

#include "absl/status/statusor.h"
#include "shoal/v1/status.pb.h"

namespace shoal {

// Makes one call, for one page.
using AskForServers = std::function<absl::StatusOr<v1::ListServersResponse>(const v1::ListServersRequest&)>;
using AskForJobs = std::function<absl::StatusOr<v1::ListJobsResponse>(const v1::ListJobsRequest&)>;

// All that `request` wants, in one answer, from as many pages as it takes. Jobs that came in parts are whole again. How
// far pages of different moments fit together: proto/shoal/v1/status.proto. Errors: the first one of `ask`; Internal:
// the scheduler gave the token of the same page again, which would have no end.
absl::StatusOr<v1::ListServersResponse> ReadServers(const v1::ListServersRequest& request, const AskForServers& ask);
absl::StatusOr<v1::ListJobsResponse> ReadJobs(const v1::ListJobsRequest& request, const AskForJobs& ask);

}  // namespace shoal

#endif  // SHOAL_PROTO_STATUS_PAGES_H_
