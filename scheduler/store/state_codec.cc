#include "scheduler/store/state_codec.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/shared_messages.h"
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
  stored->set_node(server.node);
  stored->set_boot_id(server.boot_id);
  for (const std::string& address : server.addresses) stored->add_addresses(address);
  stored->set_weight(server.weight);
  stored->set_slot_memory_bytes(server.slot_memory_bytes);
  stored->set_transports(server.transports);
  stored->set_software_version(server.software_version);
  stored->set_registered_at_unix_ms(server.registered_at_unix_ms);
  stored->set_job_id(server.job.value());
  stored->set_draining(server.draining);
  stored->set_gone_at_unix_ms(server.gone_at_unix_ms);
  stored->set_identity(server.identity);
}

void Encode(const GroupOpening& opening, v1::StoredOpening* stored) {
  stored->set_epoch(opening.epoch.value());
  stored->set_credit_chunks(opening.credit_chunks);
  stored->set_look_ahead_chunks(opening.look_ahead_chunks);
  ToMessage(opening.link, stored->mutable_link());
  stored->set_busiest_port(opening.busiest_port);
  stored->set_busiest_link(opening.busiest_link);
  for (const GroupRequestId& request : opening.answered) {
    v1::StoredGroupRequest* stored_request = stored->add_answered();
    stored_request->set_incarnation(request.incarnation.value());
    stored_request->set_number(request.number);
  }
}

void Encode(const RailState& rail, v1::StoredRail* stored) {
  stored->set_first_group_id(rail.first_rail.value());
  stored->set_index(rail.index);
  for (const JobRank rank : rail.group_ranks) stored->add_group_ranks(rank.value());
  stored->set_ranks_per_node(rail.layout.ranks_per_node);
  for (const Rank rank : rail.layout.by_node) stored->add_by_node(rank.value());
}

void Encode(const GroupState& group, v1::StoredGroup* stored) {
  stored->set_group_id(group.id.value());
  stored->set_name(group.name);
  stored->set_epoch(group.epoch.value());
  for (const JobRank rank : group.ranks) stored->add_ranks(rank.value());
  stored->set_max_chunk_bytes(group.max_chunk_bytes);
  stored->set_wire(static_cast<uint32_t>(group.wire));
  for (const Shard& shard : group.shards) ToMessage(shard, stored->add_shards());
  for (const ExcludedServer& excluded : group.excluded) {
    v1::StoredExclusion* stored_exclusion = stored->add_excluded();
    stored_exclusion->set_server_id(excluded.server.value());
    stored_exclusion->set_incarnation(excluded.incarnation.value());
    stored_exclusion->set_refusal(excluded.refusal);
  }
  for (const JobRank rank : group.gone) stored->add_gone(rank.value());
  stored->set_failure(group.failure);
  stored->set_node_reduce(static_cast<uint32_t>(group.node_reduce));
  stored->set_ends_with_aborted(group.ends_with_aborted);
  stored->set_all_committed(group.all_committed);
  stored->set_min_ranks(group.min_ranks);
  for (const JobRank rank : group.lost) stored->add_lost(rank.value());
  stored->set_sealed_roster(group.sealed_roster.data(), group.sealed_roster.size());
  Encode(group.opening, stored->mutable_opening());
  if (group.rail.has_value()) Encode(*group.rail, stored->mutable_rail());
}

// Texts that many ranks have alike, each with its number in the order in which they came, from 1 on.
class NumberedTexts {
 public:
  // 0: it is empty.
  uint32_t NumberOf(std::string_view text) {
    if (text.empty()) return 0;
    return numbers_.try_emplace(text, static_cast<uint32_t>(numbers_.size()) + 1).first->second;
  }
  void Store(google::protobuf::RepeatedPtrField<std::string>* texts) const {
    for (size_t i = 0; i < numbers_.size(); ++i) texts->Add();
    for (const auto& [text, number] : numbers_) texts->at(static_cast<int>(number) - 1) = std::string(text);
  }

 private:
  std::map<std::string_view, uint32_t> numbers_;
};

void Encode(const NodeReduceRequest& request, NumberedTexts* identities, v1::StoredNodeReduce* stored) {
  stored->set_choice(request.choice);
  stored->set_possible(request.possible);
  stored->set_can_rails(request.can_rails);
  stored->set_node(identities->NumberOf(request.node_identity));
}

void Encode(const JobState& job, v1::StoredJob* stored) {
  stored->set_job_id(job.id.value());
  stored->set_name(job.name);
  stored->set_world_size(job.world_size);
  stored->set_min_ranks(job.min_ranks);
  stored->set_tenant(job.tenant);
  stored->set_phase(static_cast<uint32_t>(job.phase));
  stored->set_failure(job.failure);
  stored->set_started_at_unix_ms(job.started_at_unix_ms);
  NumberedTexts identities;
  NumberedTexts boot_ids;
  for (const auto& [job_rank, rank] : job.ranks) {
    v1::StoredRank* stored_rank = stored->add_ranks();
    stored_rank->set_rank(job_rank.value());
    stored_rank->set_incarnation(rank.incarnation.value());
    stored_rank->set_phase(static_cast<uint32_t>(rank.phase));
    stored_rank->set_reason(rank.reason);
    stored_rank->set_node(rank.node);
    stored_rank->set_boot(boot_ids.NumberOf(rank.boot_id));
    stored_rank->set_pid(rank.pid);
    stored_rank->set_identity(rank.identity);
    stored_rank->set_colocates_without_servers(rank.colocates_without_servers);
    if (rank.node_reduce.has_value()) Encode(*rank.node_reduce, &identities, stored_rank->mutable_node_reduce());
  }
  identities.Store(stored->mutable_node_identities());
  boot_ids.Store(stored->mutable_boot_ids());
  for (const GroupState& group : job.groups) Encode(group, stored->add_groups());
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
  server.node = stored.node();
  server.boot_id = stored.boot_id();
  server.addresses.assign(stored.addresses().begin(), stored.addresses().end());
  server.weight = stored.weight();
  server.slot_memory_bytes = stored.slot_memory_bytes();
  server.transports = stored.transports();
  server.software_version = stored.software_version();
  server.registered_at_unix_ms = stored.registered_at_unix_ms();
  server.gone_at_unix_ms = stored.gone_at_unix_ms();
  server.identity = stored.identity();
  server.job = JobId(stored.job_id());
  server.draining = stored.draining();
  return server;
}

GroupOpening Decode(const v1::StoredOpening& stored) {
  GroupOpening opening;
  opening.epoch = Epoch(stored.epoch());
  opening.credit_chunks = stored.credit_chunks();
  opening.look_ahead_chunks = stored.look_ahead_chunks();
  opening.link = shoal::FromMessage(stored.link());
  opening.busiest_port = stored.busiest_port() >= 1 ? stored.busiest_port() : 1;
  opening.busiest_link = stored.busiest_link() > 0 ? stored.busiest_link() : opening.busiest_port;
  for (const v1::StoredGroupRequest& request : stored.answered()) {
    opening.answered.push_back({Incarnation(request.incarnation()), request.number()});
  }
  return opening;
}

RailState Decode(const v1::StoredRail& stored) {
  RailState rail;
  rail.first_rail = GroupId(stored.first_group_id());
  rail.index = stored.index();
  rail.group_ranks = std::vector<JobRank>(stored.group_ranks().begin(), stored.group_ranks().end());
  rail.layout.ranks_per_node = stored.ranks_per_node();
  rail.layout.by_node = std::vector<Rank>(stored.by_node().begin(), stored.by_node().end());
  return rail;
}

// A rail has the ranks that the layout of its group gives it, and no other group is a rail.
bool RailFits(const GroupState& group) {
  if (!group.rail.has_value()) return group.node_reduce != NodeReduceMode::kRails;
  const RailState& rail = *group.rail;
  if (group.node_reduce != NodeReduceMode::kRails || !rail.layout.IsOf(rail.group_ranks.size()) ||
      rail.index >= rail.layout.ranks_per_node) {
    return false;
  }
  std::vector<JobRank> ranks;
  for (const Rank rank : rail.layout.RanksOfRail(rail.index)) ranks.push_back(rail.group_ranks[rank.value()]);
  return ranks == group.ranks;
}

absl::StatusOr<GroupState> Decode(const v1::StoredGroup& stored, const std::string& of_job) {
  const std::optional<WireFormat> wire = WireFormatFromNumber(stored.wire());
  if (!wire.has_value()) {
    return Contradiction(absl::StrCat("a group of ", of_job, " has the unknown wire format ", stored.wire()));
  }
  const std::optional<NodeReduceMode> node_reduce = NodeReduceModeFromNumber(stored.node_reduce());
  if (!node_reduce.has_value()) {
    return Contradiction(
        absl::StrCat("a group of ", of_job, " reduces within its nodes in the unknown way ", stored.node_reduce()));
  }
  GroupState group;
  group.id = GroupId(stored.group_id());
  group.name = stored.name();
  group.epoch = Epoch(stored.epoch());
  for (const uint32_t rank : stored.ranks()) group.ranks.emplace_back(rank);
  group.max_chunk_bytes = stored.max_chunk_bytes();
  group.wire = *wire;
  group.node_reduce = *node_reduce;
  for (const v1::Shard& shard : stored.shards()) group.shards.push_back(shoal::FromMessage(shard));
  for (const v1::StoredExclusion& excluded : stored.excluded()) {
    group.excluded.push_back({ServerId(excluded.server_id()), Incarnation(excluded.incarnation()), excluded.refusal()});
  }
  for (const uint32_t rank : stored.gone()) {
    if (std::count(group.ranks.begin(), group.ranks.end(), JobRank(rank)) == 0) {
      return Contradiction(
          absl::StrCat("rank ", rank, " has left group \"", group.name, "\" of ", of_job, " without being in it"));
    }
    group.gone.insert(JobRank(rank));
  }
  group.opening = Decode(stored.opening());
  group.failure = stored.failure();
  group.ends_with_aborted = stored.ends_with_aborted();
  group.all_committed = stored.all_committed();
  group.min_ranks = stored.min_ranks();
  for (const uint32_t rank : stored.lost()) {
    if (!group.gone.contains(JobRank(rank))) {
      return Contradiction(
          absl::StrCat("group \"", group.name, "\" of ", of_job, " goes on without rank ", rank, ", which is in it"));
    }
    group.lost.insert(JobRank(rank));
  }
  const auto roster = std::as_bytes(std::span(stored.sealed_roster()));
  group.sealed_roster.assign(roster.begin(), roster.end());
  if (stored.has_rail()) group.rail = Decode(stored.rail());
  if (!RailFits(group)) {
    return Contradiction(
        absl::StrCat("group \"", group.name, "\" of ", of_job, " does not fit the rails that it is one of"));
  }
  return group;
}

absl::StatusOr<JobState> Decode(const v1::StoredJob& stored) {
  const std::string who = absl::StrCat("job \"", stored.name(), "\"");
  if (!IsJobPhase(stored.phase())) return Contradiction(absl::StrCat(who, " has no phase"));
  JobState job;
  job.id = JobId(stored.job_id());
  job.name = stored.name();
  job.world_size = stored.world_size();
  job.min_ranks = stored.min_ranks();
  job.tenant = stored.tenant();
  job.phase = static_cast<JobPhase>(stored.phase());
  job.failure = stored.failure();
  job.started_at_unix_ms = stored.started_at_unix_ms();
  for (const v1::StoredRank& rank : stored.ranks()) {
    if (rank.rank() >= job.world_size || !IsMemberPhase(rank.phase())) {
      return Contradiction(absl::StrCat("rank ", rank.rank(), " of ", who, " is out of range or has no phase"));
    }
    RankState state;
    state.incarnation = Incarnation(rank.incarnation());
    state.phase = static_cast<MemberPhase>(rank.phase());
    state.reason = rank.reason();
    state.node = rank.node();
    if (rank.boot() > static_cast<uint32_t>(stored.boot_ids_size())) {
      return Contradiction(absl::StrCat("rank ", rank.rank(), " of ", who, " has a boot id that is not listed"));
    }
    if (rank.boot() > 0) state.boot_id = stored.boot_ids(static_cast<int>(rank.boot()) - 1);
    state.pid = rank.pid();
    state.identity = rank.identity();
    state.colocates_without_servers = rank.colocates_without_servers();
    if (rank.has_node_reduce()) {
      const v1::StoredNodeReduce& said = rank.node_reduce();
      if (said.node() > static_cast<uint32_t>(stored.node_identities_size())) {
        return Contradiction(absl::StrCat("rank ", rank.rank(), " of ", who, " is on a node that is not listed"));
      }
      state.node_reduce = {.choice = said.choice(), .possible = said.possible(), .can_rails = said.can_rails()};
      if (said.node() > 0) state.node_reduce->node_identity = stored.node_identities(static_cast<int>(said.node()) - 1);
    }
    job.ranks.emplace(JobRank(rank.rank()), std::move(state));
  }
  for (const v1::StoredGroup& group : stored.groups()) {
    absl::StatusOr<GroupState> state = Decode(group, who);
    if (!state.ok()) return state.status();
    const auto has_joined = [&](JobRank rank) { return job.ranks.contains(rank); };
    const bool all_joined = std::all_of(state->ranks.begin(), state->ranks.end(), has_joined) &&
                            (!state->rail.has_value() || std::ranges::all_of(state->rail->group_ranks, has_joined));
    const size_t answered = state->opening.answered.size();
    if (!all_joined || (answered != 0 && answered != state->ranks.size())) {
      return Contradiction(absl::StrCat("group \"", state->name, "\" of ", who, " has ranks that never joined it"));
    }
    job.groups.push_back(*std::move(state));
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
  stored.set_reserved_event_numbers(state.reserved_event_numbers);
  for (const ServerState& server : state.servers) Encode(server, stored.add_servers());
  for (const JobState& job : state.jobs) Encode(job, stored.add_jobs());
  return stored.SerializeAsString();
}

absl::StatusOr<PersistedState> DecodeState(const std::string& bytes) {
  v1::SchedulerState stored;
  if (!stored.ParseFromString(bytes)) return Contradiction("it is not the state of a scheduler");
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
  state.reserved_event_numbers = stored.reserved_event_numbers();
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
