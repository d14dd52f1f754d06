#include "sim/cluster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/failure_detection.h"
#include "core/log_event.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kStartSpreadNs = 20 * kNsPerMs;       // start order never matters
constexpr uint64_t kNewcomersWithinNs = 400 * kNsPerMs;  // of a short run
constexpr uint64_t kTendEveryNs = 20 * kNsPerMs;
constexpr uint32_t kLargeJobRanks = 16;
constexpr uint64_t kRegisteredPollNs = kNsPerMs;
constexpr uint64_t kSettleNs = 10 * kNsPerS;
constexpr uint64_t kSettleAfterSilenceNs = 30 * kNsPerS;
constexpr uint64_t kSlackNs = 500 * kNsPerMs;  // for what is under way, at the latencies that are drawn

}  // namespace

uint64_t Cluster::HealingNs(const Profile& profile) {
  const uint64_t lease_ns = profile.lease_ttl_ms * kNsPerMs;
  return lease_ns + lease_ns * profile.clock_drift_per_million / 500'000 + kNsPerS + kSlackNs;
}

Cluster::Cluster(const Profile& profile, size_t trace_lines)
    : profile_(profile),
      world_(profile.seed),
      fault_log_(HealingNs(profile)),
      checkers_(
          &world_, [this](uint32_t run) { return LastFaultEndedNs(run); }, HealingNs(profile)),
      roster_checks_({.world = &world_,
                      .fail = [this](const std::string& what) { checkers_.Fail(what); },
                      .last_fault_ended_ns = [this](uint32_t run) { return LastFaultEndedNs(run); },
                      .may_say =
                          [this](uint32_t run, const std::string& text) {
                            return checkers_.MaySay(run, text) || checkers_.IsExcused(ExcusableCheck::kIsolation, run);
                          },
                      .may_take_long =
                          [this](uint32_t run) {
                            return checkers_.IsExcused(ExcusableCheck::kHealing, run) ||
                                   checkers_.IsExcused(ExcusableCheck::kLostRank, run);
                          }},
                     HealingNs(profile)),
      scheduler_audit_(
          &fault_log_, [this](const std::string& what) { checkers_.Fail(what); },
          [this](uint32_t run) { checkers_.Excuse(ExcusableCheck::kUntouched, run); }),
      audit_([this](const std::string& what) { checkers_.Fail(what); }),
      network_(&world_, profile_.network, &audit_),
      control_(&world_, profile_.network.latency_ns),
      disk_(&world_) {
  world_.KeepText(trace_lines);
  if (profile_.arena_bytes > 0) same_node_ = std::make_unique<SameNode>(&world_, profile_.arena_bytes);
  checkers_.SetOnGroupFailed([this](uint32_t run, const std::string& group) { GroupIsGivenUp(run, group); });
  disk_.SetOnSave([this] { scheduler_audit_.OnSave(); });
  control_.SetOnUnanswered([this] { fault_log_.Noticed(kScheduler); });
  network_.SetOnBroken([this](const std::string& node, const std::string& other) {
    fault_log_.Noticed(absl::StrCat(node, " ", other));
  });
}

void Cluster::Start() {
  Random& random = world_.random();
  if (profile_.leader_lease_ms == 0) {
    world_.After(random.Below(kStartSpreadNs), [this] { StartScheduler(); });
    followers_.resize(profile_.schedulers - 1);
  } else {
    candidates_.resize(profile_.schedulers);
  }
  for (size_t i = 0; i < candidates_.size(); ++i) {
    world_.After(random.Below(kStartSpreadNs), [this, i] { StartCandidate(i); });
  }
  for (size_t i = 0; i < followers_.size(); ++i) {
    world_.After(random.Below(kStartSpreadNs), [this, i] { StartFollower(i); });
  }
  for (uint32_t i = 0; i < profile_.servers; ++i) {
    const std::string name = absl::StrCat("server-", i);
    const bool small = i % 2 == 1 && profile_.small_slot_memory_bytes > 0;
    const uint64_t memory_bytes = small ? profile_.small_slot_memory_bytes : profile_.slot_memory_bytes;
    servers_.push_back(
        {.place = {.name = name, .node = name, .slot_memory_bytes = memory_bytes}, .process = nullptr, .worker = ""});
    world_.After(random.Below(kStartSpreadNs), [this, i] { StartServer(i); });
  }
  for (size_t job = 0; job < profile_.jobs.size(); ++job) {
    StartRun(absl::StrCat("job-", job), profile_.jobs[job], profile_.jobs[job].start_ns);
  }
  for (const Fault& fault : profile_.faults) {
    if (MakesForgetful(fault.kind)) checkers_.SchedulerForgets();
    world_.At(fault.at_ns, [this, fault] { Happen(fault); });
  }
  world_.After(kTendEveryNs, [this] { Tend(); });
}

void Cluster::StartScheduler() {
  if (scheduler_ != nullptr) return;
  scheduler_ = std::make_unique<SchedulerProcess>(&world_, profile_, &control_, &disk_, TakeSchedulerEvents());
}

SchedulerProcess::OnEvent Cluster::TakeSchedulerEvents() {
  return [this](const scheduler::EventRecord& event) {
    scheduler_audit_.OnEvent(event, world_.now_ns());
    if (EventKey(event.kind).ends_with("-lost")) fault_log_.Noticed(absl::StrCat(event.subject, " ", event.reason));
  };
}

void Cluster::StartCandidate(size_t index) {
  if (candidates_[index] != nullptr) return;
  candidates_[index] = std::make_unique<SimCandidate>(
      &world_, profile_, index + 1, &control_, &disk_,
      [this, index](SchedulerProcess::Lead lead) { return StartTerm(index, std::move(lead)); },
      [this](uint64_t number) {
        const std::unique_ptr<SimCandidate>& leader = candidates_[number - 1];
        return leader == nullptr ? 0 : leader->host_number();
      });
}

std::unique_ptr<SchedulerProcess> Cluster::StartTerm(size_t index, SchedulerProcess::Lead lead) {
  ++terms_;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    // One that stood still while it was elected finds its term over as it begins.
    if (!candidates_[index]->HoldsLead() || i == index) continue;
    if (candidates_[i] == nullptr || !candidates_[i]->MayAnswer()) continue;
    checkers_.Fail(absl::StrCat(candidates_[index]->name(), " leads, and ", candidates_[i]->name(),
                                " has not stopped (one leader)"));
  }
  return std::make_unique<SchedulerProcess>(&world_, profile_, &control_, &disk_, TakeSchedulerEvents(),
                                            std::move(lead));
}

bool Cluster::SomebodyLeads() const {
  return scheduler_ != nullptr || std::ranges::any_of(candidates_, [](const std::unique_ptr<SimCandidate>& each) {
           return each != nullptr && each->MayAnswer();
         });
}

bool Cluster::LeadIsSettled() const {
  uint64_t leader = 0;
  for (const std::unique_ptr<SimCandidate>& each : candidates_) {
    if (each != nullptr && each->MayAnswer()) leader = each->host_number();
  }
  return leader != 0 && std::ranges::all_of(candidates_, [&](const std::unique_ptr<SimCandidate>& each) {
           return each == nullptr || each->IsSettledOn(leader);
         });
}

void Cluster::StartFollower(size_t index) {
  if (followers_[index] != nullptr) return;
  followers_[index] = std::make_unique<SimFollower>(&control_, profile_.lease_ttl_ms * kNsPerMs);
}

void Cluster::StartServer(size_t index) {
  Server& server = servers_[index];
  scheduler_audit_.ProcessStarted();
  server.drain_asked = false;
  server.process = std::make_unique<ServerProcess>(&world_, profile_, server.place, &network_, same_node_.get(),
                                                   &control_, &checkers_);
  uint64_t shards = 0;
  for (const Server& each : servers_) shards += each.process == nullptr ? 0 : each.process->addresses().size();
  most_shards_ = std::max(most_shards_, shards);
}

void Cluster::StartRun(const std::string& job_name, const JobProfile& job, uint64_t after_ns) {
  const uint32_t run = runs_++;
  if (job.ranks >= kLargeJobRanks) ++large_jobs_;
  const auto has_begun = [this](FaultKind kind) { return faults_[static_cast<size_t>(kind)] > 0; };
  const bool stale_leader = has_begun(FaultKind::kStaleLeader);
  if (stale_leader) checkers_.Excuse(ExcusableCheck::kIsolation, run);
  if (stale_leader || has_begun(FaultKind::kSchedulerAmnesia)) checkers_.Excuse(ExcusableCheck::kHealing, run);
  if (job.is_open()) {
    rendezvous_.try_emplace(run, &world_, job.meetings, job.until_ns, 2 * LeaseRunsOutNs() + kNsPerS);
  }
  for (uint32_t rank = 0; rank < job.ranks + job.newcomers; ++rank) {
    const std::string node = job.nodes.shares_nodes()
                                 ? absl::StrCat("run-", run, "-node-", job.nodes.NodeOf(rank, job.ranks))
                                 : absl::StrCat("run-", run, "-rank-", rank);
    workers_.push_back(
        {.place = {.run = run, .job_name = job_name, .job = job, .rank = rank, .node = node}, .process = nullptr});
    const size_t index = workers_.size() - 1;
    uint64_t late_ns = rank == 0 ? job.first_rank_late_ns : 0;
    if (rank >= job.ranks) late_ns = world_.random().Below(job.until_ns > 0 ? job.until_ns : kNewcomersWithinNs);
    world_.After(after_ns + late_ns + world_.random().Below(kStartSpreadNs), [this, index] { StartWorker(index); });
  }
}

void Cluster::StartWorker(size_t index) {
  Worker& worker = workers_[index];
  if (worker.started) return;  // its job was started again before it came
  worker.started = true;
  if (world_.now_ns() < joins_excused_until_ns_) checkers_.Excuse(ExcusableCheck::kIsolation, worker.place.run);
  const JobProfile& shape = worker.place.job;
  const auto rendezvous = rendezvous_.find(worker.place.run);
  if (rendezvous != rendezvous_.end()) {
    rendezvous->second.Come(absl::StrCat("run-", worker.place.run, "-rank-", worker.place.rank));
  }
  scheduler_audit_.RankStarted(worker.place.run, worker.place.job_name,
                               absl::StrCat("run-", worker.place.run, "-rank-", worker.place.rank), worker.place.node,
                               shape.has_colocated_servers || shape.colocates_without_servers);
  worker.process = std::make_unique<WorkerProcess>(
      &world_, profile_, worker.place,
      WorkerProcess::Ports{.network = &network_,
                           .same_node = same_node_.get(),
                           .local_node = shape.nodes.shares_nodes() ? LocalNode(worker.place.node) : nullptr,
                           .control = &control_,
                           .checkers = &checkers_,
                           .roster_checks = &roster_checks_,
                           .rendezvous = rendezvous == rendezvous_.end() ? nullptr : &rendezvous->second,
                           .audit = &audit_,
                           .schedule = &schedule_,
                           .fault_log = &fault_log_},
      [this, index](JobId job, uint64_t timeout_ms) { StartColocatedServer(index, job, timeout_ms); });
}

SimLocalNode* Cluster::LocalNode(const std::string& node) {
  std::unique_ptr<SimLocalNode>& found = local_nodes_[node];
  if (found == nullptr) found = std::make_unique<SimLocalNode>(&world_, profile_.node_delay_ns);
  return found.get();
}

void Cluster::StartColocatedServer(size_t worker, JobId job, uint64_t timeout_ms) {
  const std::string& process = workers_[worker].process->name();
  servers_.push_back({.place = {.name = absl::StrCat(process, "-server"),
                                .node = workers_[worker].place.node,
                                .slot_memory_bytes = profile_.slot_memory_bytes,
                                .job = job},
                      .process = nullptr,
                      .worker = process});
  StartServer(servers_.size() - 1);
  WaitForColocatedServer(worker, servers_.size() - 1, world_.now_ns() + timeout_ms * kNsPerMs);
}

void Cluster::WaitForColocatedServer(size_t worker, size_t server, uint64_t until_ns) {
  WorkerProcess* const rank = workers_[worker].process.get();
  ServerProcess* const colocated = servers_[server].process.get();
  if (rank == nullptr || colocated == nullptr) return;  // the process died, or has ended its server
  if (colocated->registered()) return rank->ColocatedServerStarted(absl::OkStatus());
  if (world_.now_ns() < until_ns) {
    return world_.After(kRegisteredPollNs, [=, this] { WaitForColocatedServer(worker, server, until_ns); });
  }
  EndUnheard(&servers_[server]);
  rank->ColocatedServerStarted(absl::DeadlineExceededError("the colocated server was not registered in time"));
}

void Cluster::KillServer(Server* server, bool silently) {
  const std::vector<std::string>& addresses = server->process->addresses();
  const bool gathers = std::any_of(addresses.begin(), addresses.end(),
                                   [this](const std::string& address) { return audit_.GathersAfterMove(address); });
  if (gathers) ++deaths_while_gathering_;
  if (silently) server->process->FallSilent();
  server->process.reset();
}

void Cluster::EndUnheard(Server* server) {
  scheduler_audit_.EndedUnheard(server->place.name);
  server->process.reset();
}

void Cluster::KillWorker(Worker* worker, bool silently) {
  if (worker->process->HasChunkGatheringAfterMove()) ++deaths_while_gathering_;
  for (Server& server : servers_) {
    if (server.process == nullptr || server.worker != worker->process->name()) continue;
    KillServer(&server, silently);
  }
  if (HostsScheduler(worker->place) && scheduler_ != nullptr) {
    ++hosted_schedulers_ended_;
    news_lost_ = NewsIsHeld();
    checkers_.SchedulerEnded(world_.now_ns() + LeaseRunsOutNs() + kServerNoticesWithinNs + kNsPerS);
    scheduler_.reset();
    ExcuseRunsFromHealing();
  }
  const std::string name = worker->process->name();
  if (silently) worker->process->FallSilent();
  worker->process.reset();
  if (!silently) control_.CallerEnded(name);
}

bool Cluster::OneOfMany() const {
  return std::count_if(servers_.begin(), servers_.end(), [this](const Server& server) {
           return IsDedicated(server) && server.process != nullptr && !server.process->draining() &&
                  !server.drain_asked;
         }) > 1;
}

void Cluster::Tend() {
  for (Server& server : servers_) {
    if (server.process == nullptr) continue;
    if (server.process->drained()) {
      if (server.process->left_untold()) scheduler_audit_.EndedUnheard(server.place.name);
      server.process.reset();
      continue;
    }
    const bool rank_has_ended =
        !IsDedicated(server) && std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
          return worker.process != nullptr && worker.process->finished() && worker.process->name() == server.worker;
        });
    if (rank_has_ended && !server.process->draining()) {
      server.process->Drain();
      if (!server.process->draining()) EndUnheard(&server);  // it was never registered
    }
  }
  TendRollingRestart();
  if (!candidates_.empty() && !LeadIsSettled()) fault_log_.GoesOn(world_.now_ns());
  // A store that works again is found to do so when the save is repeated; leases start anew then (F12).
  if (disk_.has_unsaved()) {
    fault_log_.Noticed(kStore);
    fault_log_.GoesOn(world_.now_ns());
  }
  CheckRetained();
  world_.After(kTendEveryNs, [this] { Tend(); });
}

void Cluster::TendRollingRestart() {
  if (AllWorkersEnded()) rolling_.clear();
  if (rolling_.empty()) return;
  fault_log_.GoesOn(world_.now_ns());
  Server& server = servers_[rolling_.front()];
  if (rolling_restarted_) {
    if (server.process != nullptr && !server.process->registered()) return;
    rolling_restarted_ = false;
    rolling_.pop_front();
    return;
  }
  if (server.process == nullptr) {
    rolling_restarted_ = true;
    return StartServer(rolling_.front());
  }
  if (server.process->draining()) return;
  if (OneOfMany()) server.process->Drain();
  if (!server.process->draining()) rolling_.pop_front();
}

bool Cluster::AllWorkersEnded() const {
  return restarts_due_ == 0 && std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
           return worker.started && (worker.process == nullptr || worker.process->finished());
         });
}

// What hits ranks of other jobs is no excuse, unless their memory on a server that has too little comes free late.
uint64_t Cluster::LastFaultEndedNs(uint32_t run) const {
  if (profile_.lacks_memory()) return fault_log_.last_end_ns();
  const auto job_of = [this](uint32_t each) -> const std::string& {
    return std::ranges::find_if(workers_, [each](const Worker& worker) { return worker.place.run == each; })
        ->place.job_name;
  };
  const std::string& job = job_of(run);
  return fault_log_.LastEndNs([&](const std::string& victim) {
    uint32_t other = 0;
    const std::vector<std::string> words = absl::StrSplit(victim, '-');
    return words.size() > 2 && words[0] == "run" && absl::SimpleAtoi(words[1], &other) && other < runs_ &&
           job_of(other) != job;
  });
}

uint64_t Cluster::meetings_held() const {
  uint64_t held = 0;
  for (const auto& [run, rendezvous] : rendezvous_) held += rendezvous.held();
  return held;
}

NodeStageCounts Cluster::node_deaths() const {
  NodeStageCounts sum = {};
  for (const auto& [name, node] : local_nodes_) {
    for (size_t stage = 0; stage < kNodeStages; ++stage) sum[stage] += node->deaths()[stage];
  }
  return sum;
}

uint64_t Cluster::SettledByNs() const {
  const bool silence = faults_[static_cast<size_t>(FaultKind::kWorkerSilent)] > 0;
  return std::max(world_.now_ns(), fault_log_.last_end_ns()) + (silence ? kSettleAfterSilenceNs : kSettleNs);
}

}  // namespace shoal::sim
