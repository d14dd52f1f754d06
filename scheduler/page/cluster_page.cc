#include "scheduler/page/cluster_page.h"

#include <google/protobuf/struct.pb.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/log_event.h"
#include "proto/scheduler_channel.h"
#include "proto/status_pages.h"
#include "proto/status_text.h"
#include "scheduler/page/page_files.h"

namespace shoal {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFresh{500};
constexpr std::chrono::seconds kPatience{2};
constexpr size_t kNewestEvents = 100;
constexpr size_t kMostTroubles = 8;  // of a job

absl::Status Unanswered(const grpc::Status& status) {
  return absl::UnavailableError(absl::StrCat("the scheduler does not say: ", ShortReason(status.error_message())));
}

// With what its ranks and groups, which may be thousands, sum up to instead of them, and the nodes of its slow ranks in
// their order; they are gone afterwards.
std::string JobJson(v1::JobStatus* job) {
  const JobTotals totals = TotalsOf(*job);
  const uint64_t groups = CountGroups(*job).groups;
  const std::vector<std::string> troubles = TroublesOf(*job, /*with_slow=*/false);
  const size_t shown = std::min(troubles.size(), kMostTroubles);
  google::protobuf::ListValue trouble;
  for (size_t i = 0; i < shown; ++i) trouble.add_values()->set_string_value(troubles[i]);
  if (shown < troubles.size()) {
    trouble.add_values()->set_string_value(absl::StrCat("and ", troubles.size() - shown, " more"));
  }
  google::protobuf::ListValue slow_rank_nodes;
  for (const v1::SlowRank& slow : job->slow_ranks()) {
    slow_rank_nodes.add_values()->set_string_value(NodeOfRank(*job, slow.rank()));
  }
  job->clear_ranks();
  job->clear_groups();
  return absl::StrCat("{\"job\":", ToJson(*job), ",\"totals\":{\"live\":", totals.live,
                      ",\"ops\":", totals.ops_completed, ",\"failed\":", totals.ops_failed,
                      ",\"pushed\":", totals.bytes_pushed, ",\"pulled\":", totals.bytes_pulled,
                      ",\"op_time_ns\":", totals.op_time_ns, ",\"groups\":", groups, ",\"age_ms\":", totals.age_ms,
                      ",\"newest_age_ms\":", totals.newest_age_ms, "},\"slow_rank_nodes\":", ToJson(slow_rank_nodes),
                      ",\"trouble\":", ToJson(trouble), "}");
}

uint64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace

ClusterPage::ClusterPage(const std::string& scheduler, const Credentials& credentials)
    : status_(v1::Status::NewStub(OpenSchedulerChannel(scheduler, credentials))),
      document_(absl::UnavailableError("the scheduler has not answered yet")) {}

absl::StatusOr<std::string> ClusterPage::Document() {
  const std::unique_lock asking(asking_, std::try_to_lock);
  {
    const MutexLock lock(mutex_);
    const auto age = at_.has_value() ? steady_clock::now() - *at_ : steady_clock::duration::max();
    if (age <= kFresh || (!asking.owns_lock() && age <= kFresh + kPatience)) return document_;
    if (!asking.owns_lock()) return absl::UnavailableError("the scheduler has not answered yet");
  }
  absl::StatusOr<std::string> document = Ask();
  const MutexLock lock(mutex_);
  document_ = std::move(document);
  at_ = steady_clock::now();
  return document_;
}

absl::StatusOr<std::string> ClusterPage::Ask() {
  const auto deadline = std::chrono::system_clock::now() + kPatience;
  const auto call = [&]<typename Request, typename Response>(
                        grpc::Status (v1::Status::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                        const Request& request) -> absl::StatusOr<Response> {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    Response response;
    const grpc::Status status = (status_.get()->*method)(&context, request, &response);
    if (!status.ok()) return Unanswered(status);
    return response;
  };
  const auto cluster = call(&v1::Status::Stub::GetCluster, v1::GetClusterRequest());
  if (!cluster.ok()) return cluster.status();
  const auto servers =
      ReadServers({}, [&](const v1::ListServersRequest& page) { return call(&v1::Status::Stub::ListServers, page); });
  if (!servers.ok()) return servers.status();
  auto jobs = ReadJobs({}, [&](const v1::ListJobsRequest& page) { return call(&v1::Status::Stub::ListJobs, page); });
  if (!jobs.ok()) return jobs.status();
  grpc::ClientContext context;
  context.set_deadline(deadline);
  const auto reader = status_->ListEvents(&context, v1::ListEventsRequest());
  std::deque<v1::Event> events;
  for (v1::Event event; reader->Read(&event);) {
    // Of a job that begins there are many, and what follows from them has events of its own.
    if (event.kind() == EventKey(EventKind::kCallMade)) continue;
    events.push_back(event);
    if (events.size() > kNewestEvents) events.pop_front();
  }
  if (const grpc::Status status = reader->Finish(); !status.ok()) return Unanswered(status);
  std::vector<std::string> shown_jobs;
  for (v1::JobStatus& job : *jobs->mutable_jobs()) shown_jobs.push_back(JobJson(&job));
  return absl::StrCat("{\"at_unix_ms\":", UnixMs(), ",\"cluster\":", ToJson(*cluster),
                      ",\"servers\":", JsonList(servers->servers()), ",\"jobs\":[", absl::StrJoin(shown_jobs, ","),
                      "],\"events\":", JsonList(events), "}");
}

std::vector<HttpFile> ClusterPage::Files() {
  return {{"/", "text/html; charset=utf-8", [] { return kPageHtml; }},
          {"/page.css", "text/css; charset=utf-8", [] { return kPageCss; }},
          {"/page.js", "text/javascript; charset=utf-8", [] { return kPageJs; }},
          {"/cluster.json", "application/json", [this] { return Document(); }}};
}

}  // namespace shoal
