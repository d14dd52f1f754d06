#include "proto/status_pages.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

void Append(const v1::ListServersResponse& page, v1::ListServersResponse* all) {
  all->mutable_servers()->MergeFrom(page.servers());
}

// The newer part has the job as it is now; the lists of the older one come before its own.
void Join(v1::JobStatus part, v1::JobStatus* job) {
  job->mutable_ranks()->MergeFrom(part.ranks());
  job->mutable_groups()->MergeFrom(part.groups());
  job->mutable_slow_ranks()->MergeFrom(part.slow_ranks());
  job->mutable_slow_servers()->MergeFrom(part.slow_servers());
  part.mutable_ranks()->Swap(job->mutable_ranks());
  part.mutable_groups()->Swap(job->mutable_groups());
  part.mutable_slow_ranks()->Swap(job->mutable_slow_ranks());
  part.mutable_slow_servers()->Swap(job->mutable_slow_servers());
  job->Swap(&part);
}

void Append(v1::ListJobsResponse page, v1::ListJobsResponse* all) {
  if (all->jobs_size() > 0 && page.jobs_size() > 0) {
    v1::JobStatus* const last = all->mutable_jobs(all->jobs_size() - 1);
    if (last->job_id() == page.jobs(0).job_id()) {
      Join(page.jobs(0), last);
      page.mutable_jobs()->DeleteSubrange(0, 1);
    }
  }
  all->mutable_jobs()->MergeFrom(page.jobs());
}

template <typename Response, typename Request, typename Ask>
absl::StatusOr<Response> ReadAll(Request request, const Ask& ask) {
  Response all;
  for (;;) {
    absl::StatusOr<Response> page = ask(request);
    if (!page.ok()) return page.status();
    const std::string next = page->next_page_token();
    Append(*std::move(page), &all);
    if (next.empty()) return all;
    if (next == request.page_token()) {
      return absl::InternalError(absl::StrCat("the scheduler gives page \"", next,
                                              "\" of its list as the one after itself, which is an error in it"));
    }
    request.set_page_token(next);
  }
}

}  // namespace

absl::StatusOr<v1::ListServersResponse> ReadServers(const v1::ListServersRequest& request, const AskForServers& ask) {
  return ReadAll<v1::ListServersResponse>(request, ask);
}

absl::StatusOr<v1::ListJobsResponse> ReadJobs(const v1::ListJobsRequest& request, const AskForJobs& ask) {
  return ReadAll<v1::ListJobsResponse>(request, ask);
}

}  // namespace shoal
