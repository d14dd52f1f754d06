// The part of SchedulerMachine that answers requests.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/colocation.h"
#include "scheduler/machine/group_plan.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {
namespace {

const char* RegistrationKind(ServerRegistry::Change change) {
  return change == ServerRegistry::Change::kNew        ? "server-registered"
         : change == ServerRegistry::Change::kReturned ? "server-returned"
                                                       : "server-replaced";
}

}  // namespace

// ---- servers ----

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const RegisterServer& request) {
  if (absl::Status status = CheckServersJob(request); !status.ok()) return ReplyNow(handle, status);
  const absl::StatusOr<ServerRegistry::Registration> registered = servers_.Register(now, request);
  if (!registered.ok()) return ReplyNow(handle, registered.status());
  if (registered->change != ServerRegistry::Change::kNone) {
    Change();
    const ServerState& server = *servers_.Find(registered->server);
    Record(now, RegistrationKind(registered->change), absl::StrCat("server ", server.name),
           absl::StrCat("node ", server.node, ", ", server.addresses.size(), " I/O threads, Shoal ",
                        server.software_version,
                        server.job == JobId() ? "" : absl::StrCat(", for job ", server.job.value(), " alone")));
    ForgetExclusions(registered->server);
    RebuildMap(now);
  }
  AfterSave(Reply{handle, Response(ServerRegistered{.server = registered->server,
                                                    .lease_ttl_ms = settings_.lease_ttl_ms,
                                                    .token_key = token_key_,
                                                    .epoch = map_->epoch()})});
  CompleteGroups(now);
}

absl::Status SchedulerMachine::CheckServersJob(const RegisterServer& request) const {
  if (request.job == JobId()) return absl::OkStatus();
  const Job* job = jobs_.Find(request.job);
  if (job != nullptr && job->open()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("server \"", CleanText(request.name), "\" is for job ",
                                                    request.job.value(),
                                                    ", which is not open here; its process has to join the job first"));
}

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const HeartbeatServer& request) {
  const absl::Status status = servers_.Renew(now, request);
  if (!status.ok()) return ReplyNow(handle, status);
  ReplyNow(handle, Response(ServerRenewed{.lease_ttl_ms = settings_.lease_ttl_ms,
                                          .epoch = published_->epoch(),
                                          .drain = servers_.Find(request.server)->draining}));
}

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const DeregisterServer& request) {
  const absl::StatusOr<bool> was_live = servers_.Deregister(request);
  if (!was_live.ok()) return ReplyNow(handle, was_live.status());
  if (*was_live) {
    Change();
    const ServerState& server = *servers_.Find(request.server);
    Record(now, "server-left", absl::StrCat("server ", server.name), server.reason);
    RebuildMap(now);
  }
  AfterSave(Reply{handle, Response(Done())});
}

void SchedulerMachine::RebuildMap(const Now& now) {
  PublishServers(now);
  MoveGroups(now);
  AskForColocation(now);
}

void SchedulerMachine::PublishServers(const Now& now) {
  const Epoch next(map_->epoch().value() + 1);
  absl::StatusOr<ShardMap> map = ShardMap::Make(next, servers_.LiveShards());
  if (!map.ok()) return Record(now, "map-refused", "map", std::string(map.status().message()));
  if (map->shards() == map_->shards()) return;
  map_ = std::make_shared<const ShardMap>(*std::move(map));
  Change();
  AfterSave(PublishMap{map_});
  Record(now, "map-published", absl::StrCat("map ", next.value()),
         absl::StrCat(map_->shards().size(), " shards on ", servers_.dedicated_count(), " servers"));
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

void SchedulerMachine::ForgetExclusions(ServerId server) {
  for (auto& [id, job] : jobs_.jobs()) {
    for (GroupState& group : job.groups) {
      std::erase_if(group.excluded, [&](const ExcludedServer& excluded) { return excluded.server == server; });
    }
  }
}

void SchedulerMachine::MoveGroups(const Now& now) {
  for (auto& [id, job] : jobs_.jobs()) {
    if (!job.open()) continue;
    for (GroupState& group : job.groups) {
      absl::StatusOr<GroupPlan> plan = PlanFor(job, group, group.excluded);
      if (!plan.ok() && !group.excluded.empty()) {
        group.excluded.clear();
        plan = PlanFor(job, group, {});
      }
      // With no server left it keeps what it has: the last one may be draining, and serves it till the end.
      if (plan.ok() && plan->map->shards() != group.shards) MoveGroup(now, job, &group, *plan, "the servers changed");
    }
  }
}

void SchedulerMachine::MoveGroup(const Now& now, const Job& job, GroupState* group, const GroupPlan& plan,
                                 const std::string& why) {
  group->epoch = plan.map->epoch();
  group->shards = plan.map->shards();
  Change();
  AfterSave(PublishGroupMap{job.id, {group->id, plan.map}});
  Record(now, "group-moved", absl::StrCat("group \"", group->name, "\" of job \"", job.name, "\""),
         absl::StrCat("to epoch ", group->epoch.value(), " with ", group->shards.size(), " shards: ", why));
}

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const ReportServer& request) {
  const absl::StatusOr<Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return ReplyNow(handle, job.status());
  GroupState* const group = (*job)->FindGroup(request.group);
  if (group == nullptr || std::count(group->ranks.begin(), group->ranks.end(), request.rank) == 0) {
    return ReplyNow(handle, absl::NotFoundError(absl::StrCat((*job)->Describe(request.rank), " is in no group ",
                                                             request.group.value())));
  }
  const auto reported = std::find_if(group->shards.begin(), group->shards.end(), [&](const Shard& shard) {
    return shard.server == request.server && shard.incarnation == request.server_incarnation;
  });
  // Others report the same loss; the first of them is enough.
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
  // The last one is kept: either it comes back to the rank, or its lease runs out.
  if (plan.ok()) {
    const std::string what =
        absl::StrCat("rank ", request.rank, " lost server ", reported->server_name,
                     request.reachable ? " and reached it again: " : ": ", CleanText(request.reason));
    group->excluded = std::move(excluded);
    MoveGroup(now, **job, group, *plan, what);
  }
  AfterSave(Reply{handle, Response(Done())});
}

// ---- jobs ----

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const JoinJob& request) {
  JobId held_by;
  if (TryJoin(now, handle, request, &held_by)) return;
  if (held_joins_.size() >= kMaxHeldJoins) return ReplyNow(handle, jobs_.HolderError(now, request));
  held_joins_.push_back({handle, request, held_by});
}

bool SchedulerMachine::TryJoin(const Now& now, RequestHandle handle, const JoinJob& request, JobId* held_by) {
  const absl::StatusOr<JobRegistry::Joined> joined = jobs_.Join(now, request);
  if (!joined.ok()) {
    ReplyNow(handle, joined.status());
    return true;
  }
  *held_by = joined->job;
  if (joined->held) return false;
  if (joined->changed) Change();
  const std::string subject = absl::StrCat("job \"", request.job_name, "\"");
  if (joined->started_job) {
    Record(now, "job-started", subject,
           absl::StrCat("world size ", request.world_size, ", first was rank ", request.rank, " on node ",
                        CleanText(request.node)));
  }
  if (joined->job_runs_now)
    Record(now, "job-running", subject, absl::StrCat("all ", request.world_size, " ranks joined"));
  const bool colocate_server = jobs_.AssignServer(joined->job, request.rank, joined->changed && WantsServer(request));
  AfterSave(
      Reply{handle, Response(JobJoined{.job = joined->job,
                                       .lease_ttl_ms = settings_.lease_ttl_ms,
                                       .server_count = static_cast<uint32_t>(servers_.ServersOf(joined->job).size()),
                                       .colocate_server = colocate_server})});
  return true;
}

// How the shares turn out is decided for each group (core/server_weights.h); here only who is to be asked at all.
bool SchedulerMachine::WantsServer(const JoinJob& request) const {
  switch (*ColocationFromNumber(request.colocation)) {
    case Colocation::kOff:
      return false;
    case Colocation::kOn:
      return true;
    case Colocation::kAuto:
      break;
  }
  return servers_.dedicated_count() < request.world_size && !servers_.AnyDedicatedOn(CleanText(request.node));
}

void SchedulerMachine::RetryHeldJoins(const Now& now) {
  std::vector<HeldJoin> held = std::exchange(held_joins_, {});
  for (HeldJoin& each : held) {
    if (!TryJoin(now, each.handle, each.request, &each.job)) held_joins_.push_back(std::move(each));
  }
}

void SchedulerMachine::RefuseHeldJoins(const Now& now, JobId job, uint32_t rank) {
  std::erase_if(held_joins_, [&](const HeldJoin& held) {
    if (held.job != job || held.request.rank != rank) return false;
    ReplyNow(held.handle, jobs_.HolderError(now, held.request));
    return true;
  });
}

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const HeartbeatWorker& request) {
  const absl::Status status = jobs_.Renew(now, request);
  if (!status.ok()) return ReplyNow(handle, status);
  ReplyNow(handle, Response(WorkerRenewed{.lease_ttl_ms = settings_.lease_ttl_ms,
                                          .waits = rounds_.LongWaits(now, request, servers_, jobs_)}));
  RefuseHeldJoins(now, request.job, request.rank);
}

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const LeaveJob& request) {
  const absl::StatusOr<JobRegistry::Gone> gone = jobs_.Leave(request);
  if (!gone.ok()) return ReplyNow(handle, gone.status());
  RankIsGone(now, *gone);
  AfterSave(Reply{handle, Response(Done())});
  RetryHeldJoins(now);
}

void SchedulerMachine::RankIsGone(const Now& now, const JobRegistry::Gone& gone) {
  Change();
  const std::string job = absl::StrCat("job \"", gone.job_name, "\"");
  if (gone.lost) {
    Record(now, "rank-lost", gone.who, gone.rank.reason);
    AfterSave(PublishLost{gone.rank});
  }
  ReplyNow(rounds_.FailRank(gone.rank.job, gone.rank.rank,
                            absl::CancelledError(absl::StrCat(gone.who, " left: ", gone.rank.reason))));
  if (gone.failed_job_now) {
    const std::string reason = absl::StrCat(gone.who, " was lost: ", gone.rank.reason);
    Record(now, "job-failed", job, reason);
    ReplyNow(rounds_.FailJob(gone.rank.job, absl::AbortedError(reason)));
  }
  if (gone.ended_job_now) Record(now, "job-ended", job, "all ranks left");
}

// ---- status ----

void SchedulerMachine::Answer(const Now&, RequestHandle handle, const GetCluster&) {
  ReplyNow(handle, Response(ClusterView{.cluster_id = cluster_id_,
                                        .epoch = published_->epoch(),
                                        .servers_live = servers_.live_count(),
                                        .servers_lost = servers_.lost_count(),
                                        .jobs = jobs_.live_job_count(),
                                        .workers = jobs_.live_worker_count(),
                                        .started_at_unix_ms = started_at_unix_ms_,
                                        .lease_ttl_ms = settings_.lease_ttl_ms,
                                        .store = settings_.store}));
}

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const ListServers&) {
  ReplyNow(handle, Response(servers_.Views(now)));
}

void SchedulerMachine::Answer(const Now& now, RequestHandle handle, const ListJobs&) {
  std::vector<JobView> views;
  for (const auto& [id, job] : jobs_.jobs()) {
    JobView& view = views.emplace_back();
    view.job = id;
    view.name = job.name;
    view.world_size = job.world_size;
    view.phase = job.phase;
    view.started_at_unix_ms = job.started_at_unix_ms;
    for (const auto& [rank, worker] : job.workers) {
      view.ranks.push_back({.rank = rank,
                            .state = worker.state,
                            .last_heartbeat_age_ms = (now.monotonic_ns - worker.last_heartbeat_ns) / 1'000'000,
                            .load = worker.load});
    }
    for (const GroupState& group : job.groups) view.groups.push_back({group, true, {}});
    for (auto it = rounds_.rounds().lower_bound({id, ""}); it != rounds_.rounds().end() && it->first.first == id;
         ++it) {
      const GroupRound& round = it->second;
      GroupView& waiting = view.groups.emplace_back();
      waiting.state.name = round.name;
      waiting.state.ranks = round.ranks;
      waiting.state.max_chunk_bytes = round.max_chunk_bytes;
      waiting.state.wire = round.wire;
      waiting.missing_ranks = round.MissingRanks();
    }
  }
  ReplyNow(handle, Response(std::move(views)));
}

void SchedulerMachine::Answer(const Now&, RequestHandle handle, const GetShardMap&) {
  ReplyNow(handle, Response(published_));
}

}  // namespace shoal::scheduler
