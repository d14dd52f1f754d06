#include "scheduler/rpc/control_messages.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/version.h"

namespace shoal::scheduler {
namespace {

template <typename Message>
std::vector<GroupFailure> FailuresOf(const Message& message) {
  std::vector<GroupFailure> failures;
  for (const v1::GroupFailure& failure : message.failures()) {
    failures.push_back(
        {.group = GroupId(failure.group_id()), .reason = failure.reason(), .lacks_memory = failure.lacks_memory()});
  }
  return failures;
}

template <typename Message>
std::vector<GroupId> CommittedOf(const Message& message) {
  std::vector<GroupId> groups;
  for (const uint64_t group : message.committed_group_ids()) groups.emplace_back(group);
  return groups;
}

template <typename Message>
std::vector<GivenUpRequest> GivenUpOf(const Message& message) {
  std::vector<GivenUpRequest> requests;
  for (const v1::GivenUpRequest& request : message.given_up_requests()) {
    requests.push_back({.number = request.number(), .reason = request.reason()});
  }
  return requests;
}

ServerLoad FromMessage(const v1::ServerLoad& message) {
  return {.bytes_in = message.bytes_in(),
          .bytes_out = message.bytes_out(),
          .chunks_reduced = message.chunks_reduced(),
          .refusals = message.refusals(),
          .groups_open = message.groups_open(),
          .peers = message.peers(),
          .shared_memory_peers = message.shared_memory_peers(),
          .transports = message.transports(),
          .corrupted_payloads = message.corrupted_payloads(),
          .slot_memory_used_bytes = message.slot_memory_used_bytes(),
          .refusals_by_reason = {message.refusals_by_reason().begin(), message.refusals_by_reason().end()}};
}

void ToMessage(const ServerLoad& load, v1::ServerLoad* message) {
  message->set_bytes_in(load.bytes_in);
  message->set_bytes_out(load.bytes_out);
  message->set_chunks_reduced(load.chunks_reduced);
  message->set_refusals(load.refusals);
  message->set_groups_open(load.groups_open);
  message->set_peers(load.peers);
  message->set_shared_memory_peers(load.shared_memory_peers);
  message->set_transports(load.transports);
  message->set_corrupted_payloads(load.corrupted_payloads);
  message->set_slot_memory_used_bytes(load.slot_memory_used_bytes);
  message->mutable_refusals_by_reason()->insert(load.refusals_by_reason.begin(), load.refusals_by_reason.end());
}

NodeReduceRequest FromMessage(const v1::NodeReduceRequest& message) {
  return {.choice = message.choice(),
          .possible = message.possible(),
          .node_identity = message.node_identity(),
          .can_rails = message.can_rails()};
}

void ToMessage(const RankView& view, v1::RankStatus* message) {
  message->set_rank(view.rank.value());
  message->set_node(view.state.node);
  message->set_pid(view.state.pid);
  message->set_incarnation(view.state.incarnation.value());
  message->set_state(std::string(MemberPhaseName(view.state.phase)));
  message->set_reason(view.state.reason);
  message->set_last_heartbeat_age_ms(view.last_heartbeat_age_ms);
  v1::WorkerLoad* load = message->mutable_load();
  load->set_ops_completed(view.load.ops_completed);
  load->set_ops_failed(view.load.ops_failed);
  load->set_bytes_pushed(view.load.bytes_pushed);
  load->set_bytes_pulled(view.load.bytes_pulled);
  load->set_op_time_ns_total(view.load.op_time_ns_total);
  load->set_away_ns_total(view.load.away_ns_total);
  load->set_counted_ns_total(view.load.counted_ns_total);
  load->set_transports(view.load.transports);
}

void ToMessage(const GroupView& view, v1::GroupStatus* message) {
  message->set_group_id(view.state.id.value());
  message->set_name(view.state.name);
  message->set_epoch(view.state.epoch.value());
  for (const JobRank rank : view.state.ranks) message->add_ranks(rank.value());
  message->set_max_chunk_bytes(view.state.max_chunk_bytes);
  message->set_state(!view.open ? "waiting" : view.state.failure.empty() ? "open" : "failed");
  message->set_wire(std::string(WireFormatName(view.state.wire)));
  for (const JobRank rank : view.missing_ranks) message->add_missing_ranks(rank.value());
  if (view.open) message->set_node_reduce(std::string(NodeReduceModeName(view.state.node_reduce)));
  if (view.state.rail.has_value()) {
    message->set_rail(view.state.rail->index);
    message->set_rails(view.state.rail->layout.ranks_per_node);
  }
}

}  // namespace

RegisterServer FromMessage(const v1::RegisterServerRequest& message) {
  return {.control_version = message.control_version(),
          .oldest_control_version = message.oldest_control_version(),
          .software_version = message.software_version(),
          .name = message.name(),
          .incarnation = Incarnation(message.incarnation()),
          .addresses = {message.addresses().begin(), message.addresses().end()},
          .weight = message.weight(),
          .node = message.node(),
          .slot_memory_bytes = message.slot_memory_bytes(),
          .transports = message.transports(),
          .job = JobId(message.job_id())};
}

HeartbeatServer FromMessage(const v1::HeartbeatServerRequest& message) {
  HeartbeatServer request{.server = ServerId(message.server_id()),
                          .incarnation = Incarnation(message.incarnation()),
                          .load = FromMessage(message.load()),
                          .absent_ranks = {}};
  for (const v1::AbsentRank& absent : message.absent_ranks()) {
    request.absent_ranks.push_back({.job = JobId(absent.job_id()),
                                    .group = GroupId(absent.group_id()),
                                    .epoch = Epoch(absent.epoch()),
                                    .rank = Rank(absent.rank()),
                                    .ago_ms = absent.ago_ms(),
                                    .because = absent.because()});
  }
  for (const v1::LateRank& late : message.late_ranks()) {
    request.late_ranks.push_back({.job = JobId(late.job_id()),
                                  .group = GroupId(late.group_id()),
                                  .epoch = Epoch(late.epoch()),
                                  .rank = Rank(late.rank()),
                                  .io_thread = late.io_thread(),
                                  .window = late.window(),
                                  .window_ns = late.window_ns(),
                                  .ago_ms = late.ago_ms(),
                                  .ops = late.ops(),
                                  .late_ops = late.late_ops(),
                                  .waited_ns = late.waited_ns(),
                                  .began_late_ns = late.began_late_ns(),
                                  .spacing_ns = late.spacing_ns(),
                                  .median_spacing_ns = late.median_spacing_ns()});
  }
  return request;
}

DeregisterServer FromMessage(const v1::DeregisterServerRequest& message) {
  return {.server = ServerId(message.server_id()),
          .incarnation = Incarnation(message.incarnation()),
          .reason = message.reason()};
}

JoinJob FromMessage(const v1::JoinJobRequest& message) {
  std::optional<NodeReduceRequest> node_reduce;
  if (message.has_node_reduce()) node_reduce = FromMessage(message.node_reduce());
  return {.control_version = message.control_version(),
          .oldest_control_version = message.oldest_control_version(),
          .software_version = message.software_version(),
          .job_name = message.job_name(),
          .world_size = message.world_size(),
          .rank = JobRank(message.rank()),
          .incarnation = Incarnation(message.incarnation()),
          .node = message.node(),
          .pid = message.pid(),
          .colocation = message.colocation(),
          .colocates_without_servers = message.colocates_without_servers(),
          .node_reduce = std::move(node_reduce)};
}

JoinGroup FromMessage(const v1::JoinGroupRequest& message) {
  std::vector<JobRank> ranks;
  ranks.reserve(static_cast<size_t>(message.ranks_size()));
  for (const uint32_t rank : message.ranks()) ranks.emplace_back(rank);
  std::optional<SharedOptions> options;
  if (message.has_options()) {
    options = {.fail_on_server_loss = message.options().fail_on_server_loss(),
               .checksums = message.options().checksums()};
  }
  std::optional<NodeReduceRequest> node_reduce;
  if (message.has_node_reduce()) node_reduce = FromMessage(message.node_reduce());
  return {.job = JobId(message.job_id()),
          .rank = JobRank(message.rank()),
          .incarnation = Incarnation(message.incarnation()),
          .group_name = message.group_name(),
          .ranks = std::move(ranks),
          .max_chunk_bytes = message.max_chunk_bytes(),
          .min_servers = message.min_servers(),
          .network_cards = message.network_cards(),
          .wait_ms = message.wait_ms(),
          .link = FromMessage(message.link()),
          .wire = message.wire(),
          .request_number = message.request_number(),
          .options = options,
          .node_reduce = std::move(node_reduce)};
}

CloseGroups FromMessage(const v1::CloseGroupsRequest& message) {
  CloseGroups request{.job = JobId(message.job_id()),
                      .rank = JobRank(message.rank()),
                      .incarnation = Incarnation(message.incarnation()),
                      .groups = {},
                      .given_up_requests = GivenUpOf(message),
                      .failures = FailuresOf(message),
                      .committed_groups = CommittedOf(message)};
  for (const uint64_t group : message.group_ids()) request.groups.emplace_back(group);
  return request;
}

// No more than a rank tells (core/server_wait.h), whatever the message has.
std::vector<ServerWaitReport> ServerWaitsOf(const v1::HeartbeatWorkerRequest& message) {
  std::vector<ServerWaitReport> reports;
  for (const v1::ServerWaitWindow& window : message.server_waits()) {
    if (reports.size() == kMostServerWaitWindows) break;
    ServerWaitReport& report = reports.emplace_back();
    report.group = GroupId(window.group_id());
    report.epoch = Epoch(window.epoch());
    report.window = window.window();
    report.window_ns = window.window_ns();
    report.ago_ms = window.ago_ms();
    report.bursts = window.bursts();
    for (const v1::ServerWait& wait : window.servers()) {
      if (report.servers.size() == kMostServerWaits) break;
      report.servers.push_back(
          {.server = ServerId(wait.server_id()), .waited_ns = wait.waited_ns(), .late_bursts = wait.late_bursts()});
    }
  }
  return reports;
}

HeartbeatWorker FromMessage(const v1::HeartbeatWorkerRequest& message) {
  return {.job = JobId(message.job_id()),
          .rank = JobRank(message.rank()),
          .incarnation = Incarnation(message.incarnation()),
          .load = {.ops_completed = message.load().ops_completed(),
                   .ops_failed = message.load().ops_failed(),
                   .bytes_pushed = message.load().bytes_pushed(),
                   .bytes_pulled = message.load().bytes_pulled(),
                   .op_time_ns_total = message.load().op_time_ns_total(),
                   .away_ns_total = message.load().away_ns_total(),
                   .counted_ns_total = message.load().counted_ns_total(),
                   .transports = message.load().transports()},
          .server_waits = ServerWaitsOf(message)};
}

LeaveJob FromMessage(const v1::LeaveJobRequest& message) {
  return {.job = JobId(message.job_id()),
          .rank = JobRank(message.rank()),
          .incarnation = Incarnation(message.incarnation()),
          .reason = message.reason(),
          .failed = message.failed(),
          .failures = FailuresOf(message),
          .given_up_requests = GivenUpOf(message),
          .committed_groups = CommittedOf(message)};
}

ReportServer FromMessage(const v1::ReportServerRequest& message) {
  return {.job = JobId(message.job_id()),
          .rank = JobRank(message.rank()),
          .incarnation = Incarnation(message.incarnation()),
          .group = GroupId(message.group_id()),
          .epoch = Epoch(message.epoch()),
          .server = ServerId(message.server_id()),
          .server_incarnation = Incarnation(message.server_incarnation()),
          .reachable = message.reachable(),
          .reason = message.reason(),
          .refused = message.refused()};
}

DrainServer FromMessage(const v1::DrainServerRequest& message) { return {.name = message.name()}; }
UndrainServer FromMessage(const v1::UndrainServerRequest& message) { return {.name = message.name()}; }
EvictServer FromMessage(const v1::EvictServerRequest& message) { return {.name = message.name()}; }
AbortJob FromMessage(const v1::AbortJobRequest& message) {
  return {.name = message.name(), .reason = message.reason()};
}
TraceJob FromMessage(const v1::TraceJobRequest& message) {
  return {.name = message.name(), .duration_ms = message.duration_ms(), .kind = message.kind()};
}
SendTrace FromMessage(const v1::SendTraceRequest& message) {
  return {.trace = message.trace_id(),
          .member = {.job = JobId(message.job_id()),
                     .rank = JobRank(message.rank()),
                     .server = ServerId(message.server_id()),
                     .incarnation = Incarnation(message.incarnation())},
          .io_thread = message.io_thread(),
          .record = message.record()};
}
GetTrace FromMessage(const v1::GetTraceRequest& message) {
  return {.trace = message.trace_id(), .member = message.member()};
}
GetCluster FromMessage(const v1::GetClusterRequest&) { return {}; }
ListServers FromMessage(const v1::ListServersRequest&) { return {}; }
ListJobs FromMessage(const v1::ListJobsRequest&) { return {}; }
GetShardMap FromMessage(const v1::GetShardMapRequest&) { return {}; }

void ToMessage(const ServerRegistered& response, v1::RegisterServerResponse* message) {
  message->set_server_id(response.server.value());
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  message->set_token_key(response.token_key.data(), response.token_key.size());
  message->set_epoch(response.epoch.value());
}

void ToMessage(const ServerRenewed& response, v1::HeartbeatServerResponse* message) {
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  message->set_epoch(response.epoch.value());
  message->set_drain(response.drain);
  message->set_scheduler_is_colocated(response.is_colocated);
  if (response.trace.has_value()) ToMessage(*response.trace, message->mutable_trace());
}

void ToMessage(const ServerDraining& response, v1::DrainServerResponse* message) {
  message->set_server_id(response.server.value());
  message->set_incarnation(response.incarnation.value());
  message->set_was_draining(response.was_draining);
  message->set_groups_kept(response.groups_kept);
}

void ToMessage(const ServerUndrained& response, v1::UndrainServerResponse* message) {
  message->set_server_id(response.server.value());
  message->set_was_draining(response.was_draining);
}

void ToMessage(const ServerEvicted& response, v1::EvictServerResponse* message) {
  message->set_server_id(response.server.value());
  message->set_groups_kept(response.groups_kept);
}

void ToMessage(const JobAborted& response, v1::AbortJobResponse* message) {
  message->set_job_id(response.job.value());
  message->set_groups_failed(response.groups_failed);
  message->set_live_ranks(response.live_ranks);
}

void ToMessage(const Done&, v1::DeregisterServerResponse*) {}
void ToMessage(const Done&, v1::CloseGroupsResponse*) {}
void ToMessage(const Done&, v1::LeaveJobResponse*) {}

void ToMessage(const ServerReported& response, v1::ReportServerResponse* message) {
  if (response.newer.has_value()) ToMessage(*response.newer, message->mutable_group());
}

void ToMessage(const TraceStarted& response, v1::TraceJobResponse* message) {
  message->set_trace_id(response.trace);
  message->set_ends_in_ms(response.ends_in_ms);
  message->set_members(response.members);
  message->set_left_out(response.left_out);
}

void ToMessage(const Done&, v1::SendTraceResponse*) {}

void ToMessage(const TraceView& response, v1::Trace* message) {
  message->set_trace_id(response.trace);
  message->set_job_name(response.job_name);
  message->set_ends_in_ms(response.ends_in_ms);
  for (const TraceView::Member& member : response.members) {
    v1::TraceMember* const added = message->add_members();
    added->set_name(member.name);
    added->set_has_sent(member.has_sent);
    added->set_is_gone(member.is_gone);
  }
  message->set_record(response.record);
}

void ToMessage(const JobJoined& response, v1::JoinJobResponse* message) {
  message->set_job_id(response.job.value());
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  message->set_server_count(response.server_count);
  message->set_colocate_server(response.colocate_server);
  message->set_needs_no_servers(response.needs_no_servers);
}

void ToMessage(const GroupJoined& response, v1::JoinGroupResponse* message) {
  message->set_group_id(response.group.value());
  message->set_token(response.token.data(), response.token.size());
  ToMessage(*response.map, message->mutable_map());
  for (const std::string& node : response.nodes) message->add_nodes(node);
  message->set_look_ahead_chunks(response.look_ahead_chunks);
  ToMessage(response.link, message->mutable_link());
  message->set_busiest_port(response.busiest_port);
  v1::NodeReduce* const node_reduce = message->mutable_node_reduce();
  node_reduce->set_mode(static_cast<uint32_t>(response.node_reduce));
  node_reduce->set_meeting_name(response.meeting_name);
  for (const Rank rank : response.local_ranks) node_reduce->add_local_ranks(rank.value());
  for (const Rank rank : response.rail_ranks) node_reduce->add_rail_ranks(rank.value());
  message->set_whole_group_id(response.whole_group.value());
}

void ToMessage(const WorkerRenewed& response, v1::HeartbeatWorkerResponse* message) {
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  for (const std::string& wait : response.waits) message->add_waits(wait);
  for (const std::string& line : response.news) message->add_news(line);
  if (response.trace.has_value()) ToMessage(*response.trace, message->mutable_trace());
}

void ToMessage(const ClusterView& response, v1::Cluster* message) {
  message->set_cluster_id(response.cluster_id);
  message->set_software_version(kSoftwareVersion);
  message->set_epoch(response.epoch.value());
  message->set_servers_live(response.servers_live);
  message->set_servers_lost(response.servers_lost);
  message->set_jobs(response.jobs);
  message->set_workers(response.workers);
  message->set_started_at_unix_ms(response.started_at_unix_ms);
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  message->set_store(response.store);
  message->set_now_unix_ms(response.now_unix_ms);
}

void ToMessage(const std::vector<ServerView>& response, v1::ListServersResponse* message) {
  for (const ServerView& view : response) {
    v1::ServerStatus* server = message->add_servers();
    server->set_heard(view.heard);
    server->set_server_id(view.state.id.value());
    server->set_name(view.state.name);
    server->set_incarnation(view.state.incarnation.value());
    server->set_node(view.state.node);
    for (const std::string& address : view.state.addresses) server->add_addresses(address);
    server->set_state(std::string(ServerStateName(view.state)));
    server->set_reason(view.state.reason);
    server->set_last_heartbeat_age_ms(view.last_heartbeat_age_ms);
    server->set_registered_at_unix_ms(view.state.registered_at_unix_ms);
    server->set_slot_memory_bytes(view.state.slot_memory_bytes);
    server->set_software_version(view.state.software_version);
    server->set_transports(view.state.transports);
    server->set_job_id(view.state.job.value());
    ToMessage(view.load, server->mutable_load());
  }
}

void ToMessage(const std::vector<JobView>& response, v1::ListJobsResponse* message) {
  for (const JobView& view : response) {
    v1::JobStatus* job = message->add_jobs();
    job->set_job_id(view.job.value());
    job->set_name(view.name);
    job->set_world_size(view.world_size);
    job->set_state(std::string(JobPhaseName(view.phase)));
    job->set_started_at_unix_ms(view.started_at_unix_ms);
    job->set_failure(view.failure);
    job->set_load_is_whole(view.load_is_whole);
    for (const RankView& rank : view.ranks) ToMessage(rank, job->add_ranks());
    for (const GroupView& group : view.groups) ToMessage(group, job->add_groups());
    for (const SlowRank& slow : view.slow_ranks) {
      v1::SlowRank* const rank = job->add_slow_ranks();
      rank->set_rank(slow.rank.value());
      rank->set_waited_share(slow.waited_share);
      rank->set_cause(std::string(SlowCauseName(slow.cause)));
      rank->set_advice(std::string(SlowCauseText(slow.cause)));
      rank->set_since_unix_ms(slow.since_unix_ms);
    }
    for (const SlowServer& slow : view.slow_servers) {
      v1::SlowServer* const server = job->add_slow_servers();
      server->set_server_id(slow.server.value());
      server->set_name(slow.name);
      server->set_node(slow.node);
      server->set_waited_share(slow.waited_share);
      server->set_cause(std::string(slow.CauseName()));
      if (slow.late_rank.has_value()) server->set_late_rank(slow.late_rank->value());
      server->set_advice(slow.Advice());
      server->set_since_unix_ms(slow.since_unix_ms);
    }
  }
}

void ToMessage(const std::shared_ptr<const ShardMap>& response, v1::ShardMap* message) {
  ToMessage(*response, message);
}

void ToMessage(const GroupMap& group, v1::GroupMap* message) {
  message->set_group_id(group.group.value());
  ToMessage(*group.map, message->mutable_map());
  message->set_failure(group.failure);
  message->set_ends_with_aborted(group.ends_with_aborted);
  message->set_all_committed(group.all_committed);
}

void ToMessage(const ColocationRequest& request, v1::ColocationRequest* message) {
  for (const JobRank rank : request.ranks) message->add_ranks(rank.value());
  message->set_reason(request.reason);
}

void ToMessage(const RankLost& lost, v1::RankLost* message) {
  message->set_job_id(lost.job.value());
  message->set_rank(lost.rank.value());
  message->set_node(lost.node);
  message->set_reason(lost.reason);
  message->set_incarnation(lost.incarnation.value());
}

void ToMessage(const EventRecord& event, v1::Event* message) {
  message->set_sequence(event.sequence);
  message->set_at_unix_ms(event.at_unix_ms);
  message->set_kind(std::string(EventKey(event.kind)));
  message->set_subject(event.subject);
  message->set_reason(event.reason);
  message->set_epoch(event.epoch.value());
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

}  // namespace shoal::scheduler
