// The page at `/` of the scheduler's --http: its files, and the document about the cluster that they show.
#ifndef SHOAL_SCHEDULER_PAGE_CLUSTER_PAGE_H_
#define SHOAL_SCHEDULER_PAGE_CLUSTER_PAGE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "metrics/http_server.h"
#include "process/mutex.h"
#include "proto/credentials.h"
#include "shoal/v1/status.grpc.pb.h"

namespace shoal {

// Threads: any, several at once. One at a time asks the scheduler; what it gets serves all for half a second, and those
// that come while it waits. So the number of viewers does not matter to the scheduler, and one thread of HTTP at most
// waits for it.
class ClusterPage {
 public:
  // `scheduler`: the address of the scheduler of this process. One that does not lead passes the calls on, so that the
  // page is the same at all schedulers.
  ClusterPage(const std::string& scheduler, const Credentials& credentials);

  // JSON: the cluster, its servers, jobs without their ranks but with what they sum up to and the slow ones' nodes, and
  // the newest events; field names are those of proto/shoal/v1/status.proto. Unavailable: the status service does
  // not answer within two seconds, or another thread waits for it and what it said last is old.
  absl::StatusOr<std::string> Document();

  // The page's files and the document, which call this object.
  std::vector<HttpFile> Files();

 private:
  absl::StatusOr<std::string> Ask();

  const std::unique_ptr<v1::Status::Stub> status_;
  Mutex asking_;  // held by the thread that asks
  Mutex mutex_;
  absl::StatusOr<std::string> document_ SHOAL_GUARDED_BY(mutex_);
  std::optional<std::chrono::steady_clock::time_point> at_ SHOAL_GUARDED_BY(mutex_);  // of the document
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_PAGE_CLUSTER_PAGE_H_
