#include "scheduler/rpc/control_messages.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/rpc/load_messages.h"

namespace shoal::scheduler {
namespace {

template <typename Message>
std::vector<GroupFailure> FailuresOf(const Message& message) {
  std::vector<GroupFailure> failures;
  for (const v1::GroupFailure& failure : message.failures()) {
    failures.push_back({.group = GroupId(failure.group_id()),
                        .reason = failure.reason(),
                        .lacks_memory = failure.lacks_memory(),
                        .others_go_on = failure.others_go_on()});
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
  if constexpr (requires { message.given_up_request_numbers(); }) {
    if (!requests.empty()) return requests;  // those are the same ones
    for (const uint64_t number : message.given_up_request_numbers()) {
      requests.push_back({.number = number, .reason = {}});
    }
  }
  return requests;
}

NodeReduceRequest FromMessage(const v1::NodeReduceRequest& message) {
  return {.choice = message.choice(),
          .possible = message.possible(),
          .node_identity = message.node_identity(),
          .can_rails = message.can_rails()};
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
          .job = JobId(message.job_id()),
          .boot_id = message.boot_id(),
          .can_encrypt = message.can_encrypt()};
}

HeartbeatServer FromMessage(const v1::HeartbeatServerRequest& message) {
  HeartbeatServer request{.server = ServerId(message.server_id()),
                          .incarnation = Incarnation(message.incarnation()),
                          .load = FromMessage(message.load()),
                          .absent_ranks = {}};
  request.now_unix_ms = message.now_unix_ms();
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
  std::optional<OpenJob> open;
  if (message.has_open()) open = {.min_ranks = message.open().min_ranks(), .identity = message.open().identity()};
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
          .node_reduce = std::move(node_reduce),
          .min_servers = message.min_servers(),
          .local_world_size = message.local_world_size(),
          .boot_id = message.boot_id(),
          .can_encrypt = message.can_encrypt(),
          .open = std::move(open)};
}

JoinGroup FromMessage(const v1::JoinGroupRequest& message) {
  std::vector<JobRank> ranks;
  ranks.reserve(static_cast<size_t>(message.ranks_size()));
  for (const uint32_t rank : message.ranks()) ranks.emplace_back(rank);
  std::optional<SharedOptions> options;
  if (message.has_options()) {
    options = {.checksums = message.options().checksums(),
               .min_ranks = message.options().min_ranks(),
               .scales_sums = message.options().scales_sums(),
               .whole_op = message.options().whole_op()};
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

// `Message`: what has the field partial_ops.
template <typename Message>
std::vector<PartialOp> PartialOpsOf(const Message& message) {
  std::vector<PartialOp> ops;
  for (const v1::PartialOp& partial : message.partial_ops()) {
    if (ops.size() == kMostPartialOps) break;
    PartialOp& op = ops.emplace_back();
    op.number = partial.number();
    op.group = GroupId(partial.group_id());
    op.epoch = Epoch(partial.epoch());
    op.op = OpNumber(partial.op());
    op.is_cut = partial.is_cut();
    for (const v1::ContributedRange& range : partial.ranges()) {
      if (op.ranges.size() == kMostContributedRanges) break;
      op.ranges.push_back(
          {.first = range.first_element(), .count = range.element_count(), .contributors = range.contributors()});
    }
  }
  return ops;
}

HeartbeatWorker FromMessage(const v1::HeartbeatWorkerRequest& message) {
  return {.job = JobId(message.job_id()),
          .rank = JobRank(message.rank()),
          .incarnation = Incarnation(message.incarnation()),
          .load = FromMessage(message.load()),
          .server_waits = ServerWaitsOf(message),
          .partial_ops = PartialOpsOf(message)};
}

GetTicket FromMessage(const v1::GetTicketRequest&) { return {}; }

LeaveJob FromMessage(const v1::LeaveJobRequest& message) {
  std::optional<WorkerLoad> load;
  if (message.has_load()) load = FromMessage(message.load());
  return {.job = JobId(message.job_id()),
          .rank = JobRank(message.rank()),
          .incarnation = Incarnation(message.incarnation()),
          .reason = message.reason(),
          .failed = message.failed(),
          .failures = FailuresOf(message),
          .given_up_requests = GivenUpOf(message),
          .committed_groups = CommittedOf(message),
          .load = std::move(load),
          .partial_ops = PartialOpsOf(message)};
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
          .refused = message.refused(),
          .left = message.has_left_rank() ? std::optional(Rank(message.left_rank())) : std::nullopt};
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
SendFlightRecord FromMessage(const v1::SendFlightRecordRequest& message) {
  return {.job = JobId(message.job_id()),
          .group = GroupId(message.group_id()),
          .rank = JobRank(message.rank()),
          .server = ServerId(message.server_id()),
          .io_thread = message.io_thread(),
          .incarnation = Incarnation(message.incarnation()),
          .record = message.record()};
}
GetFlightRecords FromMessage(const v1::GetFlightRecordsRequest& message) {
  return {.job_name = message.job_name(), .group = GroupId(message.group_id()), .member = message.member()};
}
void ToMessage(const ServerRegistered& response, v1::RegisterServerResponse* message) {
  message->set_server_id(response.server.value());
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  message->set_token_key(response.token_key.data(), response.token_key.size());
  message->set_epoch(response.epoch.value());
  message->set_scheduler_is_colocated(response.is_colocated);
  message->set_key_period(response.key_period);
}

void ToMessage(const ServerRenewed& response, v1::HeartbeatServerResponse* message) {
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  message->set_epoch(response.epoch.value());
  message->set_drain(response.drain);
  message->set_scheduler_is_colocated(response.is_colocated);
  message->set_key_period(response.key_period);
  if (response.trace.has_value()) ToMessage(*response.trace, message->mutable_trace());
}

void ToMessage(const ServerDraining& response, v1::DrainServerResponse* message) {
  message->set_server_id(response.server.value());
  message->set_registered_at_unix_ms(response.registered_at_unix_ms);
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

void ToMessage(const Done&, v1::SendFlightRecordResponse*) {}

void ToMessage(const FlightRecordsView& response, v1::FlightRecords* message) {
  message->set_group_id(response.group.value());
  message->set_job_name(response.job_name);
  for (const std::string& member : response.members) message->add_members(member);
  for (const GroupId group : response.other_groups) message->add_other_group_ids(group.value());
  message->set_record(response.record);
}

void ToMessage(const JobJoined& response, v1::JoinJobResponse* message) {
  message->set_job_id(response.job.value());
  message->set_rank(response.rank.value());
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  message->set_server_count(response.server_count);
  message->set_colocate_server(response.colocate_server);
  message->set_needs_no_servers(response.needs_no_servers);
  ToMessage(response.ticket, message->mutable_ticket());
}

void ToMessage(const GroupJoined& response, v1::JoinGroupResponse* message) {
  message->set_group_id(response.group.value());
  message->set_token(response.token.data(), response.token.size());
  ToMessage(*response.map, message->mutable_map());
  for (const std::string& node : response.nodes) message->add_nodes(node);
  message->set_look_ahead_chunks(response.look_ahead_chunks);
  ToMessage(response.link, message->mutable_link());
  message->set_busiest_port(response.busiest_port);
  message->set_busiest_link(response.busiest_link);
  v1::NodeReduce* const node_reduce = message->mutable_node_reduce();
  node_reduce->set_mode(static_cast<uint32_t>(response.node_reduce));
  node_reduce->set_meeting_name(response.meeting_name);
  for (const Rank rank : response.local_ranks) node_reduce->add_local_ranks(rank.value());
  for (const Rank rank : response.rail_ranks) node_reduce->add_rail_ranks(rank.value());
  message->set_whole_group_id(response.whole_group.value());
  message->set_sealed_roster(response.sealed_roster.data(), response.sealed_roster.size());
}

void ToMessage(const WorkerRenewed& response, v1::HeartbeatWorkerResponse* message) {
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  for (const std::string& wait : response.waits) message->add_waits(wait);
  for (const std::string& line : response.news) message->add_news(line);
  if (response.trace.has_value()) ToMessage(*response.trace, message->mutable_trace());
  ToMessage(response.ticket, message->mutable_ticket());
}

void ToMessage(const TicketIssued& response, v1::GetTicketResponse* message) {
  ToMessage(response.ticket, message->mutable_ticket());
}

void ToMessage(const GroupMap& group, v1::GroupMap* message) {
  message->set_group_id(group.group.value());
  ToMessage(*group.map, message->mutable_map());
  message->set_failure(group.failure);
  message->set_ends_with_aborted(group.ends_with_aborted);
  message->set_all_committed(group.all_committed);
  message->set_sealed_roster(group.sealed_roster.data(), group.sealed_roster.size());
  if (group.closed.has_value()) message->set_closed_rank(group.closed->value());
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
