// What those who look at the cluster get, as messages (control_messages.h).
#include <memory>
#include <string>

#include "core/version.h"
#include "scheduler/rpc/control_messages.h"
#include "scheduler/rpc/load_messages.h"

namespace shoal::scheduler {
namespace {

void ToMessage(const RankView& view, v1::RankStatus* message) {
  message->set_rank(view.rank.value());
  message->set_node(view.state.node);
  message->set_pid(view.state.pid);
  message->set_state(std::string(MemberPhaseName(view.state.phase)));
  message->set_reason(view.state.reason);
  message->set_identity(view.state.identity);
  message->set_last_heartbeat_age_ms(view.last_heartbeat_age_ms);
  ToMessage(view.load, message->mutable_load());
  if (view.rates.has_value()) ToMessage(*view.rates, message->mutable_rates());
}

void ToMessage(const MissingServers& missing, v1::MissingServers* message) {
  message->set_registered(missing.registered);
  message->set_wanted(missing.wanted);
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
  for (const JobRank rank : view.state.lost) {
    if (view.state.min_ranks > 0) message->add_lost_ranks(rank.value());
  }
  if (view.missing_servers.has_value()) ToMessage(*view.missing_servers, message->mutable_missing_servers());
  if (view.open) message->set_node_reduce(std::string(NodeReduceModeName(view.state.node_reduce)));
  if (view.state.rail.has_value()) {
    message->set_rail(view.state.rail->index);
    message->set_rails(view.state.rail->layout.ranks_per_node);
  }
  if (!view.open || !view.state.UsesServers()) return;
  message->set_credit_chunks(view.state.opening.credit_chunks);
  ToMessage(view.state.opening.link, message->mutable_link());
}

}  // namespace

GetCluster FromMessage(const v1::GetClusterRequest&) { return {}; }
ListServers FromMessage(const v1::ListServersRequest& message) {
  return {.name = message.name(), .page_size = message.page_size(), .page_token = message.page_token()};
}
ListJobs FromMessage(const v1::ListJobsRequest& message) {
  return {.name = message.name(),
          .page_size = message.page_size(),
          .page_token = message.page_token(),
          .without_groups = message.without_groups()};
}
GetShardMap FromMessage(const v1::GetShardMapRequest&) { return {}; }

void ToMessage(const ClusterView& response, v1::Cluster* message) {
  message->set_cluster_id(response.cluster_id);
  message->set_software_version(kSoftwareVersion);
  message->set_epoch(response.epoch.value());
  message->set_servers_live(response.servers_live);
  message->set_servers_lost(response.servers_lost);
  message->set_servers_colocated(response.servers_colocated);
  message->set_jobs(response.jobs);
  message->set_workers(response.workers);
  message->set_started_at_unix_ms(response.started_at_unix_ms);
  message->set_lease_ttl_ms(response.lease_ttl_ms);
  message->set_store(response.store);
  message->set_now_unix_ms(response.now_unix_ms);
  message->set_leader(response.leader);
  message->set_moves_servers_changed(response.moves.servers_changed);
  message->set_moves_asked_by_rank(response.moves.asked_by_rank);
  message->set_saves_succeeded(response.saves.succeeded);
  message->set_saves_failed(response.saves.failed);
  message->set_save_ns_total(response.saves.total_ns);
  message->set_newest_save_ns(response.saves.newest_ns);
  message->set_newest_save_unix_ms(response.saves.newest_unix_ms);
  message->set_newest_forgotten_event_unix_ms(response.newest_forgotten_event_unix_ms);
  message->set_save_failure(response.save_failure);
  message->set_saves_fail_since_unix_ms(response.saves_fail_since_unix_ms);
  message->set_newest_save_failure_unix_ms(response.saves.newest_failure_unix_ms);
  message->set_open_to_network(response.open_to_network);
  for (const RefusedServerView& view : response.refused_servers) {
    v1::RefusedServer* const refused = message->add_refused_servers();
    refused->set_name(view.name);
    refused->set_node(view.node);
    refused->set_reason(view.reason);
    refused->set_newest_age_ms(view.newest_age_ms);
  }
}

void ToMessage(const ServersPage& response, v1::ListServersResponse* message) {
  message->set_next_page_token(response.next_page_token);
  for (const ServerView& view : response.servers) {
    v1::ServerStatus* server = message->add_servers();
    server->set_heard(view.heard);
    server->set_server_id(view.state.id.value());
    server->set_name(view.state.name);
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
    if (view.rates.has_value()) ToMessage(*view.rates, server->mutable_rates());
    if (view.clock_ahead_ms.has_value()) server->set_clock_ahead_ms(*view.clock_ahead_ms);
  }
}

void ToMessage(const JobsPage& response, v1::ListJobsResponse* message) {
  message->set_next_page_token(response.next_page_token);
  for (const JobView& view : response.jobs) {
    v1::JobStatus* job = message->add_jobs();
    job->set_job_id(view.job.value());
    job->set_name(view.name);
    job->set_world_size(view.world_size);
    job->set_min_ranks(view.min_ranks);
    job->set_state(std::string(JobPhaseName(view.phase)));
    job->set_started_at_unix_ms(view.started_at_unix_ms);
    job->set_failure(view.failure);
    job->set_load_is_whole(view.load_is_whole);
    job->set_slot_memory_bytes(view.slot_memory_bytes);
    ToMessageOfJob(view.load, job->mutable_load());
    if (view.rates.has_value()) ToMessage(*view.rates, job->mutable_rates());
    if (view.missing_servers.has_value()) ToMessage(*view.missing_servers, job->mutable_missing_servers());
    for (const RankView& rank : view.ranks) ToMessage(rank, job->add_ranks());
    for (const GroupView& group : view.groups) ToMessage(group, job->add_groups());
    for (const SlowRank& slow : view.slow_ranks) {
      v1::SlowRank* const rank = job->add_slow_ranks();
      rank->set_rank(slow.rank.value());
      rank->set_waited_share(slow.waited_share);
      rank->set_waited_ns_per_op(slow.waited_ns_per_op);
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
  for (v1::Shard& shard : *message->mutable_shards()) shard.clear_incarnation();
}

}  // namespace shoal::scheduler
