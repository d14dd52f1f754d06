#include "scheduler/machine/scheduler_machine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "core/failure_detection.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

// How long nobody may find a scheduler that was started again: its name and routes to it get about within seconds.
constexpr uint64_t kLeasesToFindScheduler = 10;

// Queries of operators are none: they may be asked on this very node.
bool IsSignOfLife(const Request& request) {
  return std::holds_alternative<HeartbeatServer>(request) || std::holds_alternative<HeartbeatWorker>(request) ||
         std::holds_alternative<RegisterServer>(request) || std::holds_alternative<JoinJob>(request);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerMachine>> SchedulerMachine::Make(const Settings& settings,
                                                                         const PersistedState& state, bool is_new,
                                                                         Now now) {
  std::unique_ptr<SchedulerMachine> machine(new SchedulerMachine(settings, state, is_new, now));
  absl::StatusOr<ShardMap> map = ShardMap::Make(state.epoch, machine->servers_.LiveShards());
  if (!map.ok()) {
    return absl::DataLossError(absl::StrCat("the saved servers make no shard map: ", map.status().message()));
  }
  machine->map_ = std::make_shared<const ShardMap>(*std::move(map));
  machine->published_ = machine->map_;
  // Moves that the scheduler before this one had put off (MovePace) are not in the state.
  for (const auto& [id, job] : machine->jobs_.jobs()) {
    for (auto& [group_id, group] : machine->jobs_.GroupsOf(id).all()) machine->LookAgain(&group, now.monotonic_ns);
  }
  const std::string known = absl::StrCat(machine->servers_.live_count(), " servers and ",
                                         machine->jobs_.live_worker_count(), " workers are known from the saved state");
  machine->Record(EventKind::kSchedulerStarted, absl::StrCat("cluster ", state.cluster_id),
                  is_new ? "new cluster" : known, now);
  return machine;
}

SchedulerMachine::SchedulerMachine(const Settings& settings, const PersistedState& state, bool is_new, Now now)
    : settings_(settings),
      cluster_id_(state.cluster_id),
      token_key_(state.token_key),
      started_at_unix_ms_(now.unix_ms),
      servers_(settings.lease_ttl_ms * 1'000'000),
      jobs_(settings.lease_ttl_ms * 1'000'000),
      event_numbers_(is_new || state.reserved_event_numbers != 0 ? state.reserved_event_numbers
                                                                 : kEventNumbersOfOlderReleases),
      saves_(is_new),
      heard_at_ns_(now.monotonic_ns),
      map_(std::make_shared<const ShardMap>()),
      next_group_id_(state.next_group_id) {
  servers_.Restore(state.servers, state.next_server_id, now);
  jobs_.Restore(state.jobs, state.next_job_id, now);
}

void SchedulerMachine::Tick(Now now, SchedulerActions* actions) {
  if (!RenewLeasesAfterStall(now) && !RenewLeasesWhileCutOff(now)) {
    ExpireServers(now);
    const std::vector<JobRegistry::Gone> gone =
        jobs_.ExpireLeases([this](JobId job, JobRank rank) { return held_joins_.HasFor(job, rank); }, now);
    for (const JobRegistry::Gone& each : gone) {
      RankIsGone(each, now);
      if (!each.lost) NoteReplaced(each, now);
    }
    if (!gone.empty()) RetryHeldJoins(now);
    TakeOverRanks(now);
  }
  MoveGroupsThatWaited(now);
  ReplyNow(rounds_.Expire(now, servers_, jobs_));
  HandOut(now, actions);
}

void SchedulerMachine::ExpireServers(Now now) {
  const std::vector<ServerState> lost = servers_.ExpireLeases(now);
  for (const ServerState& server : lost) {
    saves_.NoteChange();
    Record(EventKind::kServerLost, absl::StrCat("server ", server.name), server.reason, now);
  }
  if (!lost.empty()) RebuildMap(now);
}

uint64_t SchedulerMachine::NextDeadlineNs() const {
  return std::min({servers_.next_expiry_ns(), jobs_.next_expiry_ns(), NextTakeOverNs(), rounds_.next_deadline_ns(),
                   saves_.NextSaveNs(), next_move_ns_});
}

void SchedulerMachine::RenewAllLeases(Now now) {
  servers_.RenewAll(now);
  jobs_.RenewAll(now);
}

bool SchedulerMachine::RenewLeasesAfterStall(Now now) {
  const uint64_t due_ns = std::min(servers_.next_expiry_ns(), jobs_.next_expiry_ns());
  const uint64_t patience_ns = HeartbeatPeriodNs(lease_ttl_ns());
  if (due_ns == kNoDeadline || now.monotonic_ns < due_ns) return false;
  if (saves_.last_save_failed()) {
    // No process can be told that it is a member while the store fails, so none is lost for not renewing, and a loss
    // could not be saved. But a server that waits to be let in would ask again if it were still there: nothing that
    // anybody knows of is taken back with it.
    if (now.monotonic_ns < due_ns + patience_ns) {
      servers_.RenewThoseThatAreSaved(now);
      ExpireServers(now);
    } else {
      servers_.RenewAll(now);
    }
    jobs_.RenewLeases(/*ends_processes=*/false, now);
    return true;
  }
  if (now.monotonic_ns < due_ns + patience_ns) return false;
  RenewAllLeases(now);
  Record(EventKind::kSchedulerStalled, absl::StrCat("cluster ", cluster_id_),
         absl::StrCat("the scheduler did not run for at least ", Seconds(now.monotonic_ns - due_ns),
                      ", so no lease could be renewed; all leases start anew"),
         now);
  return true;
}

// When several nodes fall silent at the same moment, the cause is far more likely this node's network than theirs.
uint64_t SchedulerMachine::SilenceOfAllNs(Now now) const {
  // A process that waits to take over a rank has reached this node after the rank's holder fell silent.
  if (!held_joins_.empty()) return 0;
  // Each heartbeat asks, and to walk through all members takes long where there are many.
  const uint64_t silence_ns = now.monotonic_ns - heard_at_ns_;
  if (!has_heard_any_ && silence_ns >= kLeasesToFindScheduler * lease_ttl_ns()) return 0;
  if (silence_ns < LeastSilenceNs()) return 0;
  std::vector<NodePlace> places;
  servers_.AddLivePlaces(&places);
  jobs_.AddLivePlaces(&places);
  return NodeNumbering(places).count() > 1 ? silence_ns : 0;
}

// Every member sends a heartbeat in a period, and a quarter of a period is what one may come late.
uint64_t SchedulerMachine::LeastSilenceNs() const { return HeartbeatPeriodNs(lease_ttl_ns()) * 5 / 4; }

// If no heartbeat came from any member, the fault is more likely here than with all. A longer threshold would come too
// late: a member whose last heartbeat came a period before the silence would lose its lease before it has connected
// again. But the only one that is left may be late as well, again and again: so a short silence excuses a member once.
SchedulerMachine::Silence SchedulerMachine::ExcuseAfter(uint64_t silence_ns, Now now) {
  if (silence_ns >= 2 * HeartbeatPeriodNs(lease_ttl_ns())) {
    RenewAllLeases(now);
    return Silence::kLong;
  }
  if (silence_ns < LeastSilenceNs()) return Silence::kNone;
  servers_.ExtendLeasesOnce(now);
  jobs_.ExtendLeasesOnce(now);
  return Silence::kShort;
}

bool SchedulerMachine::RenewLeasesWhileCutOff(Now now) {
  const uint64_t due_ns = std::min(servers_.next_expiry_ns(), jobs_.next_expiry_ns());
  if (due_ns == kNoDeadline || now.monotonic_ns < due_ns) return false;
  const uint64_t silence_ns = SilenceOfAllNs(now);
  if (ExcuseAfter(silence_ns, now) != Silence::kLong) return false;
  if (!std::exchange(cut_off_, true)) {
    const std::string why =
        has_heard_any_ ? absl::StrCat("no heartbeat from any node for ", Seconds(silence_ns),
                                      "; assuming this node's network is down; no member is marked lost; check this "
                                      "node's network")
                       : absl::StrCat("no member has been heard since this scheduler began ", Seconds(silence_ns),
                                      " ago; assuming that they can't reach it yet; no member is marked lost; check "
                                      "this node's network, and that the members' name for the scheduler leads here");
    Record(EventKind::kSchedulerCutOff, absl::StrCat("cluster ", cluster_id_), why, now);
  }
  return true;
}

void SchedulerMachine::HeardOfMember(Now now) {
  // The other members reconnect as soon as they notice that they can, each after a different time.
  ExcuseAfter(SilenceOfAllNs(now), now);
  if (std::exchange(cut_off_, false)) {
    Record(EventKind::kSchedulerReached, absl::StrCat("cluster ", cluster_id_), "heartbeats of members arrive again",
           now);
  }
  heard_at_ns_ = now.monotonic_ns;
  has_heard_any_ = true;
}

// ---- events ----

void SchedulerMachine::OnEvent(const RequestArrived& event, Now now, SchedulerActions* actions) {
  if (IsSignOfLife(event.request)) HeardOfMember(now);
  std::visit([&](const auto& request) { Answer(event.handle, request, now); }, event.request);
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const RequestCancelled& event, Now now, SchedulerActions* actions) {
  rounds_.Forget(event.handle);
  held_joins_.Forget(event.handle);
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const WatchOpened& event, Now now, SchedulerActions* actions) {
  const Job* const job = jobs_.Find(event.job);
  if (job == nullptr && event.job != JobId()) {
    actions_.push_back(CloseStream{event.watcher, absl::NotFoundError(absl::StrCat("no job has id ", event.job.value(),
                                                                                   " here; join the job first"))});
    return HandOut(now, actions);
  }
  jobs_.OnStreamOpened(event);
  // The present state, told once it is saved. What changes from now on is told after it.
  SendWatch first{.watcher = event.watcher, .map = map_};
  if (job != nullptr) {
    first.lost_ranks = job->LostRanks();
    first.groups = job->groups.Maps();
    first.colocation = ColocationWanted(*job);
  }
  AfterSave(AddWatcher{event.watcher, event.job, std::move(first)});
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const StreamClosed& event, Now now, SchedulerActions* actions) {
  jobs_.OnStreamClosed(event.watcher, now);
  watchers_.Remove(event.watcher);
  saves_.ForgetWatcher(event.watcher);
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const Persisted& event, Now now, SchedulerActions* actions) {
  save_numbers_.Count(event.status.ok(), event.took_ns, now);
  if (event.status.ok()) {
    // Nobody could renew a lease for certain while the store failed.
    if (saves_.OnSaved(event.number)) {
      Record(EventKind::kSavedAgain, settings_.store,
             absl::StrCat("the state is saved again, after ", save_trouble_.failures(), " failed saves in ",
                          Seconds((now.unix_ms - std::min(now.unix_ms, save_trouble_.since_unix_ms())) * kNsPerMs)),
             now);
      save_trouble_ = SaveTrouble();
      servers_.RenewAll(now);
      jobs_.RenewLeases(/*ends_processes=*/true, now);
    }
    while (const std::optional<Consequence> consequence = saves_.TakeReleased()) {
      BeginLease(*consequence, now);
      Carry(*consequence);
    }
  } else {
    SaveHasFailed(event, now);
  }
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const Observed& event, Now now, SchedulerActions* actions) {
  Record(event.kind, event.subject, event.reason, now, event.ids);
  HandOut(now, actions);
}

void SchedulerMachine::SaveHasFailed(const Persisted& event, Now now) {
  const std::vector<RequestHandle> unsaved = saves_.OnSaveFailed(event.number, now);
  servers_.OnSaveFailed(now);
  const std::string reason = absl::StrCat("the state could not be saved: ", event.status.message());
  if (save_trouble_.Note(std::string(event.status.message()), now)) {
    actions_.push_back(EventRecorded{{.sequence = event_numbers_.newest(),
                                      .at_unix_ms = now.unix_ms,
                                      .kind = EventKind::kSaveFailed,
                                      .subject = settings_.store,
                                      .reason = reason,
                                      .epoch = published_->epoch()}});
  }
  for (const RequestHandle handle : unsaved) {
    ReplyNow(handle, absl::UnavailableError(absl::StrCat(reason, "; fix the store, then try again")));
  }
}

// ---- consequences and saving ----

void SchedulerMachine::AfterSave(Consequence consequence) {
  if (saves_.all_saved()) {
    Carry(consequence);
  } else {
    saves_.Hold(std::move(consequence));
  }
}

void SchedulerMachine::Carry(const Consequence& consequence) {
  if (const auto* reply = std::get_if<Reply>(&consequence)) {
    actions_.push_back(*reply);
  } else if (const auto* event = std::get_if<EventRecord>(&consequence)) {
    EventRecord numbered = *event;
    numbered.sequence = event_numbers_.Next();
    actions_.push_back(EventRecorded{std::move(numbered)});
  } else if (const auto* map = std::get_if<PublishMap>(&consequence)) {
    published_ = map->map;
    watchers_.TellAll({.map = map->map}, &actions_);
  } else if (const auto* lost = std::get_if<PublishLost>(&consequence)) {
    watchers_.TellJob(lost->lost.job, {.lost_ranks = {lost->lost}}, &actions_);
  } else if (const auto* moved = std::get_if<PublishGroupMap>(&consequence)) {
    watchers_.TellJob(moved->job, {.groups = {moved->group}}, &actions_);
  } else if (const auto* wanted = std::get_if<PublishColocationRequest>(&consequence)) {
    watchers_.TellJob(wanted->job, {.colocation = wanted->request}, &actions_);
  } else if (const auto* added = std::get_if<AddWatcher>(&consequence)) {
    watchers_.Add(added->watcher, added->job);
    actions_.push_back(added->first);
  }
}

void SchedulerMachine::BeginLease(const Consequence& consequence, Now now) {
  if (const auto* of_rank = std::get_if<BeginRankLease>(&consequence)) {
    jobs_.BeginLease(of_rank->job, of_rank->rank, of_rank->incarnation, now);
  } else if (const auto* of_server = std::get_if<BeginServerLease>(&consequence)) {
    servers_.BeginLease(of_server->server, of_server->incarnation, now);
  }
}

void SchedulerMachine::Refuse(RequestHandle handle, absl::Status status) {
  AfterSave(Reply{handle, std::move(status)});
}

void SchedulerMachine::Refuse(const std::vector<GroupRounds::Failure>& failures) {
  for (const GroupRounds::Failure& failure : failures) Refuse(failure.handle, failure.status);
}

void SchedulerMachine::ReplyNow(RequestHandle handle, absl::StatusOr<Response> response) {
  actions_.push_back(Reply{handle, std::move(response)});
}

void SchedulerMachine::ReplyNow(const std::vector<GroupRounds::Failure>& failures) {
  for (const GroupRounds::Failure& failure : failures) {
    if (failure.job != JobId()) {
      NoteGroupFailed(failure.job, failure.ranks, std::string(failure.status.message()));
    }
    ReplyNow(failure.handle, failure.status);
  }
}

void SchedulerMachine::Record(EventKind kind, const std::string& subject, const std::string& reason, Now now,
                              const EventIds& ids) {
  EventRecord event;
  event.at_unix_ms = now.unix_ms;
  event.kind = kind;
  event.subject = subject;
  event.reason = reason;
  event.epoch = map_->epoch();
  event.ids = ids;
  if (event_numbers_.Expect()) saves_.NoteChange();
  AfterSave(std::move(event));
}

void SchedulerMachine::SaveIfChanged(Now now) {
  if (const std::optional<uint64_t> number = saves_.BeginSave(now)) actions_.push_back(Persist{*number, Snapshot()});
}

PersistedState SchedulerMachine::Snapshot() const {
  return {.cluster_id = cluster_id_,
          .token_key = token_key_,
          .epoch = map_->epoch(),
          .next_server_id = servers_.next_server_id(),
          .next_job_id = jobs_.next_job_id(),
          .next_group_id = next_group_id_,
          .reserved_event_numbers = event_numbers_.reserved(),
          .servers = servers_.States(),
          .jobs = jobs_.States()};
}

void SchedulerMachine::HandOut(Now now, SchedulerActions* actions) {
  SaveIfChanged(now);
  actions->insert(actions->end(), std::make_move_iterator(actions_.begin()), std::make_move_iterator(actions_.end()));
  actions_.clear();
}

// ---- for those who look on ----

void SchedulerMachine::Answer(RequestHandle handle, const GetShardMap&, Now) { ReplyNow(handle, Response(published_)); }

ClusterView SchedulerMachine::Cluster(Now now) const {
  return ClusterView{.cluster_id = cluster_id_,
                     .epoch = published_->epoch(),
                     .servers_live = servers_.CountOf(MemberPhase::kLive, /*colocated=*/false),
                     .servers_lost = servers_.CountOf(MemberPhase::kLost, /*colocated=*/false),
                     .servers_colocated = servers_.CountOf(MemberPhase::kLive, /*colocated=*/true),
                     .jobs = jobs_.live_job_count(),
                     .workers = jobs_.live_worker_count(),
                     .started_at_unix_ms = started_at_unix_ms_,
                     .lease_ttl_ms = settings_.lease_ttl_ms,
                     .store = settings_.store,
                     .now_unix_ms = now.unix_ms,
                     .leader = settings_.leader,
                     .moves = moves_,
                     .saves = save_numbers_,
                     .refused_servers = refused_servers_.List(now),
                     .save_failure = save_trouble_.reason(),
                     .saves_fail_since_unix_ms = save_trouble_.since_unix_ms()};
}

SchedulerNumbers SchedulerMachine::Numbers(Now now) const {
  return {.epoch = published_->epoch(),
          .servers_live = servers_.CountOf(MemberPhase::kLive, /*colocated=*/false),
          .servers_lost = servers_.CountOf(MemberPhase::kLost, /*colocated=*/false),
          .servers_colocated = servers_.CountOf(MemberPhase::kLive, /*colocated=*/true),
          .servers_refused = static_cast<uint32_t>(refused_servers_.List(now).size()),
          .jobs = jobs_.live_job_count(),
          .workers = jobs_.live_worker_count(),
          .moves = moves_,
          .largest_jobs = {},
          .events = {},
          .saves = save_numbers_};
}

}  // namespace shoal::scheduler
