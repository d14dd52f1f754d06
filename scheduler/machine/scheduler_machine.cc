#include "scheduler/machine/scheduler_machine.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/request_checks.h"

namespace shoal::scheduler {
namespace {

// People's questions are none: they may be asked on this very node.
bool IsSignOfLife(const Request& request) {
  return std::holds_alternative<HeartbeatServer>(request) || std::holds_alternative<HeartbeatWorker>(request) ||
         std::holds_alternative<RegisterServer>(request) || std::holds_alternative<JoinJob>(request);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerMachine>> SchedulerMachine::Make(const Settings& settings,
                                                                         const PersistedState& state, bool is_new,
                                                                         const Now& now) {
  std::unique_ptr<SchedulerMachine> machine(new SchedulerMachine(settings, state, is_new, now));
  absl::StatusOr<ShardMap> map = ShardMap::Make(state.epoch, machine->servers_.LiveShards());
  if (!map.ok()) {
    return absl::DataLossError(absl::StrCat("the saved servers make no shard map: ", map.status().message()));
  }
  machine->map_ = std::make_shared<const ShardMap>(*std::move(map));
  machine->published_ = machine->map_;
  const std::string known = absl::StrCat(machine->servers_.live_count(), " servers and ",
                                         machine->jobs_.live_worker_count(), " workers are known from before");
  machine->Record(now, "scheduler-started", absl::StrCat("cluster ", state.cluster_id), is_new ? "new cluster" : known);
  return machine;
}

SchedulerMachine::SchedulerMachine(const Settings& settings, const PersistedState& state, bool is_new, const Now& now)
    : settings_(settings),
      cluster_id_(state.cluster_id),
      token_key_(state.token_key),
      started_at_unix_ms_(now.unix_ms),
      servers_(settings.lease_ttl_ms * 1'000'000),
      jobs_(settings.lease_ttl_ms * 1'000'000),
      map_(std::make_shared<const ShardMap>()),
      next_group_id_(state.next_group_id),
      changes_(is_new ? 1 : 0) {
  servers_.Restore(now, state.servers, state.next_server_id);
  jobs_.Restore(now, state.jobs, state.next_job_id);
}

std::vector<Action> SchedulerMachine::Step(const Now& now, const SchedulerEvent& event) {
  std::visit([&](const auto& each) { On(now, each); }, event);
  SaveIfChanged(now);
  return TakeActions();
}

std::vector<Action> SchedulerMachine::Tick(const Now& now) {
  if (!RenewLeasesAfterStall(now) && !RenewLeasesWhileCutOff(now)) {
    const std::vector<ServerState> lost = servers_.ExpireLeases(now);
    for (const ServerState& server : lost) {
      Change();
      Record(now, "server-lost", absl::StrCat("server ", server.name), server.reason);
    }
    if (!lost.empty()) RebuildMap(now);
    const std::vector<JobRegistry::Gone> gone = jobs_.ExpireLeases(now);
    for (const JobRegistry::Gone& each : gone) RankIsGone(now, each);
    if (!gone.empty()) RetryHeldJoins(now);
  }
  ReplyNow(rounds_.Expire(now, servers_, jobs_));
  SaveIfChanged(now);
  return TakeActions();
}

uint64_t SchedulerMachine::NextDeadline() const {
  uint64_t deadline = std::min({servers_.next_expiry_ns(), jobs_.next_expiry_ns(), rounds_.next_deadline_ns()});
  if (saved_ < changes_ && !save_under_way_) deadline = std::min(deadline, save_not_before_ns_);
  return deadline;
}

void SchedulerMachine::RenewAllLeases(const Now& now) {
  servers_.RenewAll(now);
  jobs_.RenewAll(now);
}

bool SchedulerMachine::RenewLeasesAfterStall(const Now& now) {
  const uint64_t due_ns = std::min(servers_.next_expiry_ns(), jobs_.next_expiry_ns());
  const uint64_t patience_ns = settings_.lease_ttl_ms * 1'000'000 / 3;
  if (due_ns == kNoDeadline || now.monotonic_ns < due_ns) return false;
  if (save_failed_) {
    // Nobody can be told that he is a member while the store fails, so nobody is lost for not renewing.
    RenewAllLeases(now);
    return true;
  }
  if (now.monotonic_ns < due_ns + patience_ns) return false;
  RenewAllLeases(now);
  Record(now, "scheduler-stalled", absl::StrCat("cluster ", cluster_id_),
         absl::StrCat("the scheduler did not run for ", Seconds(now.monotonic_ns - due_ns),
                      " or more, so that nobody could renew a lease; all leases start anew"));
  return true;
}

// That several nodes fall silent in one moment is far more likely this node's doing than theirs. Members send three
// heartbeats in a lease, so two of them that nobody has sent are enough to tell.
bool SchedulerMachine::IsCutOff(const Now& now) const {
  const uint64_t patience_ns = settings_.lease_ttl_ms * 1'000'000 * 2 / 3;
  // Who waits to take a place over has come through the network after its holder fell silent.
  if (!heard_at_ns_.has_value() || !held_joins_.empty() || now.monotonic_ns < *heard_at_ns_ + patience_ns) return false;
  std::set<std::string> nodes;
  servers_.AddLiveNodes(&nodes);
  jobs_.AddLiveNodes(&nodes);
  return nodes.size() > 1;
}

bool SchedulerMachine::RenewLeasesWhileCutOff(const Now& now) {
  const uint64_t due_ns = std::min(servers_.next_expiry_ns(), jobs_.next_expiry_ns());
  if (due_ns == kNoDeadline || now.monotonic_ns < due_ns || !IsCutOff(now)) return false;
  RenewAllLeases(now);
  if (!std::exchange(cut_off_, true)) {
    Record(now, "scheduler-cut-off", absl::StrCat("cluster ", cluster_id_),
           absl::StrCat("no member on any node was heard for ", Seconds(now.monotonic_ns - *heard_at_ns_),
                        ": this node's network is taken for broken and nobody for lost; see to it"));
  }
  return true;
}

void SchedulerMachine::HeardOfMember(const Now& now) {
  // The others come as soon as they notice that they can, which takes them different times.
  if (IsCutOff(now)) RenewAllLeases(now);
  if (std::exchange(cut_off_, false)) {
    Record(now, "scheduler-reached", absl::StrCat("cluster ", cluster_id_), "members are heard again");
  }
  heard_at_ns_ = now.monotonic_ns;
}

// ---- events ----

void SchedulerMachine::On(const Now& now, const RequestArrived& event) {
  if (IsSignOfLife(event.request)) HeardOfMember(now);
  std::visit([&](const auto& request) { Answer(now, event.handle, request); }, event.request);
}

void SchedulerMachine::On(const Now&, const RequestCancelled& event) {
  rounds_.Forget(event.handle);
  std::erase_if(held_joins_, [&](const HeldJoin& held) { return held.handle == event.handle; });
}

void SchedulerMachine::On(const Now&, const WatchOpened& event) { AfterSave(AddWatcher{event.watcher, event.job}); }

void SchedulerMachine::On(const Now&, const EventsOpened& event) { journal_.Open(event, &actions_); }

void SchedulerMachine::On(const Now&, const StreamClosed& event) {
  watchers_.erase(event.watcher);
  journal_.Close(event.watcher);
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const auto* watcher = std::get_if<AddWatcher>(&waiting.consequence);
    return watcher != nullptr && watcher->watcher == event.watcher;
  });
}

void SchedulerMachine::On(const Now& now, const Persisted& event) {
  save_under_way_ = false;
  if (event.status.ok()) {
    saved_ = std::max(saved_, event.number);
    // Who joined meanwhile hears of it only now: leases count from here.
    if (std::exchange(save_failed_, false)) RenewAllLeases(now);
    ReleaseSaved();
    return;
  }
  save_failed_ = true;
  save_not_before_ns_ = now.monotonic_ns + kSaveRetryNs;
  const std::string reason = absl::StrCat("the state could not be saved: ", event.status.message());
  journal_.Append({.sequence = 0,
                   .at_unix_ms = now.unix_ms,
                   .kind = "save-failed",
                   .subject = settings_.store,
                   .reason = reason,
                   .epoch = published_->epoch()},
                  &actions_);
  // Callers are told now; what they asked for is repeatable, and the changes stay until they are saved.
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const auto* reply = std::get_if<Reply>(&waiting.consequence);
    if (reply == nullptr || waiting.after > event.number) return false;
    ReplyNow(reply->handle, absl::UnavailableError(absl::StrCat(reason, "; mend the store, then try again")));
    return true;
  });
}

// ---- consequences and saving ----

void SchedulerMachine::AfterSave(Consequence consequence) {
  if (saved_ == changes_) {
    Carry(consequence);
  } else {
    waiting_.push_back({changes_, std::move(consequence)});
  }
}

void SchedulerMachine::ReleaseSaved() {
  while (!waiting_.empty() && waiting_.front().after <= saved_) {
    Carry(waiting_.front().consequence);
    waiting_.pop_front();
  }
}

void SchedulerMachine::Carry(const Consequence& consequence) {
  if (const auto* reply = std::get_if<Reply>(&consequence)) {
    actions_.push_back(*reply);
  } else if (const auto* event = std::get_if<EventRecord>(&consequence)) {
    journal_.Append(*event, &actions_);
  } else if (const auto* map = std::get_if<PublishMap>(&consequence)) {
    published_ = map->map;
    for (const auto& [watcher, job] : watchers_) actions_.push_back(SendWatch{.watcher = watcher, .map = map->map});
  } else if (const auto* lost = std::get_if<PublishLost>(&consequence)) {
    for (const auto& [watcher, job] : watchers_) {
      if (job == lost->lost.job) actions_.push_back(SendWatch{.watcher = watcher, .lost_ranks = {lost->lost}});
    }
  } else if (const auto* moved = std::get_if<PublishGroupMap>(&consequence)) {
    for (const auto& [watcher, job] : watchers_) {
      if (job == moved->job) actions_.push_back(SendWatch{.watcher = watcher, .groups = {moved->group}});
    }
  } else if (const auto* wanted = std::get_if<PublishColocationRequest>(&consequence)) {
    for (const auto& [watcher, job] : watchers_) {
      if (job == wanted->job) actions_.push_back(SendWatch{.watcher = watcher, .colocation = wanted->request});
    }
  } else if (const auto* added = std::get_if<AddWatcher>(&consequence)) {
    if (saved_ != changes_) {
      // It is told the present state, which is not all saved yet.
      waiting_.push_back({changes_, *added});
      return;
    }
    const Job* job = jobs_.Find(added->job);
    if (job == nullptr && added->job.value() != 0) {
      actions_.push_back(CloseStream{added->watcher, absl::NotFoundError(absl::StrCat(
                                                         "no job has id ", added->job.value(), " here; join first"))});
      return;
    }
    watchers_[added->watcher] = added->job;
    actions_.push_back(SendWatch{added->watcher, published_,
                                 job == nullptr ? std::vector<RankLost>() : job->LostRanks(),
                                 job == nullptr ? std::vector<GroupMap>() : job->GroupMaps(),
                                 job == nullptr ? std::nullopt : ColocationWanted(*job)});
  }
}

void SchedulerMachine::ReplyNow(RequestHandle handle, absl::StatusOr<Response> response) {
  actions_.push_back(Reply{handle, std::move(response)});
}

void SchedulerMachine::ReplyNow(const std::vector<GroupRounds::Failure>& failures) {
  for (const GroupRounds::Failure& failure : failures) ReplyNow(failure.handle, failure.status);
}

void SchedulerMachine::Record(const Now& now, const std::string& kind, const std::string& subject,
                              const std::string& reason) {
  EventRecord event;
  event.at_unix_ms = now.unix_ms;
  event.kind = kind;
  event.subject = subject;
  event.reason = reason;
  event.epoch = map_->epoch();
  AfterSave(std::move(event));
}

void SchedulerMachine::SaveIfChanged(const Now& now) {
  if (saved_ == changes_ || save_under_way_ || now.monotonic_ns < save_not_before_ns_) return;
  save_under_way_ = true;
  actions_.push_back(Persist{changes_, Snapshot()});
}

PersistedState SchedulerMachine::Snapshot() const {
  return {.cluster_id = cluster_id_,
          .token_key = token_key_,
          .epoch = map_->epoch(),
          .next_server_id = servers_.next_server_id(),
          .next_job_id = jobs_.next_job_id(),
          .next_group_id = next_group_id_,
          .servers = servers_.States(),
          .jobs = jobs_.States()};
}

std::vector<Action> SchedulerMachine::TakeActions() { return std::exchange(actions_, {}); }

}  // namespace shoal::scheduler
