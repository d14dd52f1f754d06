#include "scheduler/machine/group_moves.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/shard_map.h"
#include "scheduler/machine/colocation_request.h"
#include "scheduler/machine/request_checks.h"

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

// The report is of the group's present map.
void NoteReport(JobGroup* group, const ReportServer& request, const std::string& server_name, Now now) {
  const std::string reason = CleanText(request.reason);
  std::string wish = absl::StrCat("rank ", request.rank.value(), " lost server ", server_name,
                                  request.reachable ? " and reached it again: " : ": ", reason);
  if (request.reachable) return group->NoteReachedAgain(request.server, std::move(wish), now);
  const std::string refusal = reason.empty() ? absl::StrCat("server ", server_name, " refused it") : reason;
  group->NoteLost(
      {.server = request.server, .incarnation = request.server_incarnation, .refusal = request.refused ? refusal : ""},
      std::move(wish), now);
}

}  // namespace

GroupMoves::GroupMoves(uint64_t lease_ttl_ns, const TokenKey& token_key, const ServerRegistry* servers,
                       JobRegistry* jobs, GroupEnds* ends, Decisions* decisions, Now now)
    : lease_ttl_ns_(lease_ttl_ns),
      token_key_(token_key),
      servers_(*servers),
      jobs_(*jobs),
      ends_(*ends),
      decisions_(*decisions) {
  for (const auto& [id, job] : jobs_.jobs()) {
    for (auto& [group_id, group] : jobs_.At(id).groups.all()) LookAgain(&group, now.monotonic_ns);
  }
}

void GroupMoves::OnServersChanged(Now now) {
  PublishServers(now);
  for (const auto& [id, job] : jobs_.jobs()) {
    for (auto& [group_id, group] : jobs_.At(id).groups.all()) MoveIfNeeded(job, &group, now);
  }
  AskForColocation(now);
}

void GroupMoves::PublishServers(Now now) {
  const Epoch next(decisions_.map()->epoch().value() + 1);
  absl::StatusOr<ShardMap> map = ShardMap::Make(next, servers_.LiveShards());
  if (!map.ok()) return decisions_.Record(EventKind::kMapRefused, "map", std::string(map.status().message()), now);
  if (map->shards() == decisions_.map()->shards()) return;
  const size_t shards = map->shards().size();
  decisions_.Publish(std::make_shared<const ShardMap>(*std::move(map)));
  decisions_.Record(EventKind::kMapPublished, absl::StrCat("map ", next.value()),
                    absl::StrCat(shards, " shards on ", servers_.dedicated_count(), " servers"), now, {.epoch = next});
}

void GroupMoves::AskForColocation(Now now) {
  for (const auto& [id, job] : jobs_.jobs()) {
    const std::optional<ColocationRequest> wanted = FindColocationRequest(job, servers_);
    if (!wanted.has_value()) continue;
    jobs_.At(id).NoteColocatedServers(wanted->ranks);
    decisions_.AfterSave(PublishColocationRequest{id, *wanted});
    decisions_.Record(EventKind::kColocationRequested, absl::StrCat("job \"", job.name, "\""),
                      absl::StrCat("no server is left (", wanted->reason, "): asked each of the ranks ",
                                   RankList(wanted->ranks), " to run a colocated server"),
                      now, {.job = id});
  }
}

absl::StatusOr<GroupPlan> GroupMoves::PlanFor(const Job& job, const GroupState& group,
                                              const std::vector<ExcludedServer>& excluded) const {
  std::vector<const ServerState*> servers = servers_.ServersOf(job.id);
  std::erase_if(servers, [&](const ServerState* server) { return FindExcluded(excluded, *server) != nullptr; });
  return PlanGroup(NextEpoch(group), servers, job.PlacesOf(group.ranks));  // a move keeps chunks and credit
}

Epoch GroupMoves::NextEpoch(const GroupState& group) const {
  return Epoch(std::max(group.epoch.value() + 1, decisions_.map()->epoch().value()));
}

void GroupMoves::Tick(Now now) {
  if (now.monotonic_ns < next_move_ns_) return;
  next_move_ns_ = kNoDeadline;
  for (const auto& [id, job] : jobs_.jobs()) {
    for (auto& [group_id, group] : jobs_.At(id).groups.all()) {
      if (group.look_again_ns() <= now.monotonic_ns) {
        MoveIfNeeded(job, &group, now);
      } else {
        next_move_ns_ = std::min(next_move_ns_, group.look_again_ns());
      }
    }
  }
}

void GroupMoves::LookAgain(JobGroup* group, uint64_t at_ns) {
  group->LookAgainAt(at_ns);
  next_move_ns_ = std::min(next_move_ns_, at_ns);
}

std::optional<GroupMoves::NextMap> GroupMoves::FindNextMap(const Job& job, const JobGroup& group) const {
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

std::optional<GroupMoves::NextMap> GroupMoves::SameServers(const JobGroup& group) const {
  const GroupState& state = group.state();
  absl::StatusOr<ShardMap> map = ShardMap::Make(NextEpoch(state), state.shards);
  if (!map.ok()) return std::nullopt;
  return NextMap{{.map = std::make_shared<const ShardMap>(*std::move(map))}, state.excluded};
}

void GroupMoves::MoveIfNeeded(const Job& job, JobGroup* group, Now now) {
  group->LookAgainAt(kNoDeadline);
  // Of a job that has failed, groups without the lost rank go on.
  if (job.live_count == 0 || !group->state().NeedsServers()) return;
  std::optional<NextMap> next = FindNextMap(job, *group);
  // With no server left it keeps what it has: the last one may be draining, and serves it until it ends.
  if (!next.has_value() && group->NeedsNextRoster()) next = SameServers(*group);
  if (!next.has_value()) return GiveUpIfRefusedByAll(job, group, now);
  const bool stays = !group->WantsMove() && !group->NeedsNextRoster();
  if (stays && next->plan.map->shards() == group->state().shards) return;
  if (now.monotonic_ns < group->next_move_ns()) return LookAgain(group, group->next_move_ns());
  ++(group->WantsMove() ? numbers_.asked_by_rank : numbers_.servers_changed);
  Move(job, group, *std::move(next), now);
}

void GroupMoves::Move(const Job& job, JobGroup* group, NextMap next, Now now) {
  const std::string why = group->WantsMove() ? group->wish() : kServersChanged;
  group->LeaveOutClosed();
  const Roster roster = group->NextRoster();
  group->MoveTo(*next.plan.map, std::move(next.excluded),
                SealRoster(token_key_, group->state().id, next.plan.map->epoch(), roster), now);
  const GroupState& state = group->state();
  decisions_.NoteChange();
  decisions_.AfterSave(PublishGroupMap{job.id,
                                       {.group = state.id,
                                        .map = next.plan.map,
                                        .all_committed = state.all_committed,
                                        .sealed_roster = state.sealed_roster}});
  const char* const what = state.rail.has_value() ? " nodes" : " ranks";
  const std::string ranks =
      roster.IsWhole() ? "" : absl::StrCat(" and ", roster.count(), " of its ", roster.size(), what);
  decisions_.Record(
      EventKind::kGroupMoved, job.Describe(state),
      absl::StrCat("to epoch ", state.epoch.value(), " with ", state.shards.size(), " shards", ranks, ": ", why), now,
      {.job = job.id, .group = state.id, .epoch = state.epoch});
}

void GroupMoves::OnRankLost(JobId id, const std::vector<GroupId>& groups, Now now) {
  const Job* const job = jobs_.Find(id);
  if (job == nullptr) return;
  for (const GroupId group_id : groups) {
    // One that was its last rank's is gone with it.
    JobGroup* const group = jobs_.At(id).groups.Find(group_id);
    if (group != nullptr && group->GoesOn()) GoOnOrFail(*job, group, now);
  }
}

void GroupMoves::GoOnOrFail(const Job& job, JobGroup* group, Now now) {
  const Roster roster = group->NextRoster();
  const size_t left = roster.count();
  if (left >= group->state().min_ranks && roster.lost().size() <= Roster::kMaxLost) {
    return MoveIfNeeded(job, group, now);
  }
  const char* const what = group->state().rail.has_value() ? " nodes" : " ranks";
  const std::string limit =
      left < group->state().min_ranks
          ? absl::StrCat("it has ", left, what, " left, and needs ", group->state().min_ranks)
          : absl::StrCat("it has lost ", roster.lost().size(), what, ", and goes on without ", Roster::kMaxLost);
  ends_.Fail(job, group->state(), absl::StrCat(group->wish(), "; ", limit), /*lacks_memory=*/false, now);
}

void GroupMoves::OnRankLeft(const Job& job, const GroupState& group, const ReportServer& report, Now now) {
  if (group.gone.contains(report.rank) || report.left->value() >= group.ranks.size()) return;
  const JobRank left = group.ranks[report.left->value()];
  // Its own word may be on its way.
  if (left == report.rank) return;
  ends_.Close(job, group.id, left, now);
  JobGroup* const goes_on = FindGoingOn(job, report.group, left);
  if (goes_on == nullptr) return;
  // It was done with all that it had called. So the ranks of its node may still get the results of that.
  goes_on->LoseRank(left, absl::StrCat(job.Describe(left), " has closed it, and others go on"), now);
  GoOnOrFail(job, goes_on, now);
}

void GroupMoves::OnRankGone(const Job& job, GroupId id, JobRank rank, const std::string& what, Now now) {
  ends_.Close(job, id, rank, now);
  if (FindGoingOn(job, id, rank) == nullptr) return;
  OnRankLost(job.id, jobs_.At(job.id).groups.LoseRank(id, rank, absl::StrCat(job.Describe(rank), what), now), now);
}

JobGroup* GroupMoves::FindGoingOn(const Job& job, GroupId id, JobRank rank) {
  JobGroup* const group = jobs_.At(job.id).groups.Find(id);
  return group == nullptr || !group->GoesOn() || group->state().lost.contains(rank) ? nullptr : group;
}

void GroupMoves::GiveUpIfRefusedByAll(const Job& job, JobGroup* group, Now now) {
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
  const uint64_t give_up_ns = group->wanted_since_ns() + lease_ttl_ns_;
  if (now.monotonic_ns < give_up_ns) return LookAgain(group, give_up_ns);
  const std::string failure = absl::StrCat("no reduction server that is left has the memory for group \"", state.name,
                                           "\": ", absl::StrJoin(refusals, "; "));
  ends_.Fail(job, state, failure, /*lacks_memory=*/true, now);
}

void GroupMoves::Answer(RequestHandle handle, const ReportServer& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return decisions_.Answer(handle, job.status());
  JobGroup* const group = jobs_.At(request.job).groups.Find(request.group);
  if (group == nullptr || !group->HasRank(request.rank)) {
    return decisions_.Answer(handle, absl::NotFoundError(absl::StrCat((*job)->Describe(request.rank),
                                                                      " is in no group ", request.group.value())));
  }
  const GroupState& state = group->state();
  const auto reported = std::find_if(state.shards.begin(), state.shards.end(), [&](const Shard& shard) {
    return shard.server == request.server && shard.incarnation == request.server_incarnation;
  });
  // Several ranks report the same loss; the first report is enough.
  const bool is_of_map = state.epoch == request.epoch && reported != state.shards.end();
  if (is_of_map && request.left.has_value()) {
    OnRankLeft(**job, state, request, now);
  } else if (is_of_map) {
    NoteReport(group, request, reported->server_name, now);
    MoveIfNeeded(**job, group, now);
  }
  // The rank may have missed the news: it would go on reporting.
  ServerReported reply;
  if (state.epoch > request.epoch || !state.failure.empty() || state.all_committed) reply.newer = MapOf(state);
  decisions_.Answer(handle, std::move(reply));
}

void GroupMoves::OnMemoryFreed(ServerId server, Now now) {
  for (const auto& [id, job] : jobs_.jobs()) {
    for (auto& [group_id, group] : jobs_.At(id).groups.all()) {
      if (group.ForgetRefusal(server) && group.WantsMove()) MoveIfNeeded(job, &group, now);
    }
  }
}

}  // namespace shoal::scheduler
