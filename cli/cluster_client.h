// Calls of the scheduler's status service, and of its admin service, which changes something.
#ifndef SHOAL_CLI_CLUSTER_CLIENT_H_
#define SHOAL_CLI_CLUSTER_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/trace_request.h"
#include "proto/credentials.h"
#include "shoal/v1/admin.grpc.pb.h"
#include "shoal/v1/status.grpc.pb.h"

namespace shoal::cli {

// One thread. Every call waits at most the timeout; UNAVAILABLE and DEADLINE_EXCEEDED name the address and what to do.
class ClusterClient {
 public:
  ClusterClient(const std::string& scheduler, uint64_t timeout_ms, const Credentials& credentials = {});

  absl::StatusOr<v1::Cluster> GetCluster();
  // All that are wanted, from as many pages as it takes, each of which may take as long as the timeout.
  absl::StatusOr<v1::ListServersResponse> ListServers(const v1::ListServersRequest& wanted = {});
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& wanted = {});
  // The server of that name, or the newest job of that name. NOT_FOUND: there is none; the text names those that there
  // are.
  absl::StatusOr<v1::ServerStatus> FindServer(const std::string& name);
  absl::StatusOr<v1::JobStatus> FindJob(const std::string& name);
  absl::StatusOr<v1::ShardMap> GetShardMap();

  // NOT_FOUND, FAILED_PRECONDITION: see admin.proto.
  absl::StatusOr<v1::DrainServerResponse> DrainServer(const std::string& name);
  absl::StatusOr<v1::UndrainServerResponse> UndrainServer(const std::string& name);
  absl::StatusOr<v1::EvictServerResponse> EvictServer(const std::string& name);
  absl::StatusOr<v1::AbortJobResponse> AbortJob(const std::string& name, const std::string& reason);
  absl::StatusOr<v1::TraceJobResponse> TraceJob(const std::string& name, TraceKind kind, uint64_t duration_ms);
  // With the record of that member, counted from 1; 0: of none. NOT_FOUND: see status.proto.
  absl::StatusOr<v1::Trace> GetTrace(uint64_t trace, uint32_t member);
  // Likewise; `job` empty: of any, `group` 0: the one that failed last.
  absl::StatusOr<v1::FlightRecords> GetFlightRecords(const std::string& job, uint64_t group, uint32_t member);

  // Calls `take` for each event with a higher number, until it returns false. With `follow_ms` also for those of so
  // many milliseconds from now; DEADLINE_EXCEEDED then.
  absl::Status ListEvents(std::optional<uint64_t> follow_ms, uint64_t after_sequence,
                          const std::function<bool(const v1::Event&)>& take);

 private:
  template <typename Response, typename Request, typename Stub>
  absl::StatusOr<Response> Call(Stub* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request = Request());
  absl::Status Explain(const grpc::Status& status) const;

  const std::string scheduler_;
  const uint64_t timeout_ms_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Status::Stub> status_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
};

}  // namespace shoal::cli

#endif  // SHOAL_CLI_CLUSTER_CLIENT_H_
