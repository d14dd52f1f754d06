// The part of SchedulerMachine that publishes the shard map and moves open groups from server to server.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/group_plan.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

void SchedulerMachine::RebuildMap(Now now) {
  PublishServers(now);
  MoveGroups(now);
  AskForColocation(now);
}

void SchedulerMachine::PublishServers(Now now) {
  const Epoch next(map_->epoch().value() + 1);
  absl::StatusOr<ShardMap> map = ShardMap::Make(next, servers_.LiveShards());
  if (!map.ok()) return Record("map-refused", "map", std::string(map.status().message()), now);
  if (map->shards() == map_->shards()) return;
  map_ = std::make_shared<const ShardMap>(*std::move(map));
  saves_.NoteChange();
  AfterSave(PublishMap{map_});
  Record("map-published", absl::StrCat("map ", next.value()),
         absl::StrCat(map_->shards().size(), " shards on ", servers_.dedicated_count(), " servers"), now);
}

absl::StatusOr<GroupPlan> SchedulerMachine::PlanFor(const Job& job, const GroupState& group,
                                                    const std::vector<ExcludedServer>& excluded) const {
  std::vector<const ServerState*> servers = servers_.ServersOf(job.id);
  std::erase_if(servers, [&](const ServerState* server) {
    return std::find(excluded.begin(), excluded.end(), ExcludedServer{server->id, server->incarnation}) !=
           excluded.end();
  });
  const Epoch next(std::max(group.epoch.value() + 1, map_->epoch().value()));
  return PlanGroup(next, servers, job.NodesOf(group.ranks));
}

void SchedulerMachine::MoveGroups(Now now) {
  for (const auto& [id, job] : jobs_.jobs()) {
    if (!job.open()) continue;
    for (auto& [group_id, open] : jobs_.GroupsOf(id).all()) {
      GroupState& group = open.state;
      absl::StatusOr<GroupPlan> plan = PlanFor(job, group, group.excluded);
      if (!plan.ok() && !group.excluded.empty()) {
        group.excluded.clear();
        plan = PlanFor(job, group, {});
      }
      // With no server left it keeps what it has: the last one may be draining, and serves it until it ends.
      if (plan.ok() && plan->map->shards() != group.shards) MoveGroup(job, &group, *plan, "the servers changed", now);
    }
  }
}

void SchedulerMachine::MoveGroup(const Job& job, GroupState* group, const GroupPlan& plan, const std::string& why,
                                 Now now) {
  group->epoch = plan.map->epoch();
  group->shards = plan.map->shards();
  saves_.NoteChange();
  AfterSave(PublishGroupMap{job.id, {group->id, plan.map}});
  Record("group-moved", absl::StrCat("group \"", group->name, "\" of job \"", job.name, "\""),
         absl::StrCat("to epoch ", group->epoch.value(), " with ", group->shards.size(), " shards: ", why), now);
}

void SchedulerMachine::Answer(RequestHandle handle, const ReportServer& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return ReplyNow(handle, job.status());
  JobGroup* const open = jobs_.GroupsOf(request.job).Find(request.group);
  GroupState* const group = open == nullptr ? nullptr : &open->state;
  if (group == nullptr || std::count(group->ranks.begin(), group->ranks.end(), request.rank) == 0) {
    return ReplyNow(handle, absl::NotFoundError(absl::StrCat((*job)->Describe(request.rank), " is in no group ",
                                                             request.group.value())));
  }
  const auto reported = std::find_if(group->shards.begin(), group->shards.end(), [&](const Shard& shard) {
    return shard.server == request.server && shard.incarnation == request.server_incarnation;
  });
  // Several ranks report the same loss; the first report is enough.
  if (group->epoch != request.epoch || reported == group->shards.end()) {
    return AfterSave(Reply{handle, Response(Done())});
  }
  std::vector<ExcludedServer> excluded = group->excluded;
  const ExcludedServer server{request.server, request.server_incarnation};
  if (!request.reachable) excluded.push_back(server);
  absl::StatusOr<GroupPlan> plan = PlanFor(**job, *group, excluded);
  if (!plan.ok() && !request.reachable) {
    excluded = {server};
    plan = PlanFor(**job, *group, excluded);
  }
  // The last one is kept: either the rank reaches it again, or its lease runs out.
  if (plan.ok()) {
    const std::string what =
        absl::StrCat("rank ", request.rank.value(), " lost server ", reported->server_name,
                     request.reachable ? " and reached it again: " : ": ", CleanText(request.reason));
    group->excluded = std::move(excluded);
    MoveGroup(**job, group, *plan, what, now);
  }
  AfterSave(Reply{handle, Response(Done())});
}

}  // namespace shoal::scheduler
