#include "worker/rpc/membership_messages.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/version.h"
#include "proto/shared_messages.h"

namespace shoal {
namespace {

template <typename Message>
Message From(const MemberId& member) {
  Message message;
  message.set_job_id(member.job.value());
  message.set_rank(member.rank.value());
  message.set_incarnation(member.incarnation.value());
  return message;
}

void ToMessage(const NodeReduceRequest& offer, v1::NodeReduceRequest* message) {
  message->set_choice(static_cast<uint32_t>(offer.choice));
  message->set_possible(offer.possible);
  message->set_node_identity(offer.node_identity);
  message->set_can_rails(offer.can_rails);
}

template <typename Message>
void AddFailures(const std::vector<GroupFailure>& failures, Message* message) {
  for (const GroupFailure& failure : failures) {
    v1::GroupFailure* added = message->add_failures();
    added->set_group_id(failure.group.value());
    added->set_reason(failure.reason);
    added->set_lacks_memory(failure.lacks_memory);
    added->set_others_go_on(failure.others_go_on);
  }
}

template <typename Message>
void AddCommitted(const std::vector<GroupId>& groups, Message* message) {
  for (const GroupId group : groups) message->add_committed_group_ids(group.value());
}

template <typename Message>
void AddGivenUp(const std::vector<GivenUpRequest>& requests, Message* message) {
  for (const GivenUpRequest& request : requests) {
    v1::GivenUpRequest* added = message->add_given_up_requests();
    added->set_number(request.number);
    added->set_reason(request.reason);
  }
}

std::vector<std::byte> BytesOf(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void TakeGroup(const v1::GroupMap& group, std::vector<MoveGroupCommand>* moved,
               std::vector<GiveGroupUpCommand>* given_up) {
  const GroupId id(group.group_id());
  if (!group.failure().empty()) {
    const auto code = group.ends_with_aborted() ? absl::StatusCode::kAborted : absl::StatusCode::kResourceExhausted;
    given_up->push_back({.group = id, .reason = absl::Status(code, group.failure())});
  } else if (absl::StatusOr<std::shared_ptr<const ShardMap>> map = FromMessage(group.map()); map.ok()) {
    moved->push_back({.group = id,
                      .map = *std::move(map),
                      .all_committed = group.all_committed(),
                      .sealed_roster = BytesOf(group.sealed_roster()),
                      .closed = group.has_closed_rank() ? std::optional(Rank(group.closed_rank())) : std::nullopt});
  }
}

void ToMessage(const WorkerCounters& counters, v1::WorkerLoad* load) {
  load->set_ops_completed(counters.ops_completed);
  load->set_ops_failed(counters.ops_failed);
  load->set_bytes_pushed(counters.bytes_pushed);
  load->set_bytes_pulled(counters.bytes_pulled);
  load->set_op_time_ns_total(counters.op_time_ns_total);
  load->set_away_ns_total(counters.away_ns_total);
  load->set_counted_ns_total(counters.counted_ns_total);
  load->mutable_op_time_counts()->Add(counters.op_times.counts.begin(), counters.op_times.counts.end());
  load->set_refusals(counters.refusals);
  load->set_bytes_on_node(counters.bytes_on_node);
  load->set_retained_results(counters.retained_results);
  std::set<std::string> transports;
  for (const ShardTraffic& shard : counters.shards) {
    if (!shard.transport.empty()) transports.insert(shard.transport);
  }
  load->set_transports(absl::StrJoin(transports, ","));
}

// `Message`: what has the field partial_ops.
template <typename Message>
void AddPartialOps(const std::vector<PartialOp>& ops, Message* message) {
  for (const PartialOp& op : ops) {
    v1::PartialOp& partial = *message->add_partial_ops();
    partial.set_number(op.number);
    partial.set_group_id(op.group.value());
    partial.set_epoch(op.epoch.value());
    partial.set_op(op.op.value());
    for (const ContributedRange& each : op.ranges) {
      v1::ContributedRange& range = *partial.add_ranges();
      range.set_first_element(each.first);
      range.set_element_count(each.count);
      range.set_contributors(each.contributors);
    }
    partial.set_is_cut(op.is_cut);
  }
}

}  // namespace

v1::JoinJobRequest ToMessage(const JoinJobCall& call) {
  const JobMember& member = call.member;
  v1::JoinJobRequest message;
  message.set_control_version(kControlVersion);
  message.set_oldest_control_version(kOldestControlVersion);
  message.set_software_version(kSoftwareVersion);
  message.set_job_name(member.job_name);
  message.set_world_size(member.world_size);
  message.set_rank(member.rank.value());
  if (member.open.has_value()) {
    message.mutable_open()->set_min_ranks(member.open->min_ranks);
    message.mutable_open()->set_identity(member.open->identity);
  }
  message.set_incarnation(member.incarnation.value());
  message.set_node(member.node);
  message.set_pid(static_cast<uint32_t>(getpid()));
  message.set_colocation(static_cast<uint32_t>(member.colocation));
  message.set_colocates_without_servers(member.colocates_without_servers);
  ToMessage(member.node_reduce, message.mutable_node_reduce());
  message.set_min_servers(call.min_servers);
  message.set_local_world_size(member.local_world_size);
  message.set_boot_id(member.boot_id);
  message.set_can_encrypt(member.can_encrypt);
  return message;
}

v1::JoinGroupRequest ToMessage(const JoinGroupCall& call) {
  auto message = From<v1::JoinGroupRequest>(call.member);
  message.set_group_name(call.group.name);
  for (const uint32_t rank : call.group.ranks) message.add_ranks(rank);
  message.set_max_chunk_bytes(call.group.max_chunk_bytes);
  message.set_min_servers(call.group.min_servers);
  message.set_network_cards(call.group.network_cards);
  message.set_wait_ms(call.wait_ms);
  message.set_wire(static_cast<uint32_t>(call.group.wire));
  ToMessage(call.group.link, message.mutable_link());
  message.set_request_number(call.request_number);
  message.mutable_options()->set_checksums(call.group.checksums);
  message.mutable_options()->set_min_ranks(call.group.min_ranks);
  message.mutable_options()->set_scales_sums(call.group.scales_sums);
  message.mutable_options()->set_whole_op(call.group.whole_op);
  ToMessage(call.group.node_reduce, message.mutable_node_reduce());
  return message;
}

v1::CloseGroupsRequest ToMessage(const CloseGroupsCall& call) {
  auto message = From<v1::CloseGroupsRequest>(call.member);
  for (const GroupId group : call.groups) message.add_group_ids(group.value());
  AddGivenUp(call.given_up_requests, &message);
  for (const GivenUpRequest& request : call.given_up_requests) message.add_given_up_request_numbers(request.number);
  AddFailures(call.failures, &message);
  AddCommitted(call.committed_groups, &message);
  return message;
}

v1::HeartbeatWorkerRequest ToMessage(const HeartbeatCall& call) {
  auto message = From<v1::HeartbeatWorkerRequest>(call.member);
  ToMessage(call.load, message.mutable_load());
  for (const ServerWaitWindow& each : call.load.server_waits) {
    v1::ServerWaitWindow& window = *message.add_server_waits();
    window.set_group_id(each.group.value());
    window.set_epoch(each.epoch.value());
    window.set_window(each.number);
    window.set_window_ns(each.length_ns);
    window.set_ago_ms((call.made_ns - std::min(call.made_ns, each.end_ns)) / kNsPerMs);
    window.set_bursts(each.bursts);
    for (const ServerWait& of_server : each.servers) {
      v1::ServerWait& wait = *window.add_servers();
      wait.set_server_id(of_server.server.value());
      wait.set_waited_ns(of_server.waited_ns);
      wait.set_late_bursts(of_server.late_bursts);
    }
  }
  AddPartialOps(call.load.partial_ops, &message);
  return message;
}

v1::ReportServerRequest ToMessage(const ReportServerCall& call) {
  auto message = From<v1::ReportServerRequest>(call.member);
  message.set_group_id(call.trouble.group.value());
  message.set_epoch(call.trouble.epoch.value());
  message.set_server_id(call.trouble.server.value());
  message.set_server_incarnation(call.trouble.incarnation.value());
  message.set_reachable(call.trouble.reachable);
  message.set_reason(call.trouble.reason);
  message.set_refused(call.trouble.refused);
  if (call.trouble.left.has_value()) message.set_left_rank(call.trouble.left->value());
  return message;
}

v1::LeaveJobRequest ToMessage(const LeaveJobCall& call) {
  auto message = From<v1::LeaveJobRequest>(call.member);
  message.set_reason(call.reason);
  message.set_failed(call.failed);
  AddFailures(call.failures, &message);
  AddCommitted(call.committed_groups, &message);
  AddGivenUp(call.given_up_requests, &message);
  if (call.load.has_value()) {
    ToMessage(*call.load, message.mutable_load());
    AddPartialOps(call.load->partial_ops, &message);
  }
  return message;
}

absl::StatusOr<SchedulerAnswer> FromMessage(const v1::JoinJobResponse& message) {
  return JoinedJob{.id = JobId(message.job_id()),
                   .rank = JobRank(message.rank()),
                   .lease_ttl_ms = message.lease_ttl_ms(),
                   .server_count = message.server_count(),
                   .colocate_server = message.colocate_server(),
                   .needs_no_servers = message.needs_no_servers(),
                   .ticket = FromMessage(message.ticket())};
}

absl::StatusOr<SchedulerAnswer> FromMessage(const v1::JoinGroupResponse& message) {
  absl::StatusOr<std::shared_ptr<const ShardMap>> map = FromMessage(message.map());
  if (!map.ok()) return map.status();
  const std::optional<NodeReduceMode> node_reduce = NodeReduceModeFromNumber(message.node_reduce().mode());
  if (!node_reduce.has_value()) {
    return absl::InternalError(absl::StrCat("the scheduler wants the group to reduce within its nodes in a way (",
                                            message.node_reduce().mode(),
                                            ") that this worker does not know: update the worker"));
  }
  JoinedGroup group{.id = GroupId(message.group_id()),
                    .map = *std::move(map),
                    .nodes = {message.nodes().begin(), message.nodes().end()},
                    .look_ahead_chunks = message.look_ahead_chunks(),
                    .link = FromMessage(message.link()),
                    .busiest_port = message.busiest_port(),
                    .busiest_link = message.busiest_link(),
                    .node_reduce = *node_reduce,
                    .meeting_name = message.node_reduce().meeting_name(),
                    .local_ranks = {},
                    .rail_ranks = {},
                    .whole_group = GroupId(message.whole_group_id())};
  const v1::NodeReduce& rails = message.node_reduce();
  group.local_ranks = std::vector<Rank>(rails.local_ranks().begin(), rails.local_ranks().end());
  group.rail_ranks = std::vector<Rank>(rails.rail_ranks().begin(), rails.rail_ranks().end());
  group.token = BytesOf(message.token());
  group.sealed_roster = BytesOf(message.sealed_roster());
  return group;
}

absl::StatusOr<SchedulerAnswer> FromMessage(const v1::HeartbeatWorkerResponse& message) {
  return HeartbeatAnswer{.lease_ttl_ms = message.lease_ttl_ms(),
                         .waits = {message.waits().begin(), message.waits().end()},
                         .news = {message.news().begin(), message.news().end()},
                         .trace = TraceOf(message),
                         .ticket = FromMessage(message.ticket())};
}

absl::StatusOr<SchedulerAnswer> FromMessage(const v1::CloseGroupsResponse&) { return CallDone{}; }
absl::StatusOr<SchedulerAnswer> FromMessage(const v1::ReportServerResponse& message) {
  ReportAnswer answer;
  if (message.has_group()) TakeGroup(message.group(), &answer.moved_groups, &answer.given_up_groups);
  return answer;
}
absl::StatusOr<SchedulerAnswer> FromMessage(const v1::LeaveJobResponse&) { return CallDone{}; }

WatchNews FromMessage(const v1::WatchResponse& message) {
  WatchNews news;
  if (message.has_map()) {
    absl::StatusOr<std::shared_ptr<const ShardMap>> map = FromMessage(message.map());
    if (map.ok()) news.map = *std::move(map);
  }
  for (const v1::GroupMap& group : message.groups()) TakeGroup(group, &news.moved_groups, &news.given_up_groups);
  news.colocation_wanted.assign(message.colocation().ranks().begin(), message.colocation().ranks().end());
  news.colocation_wanted_because = message.colocation().reason();
  for (const v1::RankLost& lost : message.lost_ranks()) {
    news.lost_ranks.push_back({.job_rank = JobRank(lost.rank()), .node = lost.node(), .reason = lost.reason()});
  }
  return news;
}

}  // namespace shoal
