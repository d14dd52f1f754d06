#include "scheduler/state_codec.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shoal/v1/state.pb.h"

namespace shoal::scheduler {
namespace {

absl::Status Contradiction(const std::string& what) {
  return absl::DataLossError(absl::StrCat("the saved state is damaged: ", what));
}

bool IsMemberPhase(uint32_t phase) {
  return phase >= static_cast<uint32_t>(MemberPhase::kLive) && phase <= static_cast<uint32_t>(MemberPhase::kLeft);
}

bool IsJobPhase(uint32_t phase) {
  return phase >= static_cast<uint32_t>(JobPhase::kJoining) && phase <= static_cast<uint32_t>(JobPhase::kEnded);
}

void Encode(const ServerState& server, v1::StoredServer* stored) {
  stored->set_server_id(server.id.value());
  stored->set_name(server.name);
  stored->set_incarnation(server.incarnation.value());
  stored->set_evicted_incarnation(server.evicted_incarnation.value());
  stored->set_phase(static_cast<uint32_t>(server.phase));
  stored->set_reason(server.reason);
  stored->set_host(server.host);
  for (const std::string& address : server.addresses) stored->add_addresses(address);
  stored->set_weight(server.weight);
  stored->set_slot_memory_bytes(server.slot_memory_bytes);
  stored->set_transports(server.transports);
  stored->set_software_version(server.software_version);
  stored->set_registered_at_unix_ms(server.registered_at_unix_ms);
  stored->set_job_id(server.job.value());
  stored->set_draining(server.draining);
}

void Encode(const JobState& job, v1::StoredJob* stored) {
  stored->set_job_id(job.id.value());
  stored->set_name(job.name);
  stored->set_world_size(job.world_size);
  stored->set_phase(static_cast<uint32_t>(job.phase));
  stored->set_started_at_unix_ms(job.started_at_unix_ms);
  for (const auto& [number, rank] : job.ranks) {
    v1::StoredRank* stored_rank = stored->add_ranks();
    stored_rank->set_rank(number);
    stored_rank->set_incarnation(rank.incarnation.value());
    stored_rank->set_phase(static_cast<uint32_t>(rank.phase));
    stored_rank->set_reason(rank.reason);
    stored_rank->set_host(rank.host);
    stored_rank->set_pid(rank.pid);
    stored_rank->set_hosts_without_servers(rank.hosts_without_servers);
  }
  for (const GroupState& group : job.groups) {
    v1::StoredGroup* stored_group = stored->add_groups();
    stored_group->set_group_id(group.id.value());
    stored_group->set_name(group.name);
    stored_group->set_epoch(group.epoch.value());
    for (const uint32_t rank : group.ranks) stored_group->add_ranks(rank);
    stored_group->set_max_chunk_bytes(group.max_chunk_bytes);
    stored_group->set_wire(static_cast<uint32_t>(group.wire));
    for (const Shard& shard : group.shards) {
      v1::Shard* stored_shard = stored_group->add_shards();
      stored_shard->set_server_id(shard.server.value());
      stored_shard->set_incarnation(shard.incarnation.value());
      stored_shard->set_server_name(shard.server_name);
      stored_shard->set_address(shard.address);
      stored_shard->set_weight(shard.weight);
    }
    for (const ExcludedServer& excluded : group.excluded) {
      v1::StoredExclusion* stored_exclusion = stored_group->add_excluded();
      stored_exclusion->set_server_id(excluded.server.value());
      stored_exclusion->set_incarnation(excluded.incarnation.value());
    }
  }
}

absl::StatusOr<ServerState> Decode(const v1::StoredServer& stored) {
  if (!IsMemberPhase(stored.phase())) return Contradiction(absl::StrCat("server ", stored.name(), " has no phase"));
  ServerState server;
  server.id = ServerId(stored.server_id());
  server.name = stored.name();
  server.incarnation = Incarnation(stored.incarnation());
  server.evicted_incarnation = Incarnation(stored.evicted_incarnation());
  server.phase = static_cast<MemberPhase>(stored.phase());
  server.reason = stored.reason();
  server.host = stored.host();
  server.addresses.assign(stored.addresses().begin(), stored.addresses().end());
  server.weight = stored.weight();
  server.slot_memory_bytes = stored.slot_memory_bytes();
  server.transports = stored.transports();
  server.software_version = stored.software_version();
  server.registered_at_unix_ms = stored.registered_at_unix_ms();
  server.job = JobId(stored.job_id());
  server.draining = stored.draining();
  return server;
}

absl::StatusOr<JobState> Decode(const v1::StoredJob& stored) {
  const std::string who = absl::StrCat("job \"", stored.name(), "\"");
  if (!IsJobPhase(stored.phase())) return Contradiction(absl::StrCat(who, " has no phase"));
  JobState job;
  job.id = JobId(stored.job_id());
  job.name = stored.name();
  job.world_size = stored.world_size();
  job.phase = static_cast<JobPhase>(stored.phase());
  job.started_at_unix_ms = stored.started_at_unix_ms();
  for (const v1::StoredRank& rank : stored.ranks()) {
    if (rank.rank() >= job.world_size || !IsMemberPhase(rank.phase())) {
      return Contradiction(absl::StrCat("rank ", rank.rank(), " of ", who, " is out of range or has no phase"));
    }
    RankState state;
    state.incarnation = Incarnation(rank.incarnation());
    state.phase = static_cast<MemberPhase>(rank.phase());
    state.reason = rank.reason();
    state.host = rank.host();
    state.pid = rank.pid();
    state.hosts_without_servers = rank.hosts_without_servers();
    job.ranks.emplace(rank.rank(), std::move(state));
  }
  for (const v1::StoredGroup& group : stored.groups()) {
    const std::optional<WireFormat> wire = WireFormatFromNumber(group.wire());
    if (!wire.has_value())
      return Contradiction(absl::StrCat("a group of ", who, " has the unknown wire ", group.wire()));
    GroupState& state = job.groups.emplace_back();
    state.id = GroupId(group.group_id());
    state.name = group.name();
    state.epoch = Epoch(group.epoch());
    state.ranks.assign(group.ranks().begin(), group.ranks().end());
    state.max_chunk_bytes = group.max_chunk_bytes();
    state.wire = *wire;
    for (const v1::Shard& shard : group.shards()) {
      state.shards.push_back({.server = ServerId(shard.server_id()),
                              .incarnation = Incarnation(shard.incarnation()),
                              .server_name = shard.server_name(),
                              .address = shard.address(),
                              .weight = shard.weight()});
    }
    for (const v1::StoredExclusion& excluded : group.excluded()) {
      state.excluded.push_back({ServerId(excluded.server_id()), Incarnation(excluded.incarnation())});
    }
  }
  return job;
}

}  // namespace

std::string EncodeState(const PersistedState& state) {
  v1::SchedulerState stored;
  stored.set_cluster_id(state.cluster_id);
  stored.set_token_key(state.token_key.data(), state.token_key.size());
  stored.set_epoch(state.epoch.value());
  stored.set_next_server_id(state.next_server_id);
  stored.set_next_job_id(state.next_job_id);
  stored.set_next_group_id(state.next_group_id);
  for (const ServerState& server : state.servers) Encode(server, stored.add_servers());
  for (const JobState& job : state.jobs) Encode(job, stored.add_jobs());
  return stored.SerializeAsString();
}

absl::StatusOr<PersistedState> DecodeState(const std::string& bytes) {
  v1::SchedulerState stored;
  if (!stored.ParseFromString(bytes)) return Contradiction("it is no scheduler's state");
  PersistedState state;
  if (stored.cluster_id().empty() || stored.token_key().size() != state.token_key.size()) {
    return Contradiction("cluster id or token key is missing");
  }
  state.cluster_id = stored.cluster_id();
  std::memcpy(state.token_key.data(), stored.token_key().data(), state.token_key.size());
  state.epoch = Epoch(stored.epoch());
  state.next_server_id = stored.next_server_id();
  state.next_job_id = stored.next_job_id();
  state.next_group_id = stored.next_group_id();
  for (const v1::StoredServer& each : stored.servers()) {
    absl::StatusOr<ServerState> server = Decode(each);
    if (!server.ok()) return server.status();
    if (server->id.value() >= state.next_server_id) {
      return Contradiction(absl::StrCat("server ", server->name, " has an id that was not given out yet"));
    }
    state.servers.push_back(*std::move(server));
  }
  for (const v1::StoredJob& each : stored.jobs()) {
    absl::StatusOr<JobState> job = Decode(each);
    if (!job.ok()) return job.status();
    if (job->id.value() >= state.next_job_id) {
      return Contradiction(absl::StrCat("job \"", job->name, "\" has an id that was not given out yet"));
    }
    state.jobs.push_back(*std::move(job));
  }
  return state;
}

}  // namespace shoal::scheduler
