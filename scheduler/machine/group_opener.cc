#include "scheduler/machine/group_opener.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/bucket_plan.h"
#include "core/roster.h"
#include "scheduler/machine/group_plan.h"

namespace shoal::scheduler {
namespace {

// The same for all rails of a group.
GroupId WholeGroup(const GroupState& group) { return group.rail.has_value() ? group.rail->first_rail : group.id; }

// Ids of groups are not used twice in a cluster, and clusters draw theirs: no two groups that are open anywhere on a
// node have the same.
// With rails the ranks of each node meet apart from others: `rank` of the group, or of the rail, says on which node.
std::string MeetingName(const std::string& cluster_id, const Job& job, const GroupState& group, Rank rank) {
  if (group.node_reduce == NodeReduceMode::kFlat) return "";
  const GroupId id = WholeGroup(group);
  const std::string node = group.rail.has_value() ? absl::StrCat("-", rank.value()) : "";
  return absl::StrCat("shoal-", cluster_id, "-", job.id.value(), "-", id.value(), node);
}

std::string RanksText(const GroupRound& round, const NodeReduceDecision& decision) {
  const std::string ranks = absl::StrCat(round.ranks.size(), " ranks");
  if (decision.mode != NodeReduceMode::kRails) return ranks;
  return absl::StrCat(ranks, " as ", decision.rails.ranks_per_node, " rails x ", decision.rails.node_count(), " nodes");
}

}  // namespace

GroupOpener::GroupOpener(Settings settings, uint64_t next_group_id, const ServerRegistry* servers, JobRegistry* jobs,
                         GroupEnds* ends, Decisions* decisions)
    : settings_(std::move(settings)),
      servers_(*servers),
      jobs_(*jobs),
      ends_(*ends),
      decisions_(*decisions),
      next_group_id_(next_group_id) {}

void GroupOpener::Open(const GroupRound& round, Now now) {
  const Job* const job = jobs_.Find(round.job);
  const NodeReduceDecision decision = round.NodeReduce(*job);
  const bool has_rails = decision.mode == NodeReduceMode::kRails;
  if (!job->groups.HasRoomFor(round.name, has_rails ? decision.rails.ranks_per_node : 1)) {
    const absl::Status full = absl::ResourceExhaustedError(
        absl::StrCat("job \"", job->name, "\" has ", kMaxGroupsPerJob, " groups open, which is the limit",
                     has_rails ? " (each rail of a group counts)" : "", "; close some before the next is made"));
    return Refuse(round, full);
  }
  decisions_.NoteChange();
  ends_.NoteWorks(job->id, round.ranks);
  if (decision.mode == NodeReduceMode::kNodeAlone) {
    return OpenOnNode(round, *job, now);
  }
  OpenOnServers(round, *job, decision, now);
}

void GroupOpener::Refuse(const GroupRound& round, const absl::Status& status) {
  ends_.NoteFailed(round.job, round.ranks, absl::StrCat("group \"", round.name, "\": ", status.message()));
  for (const auto& [rank, waiter] : round.waiters) decisions_.AnswerNow(waiter.handle, status);
}

GroupState GroupOpener::NewGroup(const GroupRound& round, std::vector<JobRank> ranks) {
  GroupState group{.id = GroupId(next_group_id_++),
                   .name = round.name,
                   .epoch = decisions_.map()->epoch(),
                   .ranks = std::move(ranks),
                   .min_ranks = round.MinRanks(),
                   .wire = round.wire};
  group.opening.epoch = decisions_.map()->epoch();
  for (const JobRank rank : group.ranks) group.opening.answered.push_back(round.waiters.at(rank).request);
  return group;
}

std::vector<GroupState> GroupOpener::NewRails(const GroupRound& round, const RailLayout& layout) {
  std::vector<GroupState> rails;
  const GroupId first(next_group_id_);
  for (uint32_t index = 0; index < layout.ranks_per_node; ++index) {
    std::vector<JobRank> ranks;
    for (const Rank rank : layout.RanksOfRail(index)) ranks.push_back(round.ranks[rank.value()]);
    GroupState& rail = rails.emplace_back(NewGroup(round, std::move(ranks)));
    rail.node_reduce = NodeReduceMode::kRails;
    rail.min_ranks = MinNodes(round.MinRanks(), layout.ranks_per_node);
    rail.rail = {.first_rail = first, .index = index, .group_ranks = round.ranks, .layout = layout};
  }
  return rails;
}

void GroupOpener::OpenOnNode(const GroupRound& round, const Job& job, Now now) {
  GroupState group = NewGroup(round, round.ranks);
  group.node_reduce = NodeReduceMode::kNodeAlone;
  // Nothing is sent in chunks; the plan of an op still has one.
  group.max_chunk_bytes = round.max_chunk_bytes == 0 ? kMaxChunkBytes : round.max_chunk_bytes;
  TellAllOpened(round, job, group, std::make_shared<const ShardMap>(*ShardMap::Make(group.epoch, {})), now);
  decisions_.Record(
      EventKind::kGroupOpened, job.DescribeGroup(round.name),
      absl::StrCat(round.ranks.size(), " ranks reduce among themselves on node ",
                   job.workers.at(round.ranks.front()).state.node, ", wire ", std::string(WireFormatName(round.wire))),
      now, IdsOf(job, group));
  jobs_.At(job.id).groups.Add({std::move(group)});
}

void GroupOpener::OpenOnServers(const GroupRound& round, const Job& job, const NodeReduceDecision& decision, Now now) {
  const std::vector<NodePlace> places_of_job = job.LivePlaces();
  const absl::StatusOr<GroupPlan> plan =
      PlanGroup(decisions_.map()->epoch(), servers_.ServersOf(round.job), job.PlacesOf(round.ranks),
                {.job = places_of_job,
                 .to_come = job.is_fixed() ? job.world_size - static_cast<uint32_t>(job.workers.size()) : 0,
                 .network_cards = round.NetworkCards()});
  if (!plan.ok()) return Refuse(round, plan.status());
  LinkFacts link = round.Link();
  if (link == LinkFacts() && plan->within_node) link = WithinOneNode();
  // Within one node nothing meets at a port, but at the threads that add up.
  const PortLoad load = link.within_node ? EvenPortLoad(static_cast<uint32_t>(round.ranks.size()),
                                                        static_cast<uint32_t>(plan->map->shards().size()))
                                         : plan->load;
  const FlowPlan flow = PlanFlow(load, link, round.max_chunk_bytes, settings_.port_buffer_bytes);
  const bool has_rails = decision.mode == NodeReduceMode::kRails;
  std::vector<GroupState> groups;
  if (has_rails) groups = NewRails(round, decision.rails);
  if (!has_rails) groups.push_back(NewGroup(round, round.ranks));
  for (GroupState& group : groups) {
    group.shards = plan->map->shards();
    group.max_chunk_bytes = flow.chunk_bytes;
    group.opening.credit_chunks = flow.credit_chunks;
    group.opening.look_ahead_chunks = flow.look_ahead_chunks;
    group.opening.link = link;
    group.opening.busiest_port = load.busiest_port;
    group.opening.busiest_link = load.busiest_link;
    TellAllOpened(round, job, group, plan->map, now);
  }
  const std::string ahead =
      flow.look_ahead_chunks == 0 ? "" : absl::StrCat(", at most ", flow.look_ahead_chunks, " over all servers");
  const std::string ports = settings_.port_buffer_bytes == 0 || link.within_node
                                ? ""
                                : absl::StrCat(", ports of ", settings_.port_buffer_bytes, " bytes");
  const bool is_part = !link.within_node && round.ranks.size() < job.size();
  const std::string beside =
      is_part ? absl::StrCat(", as if all ", job.size(), " ranks of the job reduced at once") : "";
  const std::string why_flat = has_rails ? "" : absl::StrCat("; not within a node: ", decision.reason);
  decisions_.Record(
      EventKind::kGroupOpened, job.DescribeGroup(round.name),
      absl::StrCat(RanksText(round, decision), ", ", flow.credit_chunks, " chunks of ", flow.chunk_bytes,
                   " bytes in flight", ahead, " (link ", link.bytes_per_s / 1'000'000, " MB/s, round trip ",
                   link.round_trip_ns / 1000, " us, message ", link.message_ns, " ns", ports, beside, "), ",
                   plan->servers, ", wire ", std::string(WireFormatName(round.wire)), ", map ",
                   decisions_.map()->epoch().value(), why_flat),
      now, IdsOf(job, groups.front()));
  jobs_.At(job.id).groups.Add(std::move(groups));
}

void GroupOpener::TellAllOpened(const GroupRound& round, const Job& job, const GroupState& group,
                                const std::shared_ptr<const ShardMap>& map, Now now) {
  for (uint32_t i = 0; i < group.ranks.size(); ++i) {
    TellOpened(round.waiters.at(group.ranks[i]).handle, job, group, Rank(i), map, now);
  }
}

void GroupOpener::TellOpened(RequestHandle handle, const Job& job, const GroupState& group, Rank rank,
                             const std::shared_ptr<const ShardMap>& map, Now now) {
  const GroupOpening& opening = group.opening;
  GroupToken token;
  token.job = job.id;
  token.group = group.id;
  token.epoch = opening.epoch;
  token.incarnation = opening.answered[rank.value()].incarnation;
  token.rank = rank;
  token.group_size = static_cast<uint32_t>(group.ranks.size());
  token.max_chunk_bytes = group.max_chunk_bytes;
  token.credit_chunks = opening.credit_chunks;
  if (group.rail.has_value()) token.ranks_per_contribution = group.rail->layout.ranks_per_node;
  token.expires_at_unix_s = now.unix_ms / 1000 + kTokenLifetimeSeconds;
  SignToken(settings_.token_key, &token);
  GroupJoined answer{.group = group.id,
                     .token = EncodeToken(token),
                     .map = map,
                     .nodes = job.NodesOf(group.RanksOfWhole()),
                     .look_ahead_chunks = opening.look_ahead_chunks,
                     .link = opening.link,
                     .busiest_port = opening.busiest_port,
                     .busiest_link = opening.busiest_link,
                     .node_reduce = group.node_reduce,
                     .meeting_name = MeetingName(settings_.cluster_id, job, group, rank),
                     .whole_group = WholeGroup(group),
                     .sealed_roster = group.sealed_roster};
  if (group.rail.has_value()) {
    answer.local_ranks = group.rail->layout.RanksOfNode(rank.value());
    answer.rail_ranks = group.rail->layout.RanksOfRail(group.rail->index);
  }
  decisions_.Answer(handle, std::move(answer));
}

}  // namespace shoal::scheduler
