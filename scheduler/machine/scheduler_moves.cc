// The part of SchedulerMachine that publishes the shard map and moves open groups from server to server.
//
// Ranks and the scheduler may see a server differently for long: it renews its lease here and refuses a group, or is
// out of a rank's reach. What was reported is remembered (JobGroup), so that a group is not moved to and fro, and moves
// are paced (MovePace).
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/machine/group_plan.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {
namespace {

constexpr size_t kRefusalsTold = 4;
constexpr char kServersChanged[] = "the servers changed";

bool IsLifeOf(const ExcludedServer& excluded, const ServerState& server) {
  return excluded.server == server.id && excluded.incarnation == server.incarnation;
}

const ExcludedServer* FindExcluded(const std::vector<ExcludedServer>& excluded, const ServerState& server) {
  const auto found = std::find_if(excluded.begin(), excluded.end(),
                                  [&](const ExcludedServer& each) { return IsLifeOf(each, server); });
  return found == excluded.end() ? nullptr : &*found;
}

// Refusals stay, and `kept`, which may be no server at all.
std::vector<ExcludedServer> ForgetUnreachable(std::vector<ExcludedServer> excluded, ServerId kept) {
  std::erase_if(excluded, [&](const ExcludedServer& each) { return each.refusal.empty() && each.server != kept; });
  return excluded;
}

}  // namespace

void SchedulerMachine::RebuildMap(Now now) {
  PublishServers(now);
  MoveGroups(now);
  AskForColocation(now);
}

void SchedulerMachine::PublishServers(Now now) {
  const Epoch next(map_->epoch().value() + 1);
  absl::StatusOr<ShardMap> map = ShardMap::Make(next, servers_.LiveShards());
  if (!map.ok()) return Record(EventKind::kMapRefused, "map", std::string(map.status().message()), now);
  if (map->shards() == map_->shards()) return;
  map_ = std::make_shared<const ShardMap>(*std::move(map));
  saves_.NoteChange();
  AfterSave(PublishMap{map_});
  Record(EventKind::kMapPublished, absl::StrCat("map ", next.value()),
         absl::StrCat(map_->shards().size(), " shards on ", servers_.dedicated_count(), " servers"), now,
         {.epoch = next});
}

absl::StatusOr<GroupPlan> SchedulerMachine::PlanFor(const Job& job, const GroupState& group,
                                                    const std::vector<ExcludedServer>& excluded) const {
  std::vector<const ServerState*> servers = servers_.ServersOf(job.id);
  std::erase_if(servers, [&](const ServerState* server) { return FindExcluded(excluded, *server) != nullptr; });
  const Epoch next(std::max(group.epoch.value() + 1, map_->epoch().value()));
  return PlanGroup(next, servers, job.PlacesOf(group.ranks));  // a move keeps chunks and credit
}

void SchedulerMachine::MoveGroups(Now now) {
  for (const auto& [id, job] : jobs_.jobs()) {
    for (auto& [group_id, group] : jobs_.GroupsOf(id).all()) MoveIfNeeded(job, &group, now);
  }
}

void SchedulerMachine::MoveGroupsThatWaited(Now now) {
  if (now.monotonic_ns < next_move_ns_) return;
  next_move_ns_ = kNoDeadline;
  for (const auto& [id, job] : jobs_.jobs()) {
    for (auto& [group_id, group] : jobs_.GroupsOf(id).all()) {
      if (group.look_again_ns() <= now.monotonic_ns) {
        MoveIfNeeded(job, &group, now);
      } else {
        next_move_ns_ = std::min(next_move_ns_, group.look_again_ns());
      }
    }
  }
}

void SchedulerMachine::LookAgain(JobGroup* group, uint64_t at_ns) {
  group->LookAgainAt(at_ns);
  next_move_ns_ = std::min(next_move_ns_, at_ns);
}

std::optional<SchedulerMachine::NextMap> SchedulerMachine::FindNextMap(const Job& job, const JobGroup& group) const {
  const GroupState& state = group.state();
  absl::StatusOr<GroupPlan> plan = PlanFor(job, state, state.excluded);
  if (plan.ok()) return NextMap{*std::move(plan), state.excluded};
  // A server that was out of reach is better than none: the path may work again. The one reported last is tried last.
  for (const ServerId kept : {group.reported(), ServerId()}) {
    std::vector<ExcludedServer> excluded = ForgetUnreachable(state.excluded, kept);
    plan = PlanFor(job, state, excluded);
    // Where it is, its ranks try for themselves to reach it, and tell when they do.
    if (plan.ok() && plan->map->shards() != state.shards) return NextMap{*std::move(plan), std::move(excluded)};
  }
  return std::nullopt;
}

void SchedulerMachine::MoveIfNeeded(const Job& job, JobGroup* group, Now now) {
  group->LookAgainAt(kNoDeadline);
  // Of a job that has failed, groups without the lost rank go on.
  if (job.live_count == 0 || !group->state().NeedsServers()) return;
  std::optional<NextMap> next = FindNextMap(job, *group);
  // With no server left it keeps what it has: the last one may be draining, and serves it until it ends.
  if (!next.has_value()) return GiveUpIfRefusedByAll(job, group, now);
  if (!group->WantsMove() && next->plan.map->shards() == group->state().shards) return;
  if (now.monotonic_ns < group->next_move_ns()) return LookAgain(group, group->next_move_ns());
  ++(group->WantsMove() ? moves_.asked_by_rank : moves_.servers_changed);
  MoveGroup(job, group, *std::move(next), now);
}

void SchedulerMachine::MoveGroup(const Job& job, JobGroup* group, NextMap next, Now now) {
  const std::string why = group->WantsMove() ? group->wish() : kServersChanged;
  group->MoveTo(*next.plan.map, std::move(next.excluded), now);
  const GroupState& state = group->state();
  saves_.NoteChange();
  AfterSave(PublishGroupMap{job.id, {.group = state.id, .map = next.plan.map, .all_committed = state.all_committed}});
  Record(EventKind::kGroupMoved, job.Describe(state),
         absl::StrCat("to epoch ", state.epoch.value(), " with ", state.shards.size(), " shards: ", why), now,
         {.job = job.id, .group = state.id, .epoch = state.epoch});
}

void SchedulerMachine::GiveUpIfRefusedByAll(const Job& job, JobGroup* group, Now now) {
  const GroupState& state = group->state();
  if (!group->WantsMove()) return;
  const NodeNumbering nodes(job.PlacesOf(state.ranks));
  std::vector<std::string> refusals;
  for (const ServerState* server : servers_.ServersOf(job.id)) {
    if (!MayServe(*server, nodes)) continue;
    const ExcludedServer* const excluded = FindExcluded(state.excluded, *server);
    if (excluded == nullptr || excluded->refusal.empty()) return;
    if (refusals.size() < kRefusalsTold) refusals.push_back(excluded->refusal);
  }
  if (refusals.empty()) return;
  // A server that was lost may be back by then, and others may have got memory.
  const uint64_t give_up_ns = group->wanted_since_ns() + lease_ttl_ns();
  if (now.monotonic_ns < give_up_ns) return LookAgain(group, give_up_ns);
  const std::string failure = absl::StrCat("no reduction server that is left has the memory for group \"", state.name,
                                           "\": ", absl::StrJoin(refusals, "; "));
  FailGroup(job, state, failure, /*lacks_memory=*/true, now);
}

void SchedulerMachine::Answer(RequestHandle handle, const ReportServer& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return Refuse(handle, job.status());
  JobGroup* const group = jobs_.GroupsOf(request.job).Find(request.group);
  if (group == nullptr || !group->HasRank(request.rank)) {
    return Refuse(handle, absl::NotFoundError(
                              absl::StrCat((*job)->Describe(request.rank), " is in no group ", request.group.value())));
  }
  const GroupState& state = group->state();
  const auto reported = std::find_if(state.shards.begin(), state.shards.end(), [&](const Shard& shard) {
    return shard.server == request.server && shard.incarnation == request.server_incarnation;
  });
  // Several ranks report the same loss; the first report is enough.
  if (state.epoch == request.epoch && reported != state.shards.end()) {
    NoteReport(group, request, reported->server_name, now);
    MoveIfNeeded(**job, group, now);
  }
  // The rank may have missed the news: it would go on reporting.
  ServerReported reply;
  if (state.epoch > request.epoch || !state.failure.empty() || state.all_committed) reply.newer = MapOf(state);
  AfterSave(Reply{handle, Response(std::move(reply))});
}

void SchedulerMachine::NoteReport(JobGroup* group, const ReportServer& request, const std::string& server_name,
                                  Now now) {
  const std::string reason = CleanText(request.reason);
  std::string wish = absl::StrCat("rank ", request.rank.value(), " lost server ", server_name,
                                  request.reachable ? " and reached it again: " : ": ", reason);
  if (request.reachable) return group->NoteReachedAgain(request.server, std::move(wish), now);
  const std::string refusal = reason.empty() ? absl::StrCat("server ", server_name, " refused it") : reason;
  group->NoteLost(
      {.server = request.server, .incarnation = request.server_incarnation, .refusal = request.refused ? refusal : ""},
      std::move(wish), now);
}

void SchedulerMachine::MemoryWasFreed(ServerId server, Now now) {
  for (const auto& [id, job] : jobs_.jobs()) {
    for (auto& [group_id, group] : jobs_.GroupsOf(id).all()) {
      if (group.ForgetRefusal(server) && group.WantsMove()) MoveIfNeeded(job, &group, now);
    }
  }
}

}  // namespace shoal::scheduler
