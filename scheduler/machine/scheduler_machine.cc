#include "scheduler/machine/scheduler_machine.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/colocation_request.h"

namespace shoal::scheduler {
namespace {

// Queries of operators are none: they may be asked on this very node.
bool IsSignOfLife(const Request& request) {
  return std::holds_alternative<HeartbeatServer>(request) || std::holds_alternative<HeartbeatWorker>(request) ||
         std::holds_alternative<RegisterServer>(request) || std::holds_alternative<JoinJob>(request);
}

JobRegistry RestoredJobs(uint64_t lease_ttl_ns, const PersistedState& state, Now now) {
  JobRegistry jobs(lease_ttl_ns);
  jobs.Restore(state.jobs, state.next_job_id, now);
  return jobs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SchedulerMachine>> SchedulerMachine::Make(const Settings& settings,
                                                                         const PersistedState& state, bool is_new,
                                                                         Now now) {
  ServerRegistry servers(settings.lease_ttl_ms * kNsPerMs);
  servers.Restore(state.servers, state.next_server_id, now);
  absl::StatusOr<ShardMap> map = ShardMap::Make(state.epoch, servers.LiveShards());
  if (!map.ok()) {
    return absl::DataLossError(absl::StrCat("the saved servers make no shard map: ", map.status().message()));
  }
  return std::unique_ptr<SchedulerMachine>(new SchedulerMachine(
      settings, state, std::move(servers), std::make_shared<const ShardMap>(*std::move(map)), is_new, now));
}

SchedulerMachine::SchedulerMachine(const Settings& settings, const PersistedState& state, ServerRegistry servers,
                                   std::shared_ptr<const ShardMap> map, bool is_new, Now now)
    : settings_(settings),
      cluster_id_(state.cluster_id),
      token_key_(state.token_key),
      started_at_unix_ms_(now.unix_ms),
      servers_(std::move(servers)),
      jobs_(RestoredJobs(lease_ttl_ns(), state, now)),
      decisions_(settings.store, std::move(map), state.reserved_event_numbers, is_new),
      lease_grace_(cluster_id_, lease_ttl_ns(), &servers_, &jobs_, &decisions_, now),
      group_ends_(&jobs_, &decisions_),
      group_moves_(lease_ttl_ns(), token_key_, &servers_, &jobs_, &group_ends_, &decisions_, now),
      group_opener_({cluster_id_, token_key_, settings.port_buffer_bytes}, state.next_group_id, &servers_, &jobs_,
                    &group_ends_, &decisions_),
      group_requests_(&servers_, &jobs_, &group_opener_, &group_ends_, &group_moves_, &decisions_),
      server_members_({settings.lease_ttl_ms, settings.is_colocated, token_key_, settings.encrypt}, &servers_, &jobs_,
                      &group_moves_, &group_requests_, &decisions_),
      rank_members_({settings.lease_ttl_ms, token_key_, settings.encrypt}, &servers_, &jobs_, &group_ends_,
                    &group_moves_, &group_requests_, &decisions_) {
  const std::string known = absl::StrCat(servers_.live_count(), " servers and ", jobs_.live_worker_count(),
                                         " workers are known from the saved state");
  decisions_.Record(EventKind::kSchedulerStarted, absl::StrCat("cluster ", cluster_id_), is_new ? "new cluster" : known,
                    now);
}

void SchedulerMachine::Tick(Now now, SchedulerActions* actions) {
  const LeaseGrace::RunOut run_out = lease_grace_.Judge(rank_members_.AnyAwaited(), now);
  if (run_out != LeaseGrace::RunOut::kNobodys) server_members_.Tick(now);
  if (run_out == LeaseGrace::RunOut::kEverybodys) rank_members_.Tick(now);
  group_moves_.Tick(now);
  group_requests_.Tick(now);
  HandOut(now, actions);
}

uint64_t SchedulerMachine::NextDeadlineNs() const {
  return std::min({servers_.next_expiry_ns(), rank_members_.NextDeadlineNs(), group_requests_.NextDeadlineNs(),
                   decisions_.NextSaveNs(), group_moves_.NextDeadlineNs()});
}

// ---- events ----

void SchedulerMachine::OnEvent(const RequestArrived& event, Now now, SchedulerActions* actions) {
  if (IsSignOfLife(event.request)) lease_grace_.OnMemberHeard(rank_members_.AnyAwaited(), now);
  std::visit(
      [&]<typename Asked>(const Asked& request) {
        if constexpr (requires { server_members_.Answer(event.handle, request, now); }) {
          server_members_.Answer(event.handle, request, now);
        } else if constexpr (requires { rank_members_.Answer(event.handle, request, now); }) {
          rank_members_.Answer(event.handle, request, now);
        } else if constexpr (requires { group_requests_.Answer(event.handle, request, now); }) {
          group_requests_.Answer(event.handle, request, now);
        } else if constexpr (requires { group_moves_.Answer(event.handle, request, now); }) {
          group_moves_.Answer(event.handle, request, now);
        } else if constexpr (std::is_same_v<Asked, GetShardMap>) {
          decisions_.AnswerNow(event.handle, decisions_.published());
        } else {
          static_assert(std::is_same_v<Asked, Inquiry>);  // the insight machine answers
        }
      },
      event.request);
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const RequestCancelled& event, Now now, SchedulerActions* actions) {
  group_requests_.Forget(event.handle);
  rank_members_.Forget(event.handle);
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const WatchOpened& event, Now now, SchedulerActions* actions) {
  const Job* const job = jobs_.Find(event.job);
  if (job == nullptr && event.job != JobId()) {
    decisions_.AtOnce(CloseStream{event.watcher, absl::NotFoundError(absl::StrCat("no job has id ", event.job.value(),
                                                                                  " here; join the job first"))});
    return HandOut(now, actions);
  }
  jobs_.OnStreamOpened(event);
  // The present state, told once it is saved. What changes from now on is told after it.
  SendWatch first{.watcher = event.watcher, .map = decisions_.map()};
  if (job != nullptr) {
    first.lost_ranks = job->LostRanks();
    first.groups = job->groups.Maps();
    first.colocation = FindColocationRequest(*job, servers_);
  }
  decisions_.AfterSave(AddWatcher{event.watcher, event.job, std::move(first)});
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const StreamClosed& event, Now now, SchedulerActions* actions) {
  jobs_.OnStreamClosed(event.watcher, now);
  decisions_.ForgetWatcher(event.watcher);
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const Persisted& event, Now now, SchedulerActions* actions) {
  if (event.status.ok()) {
    const Decisions::Saved saved = decisions_.OnSaved(event, now);
    // Nobody could renew a lease for certain while the store failed.
    if (saved.again) {
      servers_.RenewAll(now);
      jobs_.RenewLeases(/*ends_processes=*/true, now);
    }
    for (const LeaseBegins& lease : saved.leases) {
      if (const auto* of_rank = std::get_if<BeginRankLease>(&lease)) {
        jobs_.BeginLease(of_rank->job, of_rank->rank, of_rank->incarnation, now);
      }
      if (const auto* of_server = std::get_if<BeginServerLease>(&lease)) {
        servers_.BeginLease(of_server->server, of_server->incarnation, now);
      }
    }
  } else {
    decisions_.OnSaveFailed(event, now);
    servers_.OnSaveFailed(now);
  }
  HandOut(now, actions);
}

void SchedulerMachine::OnEvent(const Observed& event, Now now, SchedulerActions* actions) {
  if (event.call != nullptr) {
    decisions_.RecordCall(event, now);
  } else {
    decisions_.Record(event.kind, event.subject, event.reason, now, event.ids);
  }
  HandOut(now, actions);
}

PersistedState SchedulerMachine::Snapshot() const {
  return {.cluster_id = cluster_id_,
          .token_key = token_key_,
          .epoch = decisions_.map()->epoch(),
          .next_server_id = servers_.next_server_id(),
          .next_job_id = jobs_.next_job_id(),
          .next_group_id = group_opener_.next_group_id(),
          .reserved_event_numbers = decisions_.reserved_event_numbers(),
          .servers = servers_.States(),
          .jobs = jobs_.States()};
}

void SchedulerMachine::HandOut(Now now, SchedulerActions* actions) {
  if (const std::optional<uint64_t> number = decisions_.BeginSave(now)) {
    decisions_.AtOnce(Persist{*number, Snapshot()});
  }
  decisions_.HandOut(actions);
}

// ---- for those who look on ----

ClusterView SchedulerMachine::Cluster(Now now) const {
  return ClusterView{.cluster_id = cluster_id_,
                     .epoch = decisions_.published()->epoch(),
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
                     .moves = group_moves_.numbers(),
                     .saves = decisions_.save_numbers(),
                     .refused_servers = server_members_.Refused(now),
                     .save_failure = decisions_.save_trouble().reason(),
                     .saves_fail_since_unix_ms = decisions_.save_trouble().since_unix_ms(),
                     .open_to_network = settings_.open_to_network};
}

}  // namespace shoal::scheduler
