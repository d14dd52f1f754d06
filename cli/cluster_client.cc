#include "cli/cluster_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/no_leader.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "proto/status_pages.h"

namespace shoal::cli {
namespace {

// A scheduler that has just begun to lead may not listen yet.
constexpr std::chrono::milliseconds kPatience{1000};
constexpr std::chrono::milliseconds kRetry{100};

void SetDeadline(uint64_t timeout_ms, grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
}

// The last one of that name: a scheduler that is older than the names in requests lists all.
template <typename Item, typename Items>
absl::StatusOr<Item> NewestNamed(const Items& items, const std::string& what, const std::string& name) {
  const auto found = std::find_if(items.rbegin(), items.rend(), [&](const Item& item) { return item.name() == name; });
  if (found != items.rend()) return *found;
  return absl::NotFoundError(
      absl::StrCat("no ", what, " is named \"", name, "\"; `shoalctl ", what, "s` lists those that there are"));
}

}  // namespace

ClusterClient::ClusterClient(const std::string& scheduler, uint64_t timeout_ms, const Credentials& credentials)
    : scheduler_(scheduler),
      timeout_ms_(timeout_ms),
      channel_(OpenSchedulerChannel(*SchedulerTarget(scheduler), credentials)),
      status_(v1::Status::NewStub(channel_)),
      admin_(v1::Admin::NewStub(channel_)) {}

absl::Status ClusterClient::Explain(const grpc::Status& status) const {
  std::string text = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE && absl::StrContains(text, "leads")) {
    const bool is_cut_off = text == kLeaderIsSilent;
    text = absl::StrCat(absl::StrContains(scheduler_, ',') ? "the schedulers at " : "the scheduler at ", scheduler_,
                        ": ", text, " in a few seconds; if this persists, check ",
                        is_cut_off ? "the network between the schedulers" : "that etcd is running");
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    text = absl::StrCat("can't reach a scheduler at ", scheduler_, " (", ShortReason(text),
                        "); check that shoal-scheduler runs there, or give another address with --scheduler HOST:PORT");
  } else if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    text = absl::StrCat("the scheduler at ", scheduler_, " did not answer within ", timeout_ms_,
                        " ms; check the address, or wait longer with --timeout S");
  } else if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    text = absl::StrCat("the program that listens at ", scheduler_, " is not a shoal-scheduler of this version (", text,
                        ")");
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), text);
}

template <typename Response, typename Request, typename Stub>
absl::StatusOr<Response> ClusterClient::Call(
    Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*), const Request& request) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    grpc::ClientContext context;
    SetDeadline(timeout_ms_, &context);
    Response response;
    const grpc::Status status = (stub->*method)(&context, request, &response);
    if (status.ok()) return response;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE || std::chrono::steady_clock::now() >= give_up) {
      return Explain(status);
    }
    std::this_thread::sleep_for(kRetry);
  }
}

absl::StatusOr<v1::Cluster> ClusterClient::GetCluster() {
  return Call<v1::Cluster, v1::GetClusterRequest>(status_.get(), &v1::Status::Stub::GetCluster);
}

absl::StatusOr<v1::ListServersResponse> ClusterClient::ListServers(const v1::ListServersRequest& wanted) {
  return ReadServers(wanted, [this](const v1::ListServersRequest& page) {
    return Call<v1::ListServersResponse>(status_.get(), &v1::Status::Stub::ListServers, page);
  });
}

absl::StatusOr<v1::ListJobsResponse> ClusterClient::ListJobs(const v1::ListJobsRequest& wanted) {
  return ReadJobs(wanted, [this](const v1::ListJobsRequest& page) {
    return Call<v1::ListJobsResponse>(status_.get(), &v1::Status::Stub::ListJobs, page);
  });
}

absl::StatusOr<v1::ServerStatus> ClusterClient::FindServer(const std::string& name) {
  v1::ListServersRequest wanted;
  wanted.set_name(name);
  const absl::StatusOr<v1::ListServersResponse> servers = ListServers(wanted);
  if (!servers.ok()) return servers.status();
  return NewestNamed<v1::ServerStatus>(servers->servers(), "server", name);
}

absl::StatusOr<v1::JobStatus> ClusterClient::FindJob(const std::string& name) {
  v1::ListJobsRequest wanted;
  wanted.set_name(name);
  const absl::StatusOr<v1::ListJobsResponse> jobs = ListJobs(wanted);
  if (!jobs.ok()) return jobs.status();
  return NewestNamed<v1::JobStatus>(jobs->jobs(), "job", name);
}

absl::StatusOr<v1::ShardMap> ClusterClient::GetShardMap() {
  return Call<v1::ShardMap, v1::GetShardMapRequest>(status_.get(), &v1::Status::Stub::GetShardMap);
}

absl::StatusOr<v1::DrainServerResponse> ClusterClient::DrainServer(const std::string& name) {
  v1::DrainServerRequest request;
  request.set_name(name);
  return Call<v1::DrainServerResponse>(admin_.get(), &v1::Admin::Stub::DrainServer, request);
}

absl::StatusOr<v1::UndrainServerResponse> ClusterClient::UndrainServer(const std::string& name) {
  v1::UndrainServerRequest request;
  request.set_name(name);
  return Call<v1::UndrainServerResponse>(admin_.get(), &v1::Admin::Stub::UndrainServer, request);
}

absl::StatusOr<v1::EvictServerResponse> ClusterClient::EvictServer(const std::string& name) {
  v1::EvictServerRequest request;
  request.set_name(name);
  return Call<v1::EvictServerResponse>(admin_.get(), &v1::Admin::Stub::EvictServer, request);
}

absl::StatusOr<v1::AbortJobResponse> ClusterClient::AbortJob(const std::string& name, const std::string& reason) {
  v1::AbortJobRequest request;
  request.set_name(name);
  request.set_reason(reason);
  return Call<v1::AbortJobResponse>(admin_.get(), &v1::Admin::Stub::AbortJob, request);
}

absl::StatusOr<v1::TraceJobResponse> ClusterClient::TraceJob(const std::string& name, TraceKind kind,
                                                             uint64_t duration_ms) {
  v1::TraceJobRequest request;
  request.set_name(name);
  request.set_duration_ms(duration_ms);
  request.set_kind(static_cast<uint32_t>(kind));
  return Call<v1::TraceJobResponse>(admin_.get(), &v1::Admin::Stub::TraceJob, request);
}

absl::StatusOr<v1::Trace> ClusterClient::GetTrace(uint64_t trace, uint32_t member) {
  v1::GetTraceRequest request;
  request.set_trace_id(trace);
  request.set_member(member);
  return Call<v1::Trace>(status_.get(), &v1::Status::Stub::GetTrace, request);
}

absl::StatusOr<v1::FlightRecords> ClusterClient::GetFlightRecords(const std::string& job, uint64_t group,
                                                                  uint32_t member) {
  v1::GetFlightRecordsRequest request;
  request.set_job_name(job);
  request.set_group_id(group);
  request.set_member(member);
  return Call<v1::FlightRecords>(status_.get(), &v1::Status::Stub::GetFlightRecords, request);
}

absl::Status ClusterClient::ListEvents(std::optional<uint64_t> follow_ms, uint64_t after_sequence,
                                       const std::function<bool(const v1::Event&)>& take) {
  grpc::ClientContext context;
  SetDeadline(follow_ms.value_or(timeout_ms_), &context);
  v1::ListEventsRequest request;
  request.set_follow(follow_ms.has_value());
  request.set_after_sequence(after_sequence);
  const auto reader = status_->ListEvents(&context, request);
  v1::Event event;
  bool wants_more = true;
  while (wants_more && reader->Read(&event)) wants_more = take(event);
  if (!wants_more) context.TryCancel();
  const grpc::Status status = reader->Finish();
  return status.ok() || !wants_more ? absl::OkStatus() : Explain(status);
}

}  // namespace shoal::cli
