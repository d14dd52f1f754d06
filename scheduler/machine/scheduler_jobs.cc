// The part of SchedulerMachine that lets ranks join, renew their leases and leave.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/colocation.h"
#include "scheduler/machine/node_reduce_decision.h"
#include "scheduler/machine/request_checks.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

void SchedulerMachine::Answer(RequestHandle handle, const JoinJob& request, Now now) {
  JobId held_by;
  if (TryJoin(handle, request, now, &held_by)) return;
  if (held_joins_.full()) return ReplyNow(handle, jobs_.HolderError(held_by, request, now));
  held_joins_.Add({handle, request, held_by});
  TakeOverRanks(now);
}

bool SchedulerMachine::TryJoin(RequestHandle handle, const JoinJob& request, Now now, JobId* held_by) {
  const absl::StatusOr<JobRegistry::Joined> joined = jobs_.Join(request, now);
  if (!joined.ok()) {
    ReplyNow(handle, joined.status());
    return true;
  }
  *held_by = joined->job;
  if (joined->held) return false;
  if (joined->changed) saves_.NoteChange();
  const std::string subject = absl::StrCat("job \"", request.job_name, "\"");
  if (joined->started_job) {
    Record(EventKind::kJobStarted, subject,
           absl::StrCat("world size ", request.world_size, "; the first to join was rank ", request.rank.value(),
                        " on node ", CleanText(request.node)),
           now, {.job = joined->job});
  }
  const Job& job = *jobs_.Find(joined->job);
  if (joined->job_runs_now) {
    Record(EventKind::kJobRunning, subject, absl::StrCat("all ", request.world_size, " ranks joined"), now,
           {.job = joined->job});
    WarnOfSharedNodeName(job, now);
  }
  const NodePlace place = PlaceOf(job.workers.at(request.rank).state);
  const bool colocate_server =
      jobs_.AssignServer(joined->job, request.rank, joined->changed && WantsServer(request, place));
  if (!saves_.all_saved()) jobs_.HoldLease(joined->job, request.rank);
  AfterSave(BeginRankLease{joined->job, request.rank, request.incarnation});
  const auto server_count = static_cast<uint32_t>(servers_.ServersOf(joined->job).size());
  const bool needs_no_servers = jobs_.NeedsNoServers(joined->job);
  const bool has_to_wait = server_count < request.min_servers && !needs_no_servers;
  jobs_.NoteAwaitedServers(joined->job, request.rank, has_to_wait ? request.min_servers : 0);
  AfterSave(Reply{handle, Response(JobJoined{.job = joined->job,
                                             .lease_ttl_ms = settings_.lease_ttl_ms,
                                             .server_count = server_count,
                                             .colocate_server = colocate_server,
                                             .needs_no_servers = needs_no_servers})});
  return true;
}

// Plans tell such nodes apart; whoever reads an event or an error does not.
void SchedulerMachine::WarnOfSharedNodeName(const Job& job, Now now) {
  const std::optional<std::pair<JobRank, JobRank>> ranks = job.FindSharedNodeName();
  if (!ranks.has_value()) return;
  Record(EventKind::kNodeNameShared, absl::StrCat("job \"", job.name, "\""),
         absl::StrCat("ranks ", ranks->first.value(), " and ", ranks->second.value(),
                      " are on different nodes, and both are named ", job.workers.at(ranks->first).state.node,
                      ": events and errors that name it don't say which one is meant; give each node a host name of "
                      "its own"),
         now, {.job = job.id});
}

// How the shares turn out is decided for each group (core/server_weights.h); this only decides which ranks are asked.
bool SchedulerMachine::WantsServer(const JoinJob& request, const NodePlace& place) const {
  switch (*ColocationFromNumber(request.colocation)) {
    case Colocation::kOff:
      return false;
    case Colocation::kOn:
      return true;
    case Colocation::kAuto:
      break;
  }
  return servers_.dedicated_count() < CountPushers(request) && !servers_.AnyDedicatedOn(place);
}

void SchedulerMachine::RetryHeldJoins(Now now) {
  for (HeldJoin& each : held_joins_.TakeAll()) {
    if (!TryJoin(each.handle, each.request, now, &each.job)) held_joins_.Add(std::move(each));
  }
}

uint64_t SchedulerMachine::NextTakeOverNs() const {
  uint64_t next_ns = kNoDeadline;
  for (const HeldJoin& held : held_joins_.all()) {
    next_ns = std::min(next_ns, jobs_.TakeOverAtNs(held.job, held.request.rank));
  }
  return next_ns;
}

void SchedulerMachine::TakeOverRanks(Now now) {
  if (now.monotonic_ns < NextTakeOverNs()) return;
  for (const HeldJoin& held : held_joins_.all()) {
    if (now.monotonic_ns < jobs_.TakeOverAtNs(held.job, held.request.rank)) continue;
    const JobRegistry::Gone gone = jobs_.TakeOver(held.job, held.request, now);
    RankIsGone(gone, now);
    if (!gone.lost) NoteReplaced(gone, now);
  }
  RetryHeldJoins(now);
}

void SchedulerMachine::NoteReplaced(const JobRegistry::Gone& gone, Now now) {
  Record(EventKind::kRankReplaced, gone.who,
         absl::StrCat(gone.rank.reason, "; ranks of the job's next run have joined, and nobody misses this one"), now,
         {.job = gone.rank.job, .rank = gone.rank.rank.value()});
}

void SchedulerMachine::RefuseHeldJoins(JobId job, JobRank rank, Now now) {
  for (const HeldJoin& held : held_joins_.TakeFor(job, rank)) {
    ReplyNow(held.handle, jobs_.HolderError(held.job, held.request, now));
  }
}

void SchedulerMachine::Answer(RequestHandle handle, const HeartbeatWorker& request, Now now) {
  const absl::Status status = jobs_.Renew(request, now);
  if (!status.ok()) return Refuse(handle, status);
  TellSlow(request.job, now);
  WorkerRenewed renewed{.lease_ttl_ms = settings_.lease_ttl_ms,
                        .waits = rounds_.LongWaits(request, servers_, jobs_, now)};
  if (request.rank == JobRank(0)) renewed.news = jobs_.TakeNews(request.job);
  renewed.trace =
      traces_.RequestFor({.job = request.job, .rank = request.rank, .incarnation = request.incarnation}, now);
  ReplyNow(handle, Response(std::move(renewed)));
  RefuseHeldJoins(request.job, request.rank, now);
}

const ServerState* SchedulerMachine::FindLive(ServerId id) const {
  const ServerState* const server = servers_.Find(id);
  return server != nullptr && server->phase == MemberPhase::kLive ? server : nullptr;
}

ServerComparison SchedulerMachine::Compare(const Job& job, const GroupState& group, ServerId id) const {
  std::map<ServerId, uint64_t> weights;
  for (const Shard& shard : group.shards) weights[shard.server] += shard.weight;
  const ServerState* const server = FindLive(id);
  if (server == nullptr || !weights.contains(id)) return {};
  // What is slow about its node is told as that of the rank.
  for (const SlowRank& slow : job.slow_ranks.slow()) {
    if (AreOnOneNode(PlaceOf(job.workers.at(slow.rank).state), PlaceOf(*server))) {
      return {.why_not = absl::StrCat("rank ", slow.rank.value(), " on its node is slow")};
    }
  }
  std::vector<NodePlace> alike;
  for (const auto& [each, weight] : weights) {
    const ServerState* const other = weight == weights[id] ? FindLive(each) : nullptr;
    if (other != nullptr) alike.push_back(PlaceOf(*other));
  }
  const NodeNumbering nodes(alike);
  std::vector<size_t> alike_on_node(nodes.count());
  for (const NodePlace& place : alike) ++alike_on_node[*nodes.Find(place)];
  const std::optional<uint32_t> own = nodes.Find(PlaceOf(*server));
  // Results come sooner from servers on a rank's own node. If those are half of the servers, the others look slow to
  // it.
  ServerComparison comparison{.server = server};
  for (const JobRank rank : group.ranks) {
    const std::optional<uint32_t> node = nodes.Find(PlaceOf(job.workers.at(rank).state));
    if (node.has_value() && node != own && 2 * alike_on_node[*node] >= alike.size()) comparison.biased.insert(rank);
  }
  return comparison;
}

void SchedulerMachine::TellSlow(JobId id, Now now) {
  // By then all ranks have sent a heartbeat about the time in which they waited.
  const uint64_t settle_ns = lease_ttl_ns() / 3;
  const JobRegistry::SlowServerFacts facts = {
      .find_live = [this](ServerId server) { return FindLive(server); },
      .compare = [this](const Job& of, const GroupState& group,
                        ServerId server) { return Compare(of, group, server); }};
  const JobRegistry::SlowChanges changes = jobs_.JudgeSlow(id, facts, settle_ns, now);
  if (changes.ranks.empty() && changes.servers.empty()) return;
  const Job& job = *jobs_.Find(id);
  for (const SlowRanks::Change& change : changes.ranks) {
    const SlowRank& slow = change.rank;
    const std::string who = job.Describe(slow.rank);
    const std::string what =
        change.is_over
            ? "nothing shows any more that the other ranks wait for it"
            : absl::StrFormat("the other ranks wait for it %.0f %% of the time, %.1f ms an op (%s): %s",
                              100 * slow.waited_share, static_cast<double>(slow.waited_ns_per_op) / kNsPerMs,
                              std::string(SlowCauseName(slow.cause)), std::string(SlowCauseText(slow.cause)));
    Record(change.is_over ? EventKind::kRankSlowNoMore : EventKind::kRankSlow, who, what, now,
           {.job = id, .rank = slow.rank.value()});
    jobs_.AddNews(id, absl::StrCat(who, ": ", what));
  }
  for (const SlowServers::Change& change : changes.servers) {
    const SlowServer& slow = change.server;
    const bool is_over = !change.over.empty();
    const std::string who = absl::StrCat("server ", slow.name);
    const std::string of_job = absl::StrCat("job \"", job.name, "\"");
    const std::string what =
        is_over ? absl::StrCat(of_job, " does not count it as slow any more: ", change.over)
                : absl::StrFormat("the ranks of %s wait for it %.0f %% of the time (%s): %s", of_job,
                                  100 * slow.waited_share, std::string(slow.CauseName()), slow.Advice());
    Record(is_over ? EventKind::kServerSlowNoMore : EventKind::kServerSlow, who, what, now, {.job = id});
    jobs_.AddNews(id, absl::StrCat(who, " on node ", slow.node, ": ", what));
  }
}

void SchedulerMachine::Answer(RequestHandle handle, const LeaveJob& request, Now now) {
  const absl::StatusOr<const Job*> job = jobs_.FindMember(request.job, request.rank, request.incarnation);
  if (!job.ok()) return Refuse(handle, job.status());
  if (absl::Status status = CheckRequest(request); !status.ok()) return ReplyNow(handle, status);
  GiveGroupsUp(**job, request.rank, request.failures, now);
  GiveRequestsUp(**job, request.rank, request.incarnation, request.given_up_requests, now);
  NoteAllCommitted(**job, request.rank, request.committed_groups);
  const absl::StatusOr<JobRegistry::Gone> gone = jobs_.Leave(request, now);
  if (!gone.ok()) return Refuse(handle, gone.status());
  RankIsGone(*gone, now);
  AfterSave(Reply{handle, Response(Done())});
  RetryHeldJoins(now);
}

void SchedulerMachine::RankIsGone(const JobRegistry::Gone& gone, Now now) {
  saves_.NoteChange();
  const std::string job = absl::StrCat("job \"", gone.job_name, "\"");
  if (gone.lost) {
    Record(EventKind::kRankLost, gone.who, gone.rank.reason, now,
           {.job = gone.rank.job, .rank = gone.rank.rank.value()});
    AfterSave(PublishLost{gone.rank});
  }
  // What a lost rank hears to anything that it asks from now on (JobRegistry::FindMember).
  const absl::Status why = gone.lost ? absl::NotFoundError(absl::StrCat(gone.who, " is lost (", gone.rank.reason, ")"))
                                     : absl::CancelledError(absl::StrCat(gone.who, " left: ", gone.rank.reason));
  Refuse(rounds_.FailRank(gone.rank.job, gone.rank.rank, why));
  if (gone.failed_job_now) {
    Record(EventKind::kJobFailed, job, gone.failure, now, {.job = gone.rank.job});
    Refuse(rounds_.FailJob(gone.rank.job, absl::AbortedError(gone.failure)));
  }
  if (gone.ended_job_now) Record(EventKind::kJobEnded, job, "all ranks left", now, {.job = gone.rank.job});
}

}  // namespace shoal::scheduler
