// The part of SchedulerMachine that opens and closes groups, and repeats the answer to a rank that did not get it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/bucket_plan.h"
#include "core/frame.h"
#include "core/rank_text.h"
#include "core/token.h"
#include "scheduler/machine/group_plan.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

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

std::string GivenUpText(const GivenUpRequest& request) {
  return absl::StrCat("it gave its request for the group up", request.reason.empty() ? "" : ": ", request.reason);
}

EventIds IdsOf(const Job& job, const GroupState& group) {
  return {.job = job.id, .group = group.id, .epoch = group.epoch};
}

std::string RanksText(const GroupRound& round, const NodeReduceDecision& decision) {
  const std::string ranks = absl::StrCat(round.ranks.size(), " ranks");
  if (decision.mode != NodeReduceMode::kRails) return ranks;
  return absl::StrCat(ranks, " as ", decision.rails.ranks_per_node, " rails x ", decision.rails.node_count(), " nodes");
}

}  // namespace

void SchedulerMachine::Answer(RequestHandle handle, const JoinGroup& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return Refuse(handle, job.status());
  if (absl::Status status = CheckRequest(request, (*job)->world_size); !status.ok()) return ReplyNow(handle, status);
  if ((*job)->phase == JobPhase::kFailed) return Refuse(handle, absl::AbortedError((*job)->failure));
  if (AnswerAgain(handle, request, **job, now)) return;
  ReplyNow(rounds_.Add(handle, request, now));
  CompleteGroups(now);
}

bool SchedulerMachine::AnswerAgain(RequestHandle handle, const JoinGroup& request, const Job& job, Now now) {
  const JobGroup* const found =
      request.request_number == 0 ? nullptr : job.groups.FindByName(request.group_name, request.rank);
  if (found == nullptr) return false;
  const GroupState& group = found->state();
  if (group.RequestOf(request.rank) != GroupRequestId{request.incarnation, request.request_number}) return false;
  if (!group.failure.empty()) {
    ReplyNow(handle,
             group.ends_with_aborted ? absl::AbortedError(group.failure) : absl::ResourceExhaustedError(group.failure));
    return true;
  }
  const absl::StatusOr<ShardMap> map = ShardMap::Make(group.epoch, group.shards);
  if (!map.ok()) {
    ReplyNow(handle, map.status());
    return true;
  }
  const auto place = std::find(group.ranks.begin(), group.ranks.end(), request.rank) - group.ranks.begin();
  TellOpened(handle, job, group, Rank(static_cast<uint32_t>(place)), std::make_shared<const ShardMap>(*map), now);
  return true;
}

void SchedulerMachine::CompleteGroups(Now now) {
  while (const std::optional<GroupRound> round = rounds_.TakeComplete(servers_, jobs_)) OpenGroup(*round, now);
}

void SchedulerMachine::OpenGroup(const GroupRound& round, Now now) {
  const Job* const job = jobs_.Find(round.job);
  const NodeReduceDecision decision = round.NodeReduce(*job);
  const bool has_rails = decision.mode == NodeReduceMode::kRails;
  if (!job->groups.HasRoomFor(round.name, has_rails ? decision.rails.ranks_per_node : 1)) {
    const absl::Status full = absl::ResourceExhaustedError(
        absl::StrCat("job \"", job->name, "\" has ", kMaxGroupsPerJob, " groups open, which is the limit",
                     has_rails ? " (each rail of a group counts)" : "", "; close some before the next is made"));
    return RefuseRound(round, full);
  }
  saves_.NoteChange();
  NoteGroupWorks(job->id, round.ranks);
  if (decision.mode == NodeReduceMode::kNodeAlone) {
    return OpenOnNode(round, *job, NewGroup(round, round.ranks), now);
  }
  OpenOnServers(round, *job, decision, now);
}

void SchedulerMachine::RefuseRound(const GroupRound& round, const absl::Status& status) {
  NoteGroupFailed(round.job, round.ranks, absl::StrCat("group \"", round.name, "\": ", status.message()));
  for (const auto& [rank, waiter] : round.waiters) ReplyNow(waiter.handle, status);
}

void SchedulerMachine::NoteGroupFailed(JobId job, const std::vector<JobRank>& ranks, const std::string& why) {
  if (jobs_.NoteGroupFailed(job, ranks, why)) saves_.NoteChange();
}

void SchedulerMachine::NoteGroupWorks(JobId job, const std::vector<JobRank>& ranks) {
  if (jobs_.NoteGroupWorks(job, ranks)) saves_.NoteChange();
}

GroupState SchedulerMachine::NewGroup(const GroupRound& round, std::vector<JobRank> ranks) {
  GroupState group{.id = GroupId(next_group_id_++),
                   .name = round.name,
                   .epoch = map_->epoch(),
                   .ranks = std::move(ranks),
                   .wire = round.wire};
  group.opening.epoch = map_->epoch();
  for (const JobRank rank : group.ranks) group.opening.answered.push_back(round.waiters.at(rank).request);
  return group;
}

std::vector<GroupState> SchedulerMachine::NewRails(const GroupRound& round, const RailLayout& layout) {
  std::vector<GroupState> rails;
  const GroupId first(next_group_id_);
  for (uint32_t index = 0; index < layout.ranks_per_node; ++index) {
    std::vector<JobRank> ranks;
    for (const Rank rank : layout.RanksOfRail(index)) ranks.push_back(round.ranks[rank.value()]);
    GroupState& rail = rails.emplace_back(NewGroup(round, std::move(ranks)));
    rail.node_reduce = NodeReduceMode::kRails;
    rail.rail = {.first_rail = first, .index = index, .group_ranks = round.ranks, .layout = layout};
  }
  return rails;
}

void SchedulerMachine::OpenOnNode(const GroupRound& round, const Job& job, GroupState group, Now now) {
  group.node_reduce = NodeReduceMode::kNodeAlone;
  // Nothing is sent in chunks; the plan of an op still has one.
  group.max_chunk_bytes = round.max_chunk_bytes == 0 ? kMaxChunkBytes : round.max_chunk_bytes;
  TellAllOpened(round, job, group, std::make_shared<const ShardMap>(*ShardMap::Make(group.epoch, {})), now);
  Record(
      EventKind::kGroupOpened, job.DescribeGroup(round.name),
      absl::StrCat(round.ranks.size(), " ranks reduce among themselves on node ",
                   job.workers.at(round.ranks.front()).state.node, ", wire ", std::string(WireFormatName(round.wire))),
      now, IdsOf(job, group));
  jobs_.GroupsOf(job.id).Add({std::move(group)});
}

void SchedulerMachine::OpenOnServers(const GroupRound& round, const Job& job, const NodeReduceDecision& decision,
                                     Now now) {
  const std::vector<NodePlace> places_of_job = job.LivePlaces();
  const absl::StatusOr<GroupPlan> plan =
      PlanGroup(map_->epoch(), servers_.ServersOf(round.job), job.PlacesOf(round.ranks),
                {.job = places_of_job,
                 .to_come = job.world_size - static_cast<uint32_t>(job.workers.size()),
                 .network_cards = round.NetworkCards()});
  if (!plan.ok()) return RefuseRound(round, plan.status());
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
  const bool is_part = !link.within_node && round.ranks.size() < job.world_size;
  const std::string beside =
      is_part ? absl::StrCat(", as if all ", job.world_size, " ranks of the job reduced at once") : "";
  const std::string why_flat = has_rails ? "" : absl::StrCat("; not within a node: ", decision.reason);
  Record(EventKind::kGroupOpened, job.DescribeGroup(round.name),
         absl::StrCat(RanksText(round, decision), ", ", flow.credit_chunks, " chunks of ", flow.chunk_bytes,
                      " bytes in flight", ahead, " (link ", link.bytes_per_s / 1'000'000, " MB/s, round trip ",
                      link.round_trip_ns / 1000, " us, message ", link.message_ns, " ns", ports, beside, "), ",
                      plan->servers, ", wire ", std::string(WireFormatName(round.wire)), ", map ",
                      map_->epoch().value(), why_flat),
         now, IdsOf(job, groups.front()));
  jobs_.GroupsOf(job.id).Add(std::move(groups));
}

void SchedulerMachine::Answer(RequestHandle handle, const CloseGroups& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return Refuse(handle, job.status());
  if (absl::Status status = CheckRequest(request); !status.ok()) return ReplyNow(handle, status);
  GiveGroupsUp(**job, request.rank, request.failures, now);
  NoteAllCommitted(**job, request.rank, request.committed_groups);
  for (const GroupId group : request.groups) CloseGroup(**job, group, request.rank, now);
  GiveRequestsUp(**job, request.rank, request.incarnation, request.given_up_requests, now);
  AfterSave(Reply{handle, Response(Done())});
}

void SchedulerMachine::GiveRequestsUp(const Job& job, JobRank rank, Incarnation incarnation,
                                      const std::vector<GivenUpRequest>& requests, Now now) {
  for (const GivenUpRequest& request : requests) {
    const GroupRequestId id{incarnation, request.number};
    const std::vector<GroupRounds::Failure> waited = rounds_.GiveUp(job.id, rank, id);
    ReplyNow(waited);
    for (const GroupRounds::Failure& each : waited) {
      NoteGroupFailed(job.id, each.ranks, absl::StrCat(job.Describe(rank), ": ", CleanText(GivenUpText(request))));
    }
    const JobGroup* const opened = job.groups.FindOpenedBy(rank, id);
    if (opened == nullptr) continue;
    const GroupId group = opened->state().id;
    // The others may have it open, and would wait for this rank.
    if (opened->state().ranks.size() > 1) {
      GiveGroupsUp(job, rank, {{group, GivenUpText(request)}}, now);
    }
    CloseGroup(job, group, rank, now);
  }
}

void SchedulerMachine::GiveGroupsUp(const Job& job, JobRank rank, const std::vector<GroupFailure>& failures, Now now) {
  for (const GroupFailure& failure : failures) {
    JobGroup* const group = jobs_.GroupsOf(job.id).Find(failure.group);
    if (group == nullptr) continue;  // all have closed it, or another has taken its name
    const GroupState& state = group->state();
    // The first reason counts. A rank that is done with the group has no say in it.
    if (!group->HasRank(rank) || state.gone.contains(rank) || !state.failure.empty()) continue;
    // The number that the rank itself knows: a rail's members are among those of the whole group.
    const std::vector<JobRank>& ranks = state.RanksOfWhole();
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    const auto rank_of_group = Rank(static_cast<uint32_t>(place - ranks.begin()));
    const std::string who = RankOnNode(rank_of_group, ranks, job.NodesOf(ranks));
    FailGroup(job, state, absl::StrCat(who, ": ", CleanText(failure.reason)), failure.lacks_memory, now);
  }
}

void SchedulerMachine::FailGroup(const Job& job, const GroupState& group, const std::string& failure, bool lacks_memory,
                                 Now now) {
  saves_.NoteChange();
  NoteGroupFailed(job.id, group.RanksOfWhole(), absl::StrCat("group \"", group.name, "\": ", failure));
  Record(EventKind::kGroupFailed, job.Describe(group), failure, now, IdsOf(job, group));
  for (JobGroup* const rail : jobs_.GroupsOf(job.id).RailsOf(group.name)) {
    if (!rail->Fail(failure, /*ends_with_aborted=*/!lacks_memory)) continue;
    PublishMapOf(job, rail->state());
  }
}

void SchedulerMachine::PublishMapOf(const Job& job, const GroupState& group) {
  if (std::optional<GroupMap> map = MapOf(group); map.has_value()) AfterSave(PublishGroupMap{job.id, *std::move(map)});
}

// A rank that has closed the group is not there to tell the servers of its next map that it has all results. The ranks
// that would wait for that learn from the scheduler that nothing is missing: with the next map, or at once if the group
// has moved already, or can't.
void SchedulerMachine::NoteAllCommitted(const Job& job, JobRank rank, const std::vector<GroupId>& groups) {
  for (const GroupId id : groups) {
    JobGroup* const group = jobs_.GroupsOf(job.id).Find(id);
    if (group == nullptr || !group->HasRank(rank) || group->state().gone.contains(rank)) continue;
    if (!group->state().failure.empty() || !group->NoteAllCommitted()) continue;
    saves_.NoteChange();
    if (group->state().epoch == group->state().opening.epoch && !group->WantsMove()) continue;
    PublishMapOf(job, group->state());
  }
}

void SchedulerMachine::CloseGroup(const Job& job, GroupId id, JobRank rank, Now now) {
  const JobGroup* const group = job.groups.Find(id);
  if (group == nullptr) return;  // said again, or another group has taken its name
  const std::string name = group->state().name;
  const std::vector<JobRank> ranks = group->state().RanksOfWhole();
  const bool has_failed = !group->state().failure.empty();
  if (!jobs_.GroupsOf(job.id).Close(id, rank)) return;
  saves_.NoteChange();
  if (job.groups.HasName(name)) return;
  if (!has_failed) NoteGroupWorks(job.id, ranks);
  Record(EventKind::kGroupClosed, job.DescribeGroup(name), "all its ranks closed it", now, {.job = job.id});
}

void SchedulerMachine::TellAllOpened(const GroupRound& round, const Job& job, const GroupState& group,
                                     const std::shared_ptr<const ShardMap>& map, Now now) {
  for (uint32_t i = 0; i < group.ranks.size(); ++i) {
    TellOpened(round.waiters.at(group.ranks[i]).handle, job, group, Rank(i), map, now);
  }
}

void SchedulerMachine::TellOpened(RequestHandle handle, const Job& job, const GroupState& group, Rank rank,
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
  SignToken(token_key_, &token);
  GroupJoined answer{.group = group.id,
                     .token = EncodeToken(token),
                     .map = map,
                     .nodes = job.NodesOf(group.RanksOfWhole()),
                     .look_ahead_chunks = opening.look_ahead_chunks,
                     .link = opening.link,
                     .busiest_port = opening.busiest_port,
                     .busiest_link = opening.busiest_link,
                     .node_reduce = group.node_reduce,
                     .meeting_name = MeetingName(cluster_id_, job, group, rank),
                     .whole_group = WholeGroup(group)};
  if (group.rail.has_value()) {
    answer.local_ranks = group.rail->layout.RanksOfNode(rank.value());
    answer.rail_ranks = group.rail->layout.RanksOfRail(group.rail->index);
  }
  AfterSave(Reply{handle, Response(std::move(answer))});
}

}  // namespace shoal::scheduler
