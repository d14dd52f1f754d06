// The part of Cluster that lets faults happen.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "sim/cluster.h"

namespace shoal::sim {
namespace {

// After which a fault that found nothing to hit is tried again.
constexpr uint64_t kTryAgainNs = 100 * kNsPerMs;

constexpr uint64_t kOperatorTimeoutNs = kNsPerS;

// Targets of drains are told apart by this: a server ends at a signal, or an operator asks the scheduler.
constexpr uint32_t kTellsDrains = 256;

// Payloads that one corruption changes.
constexpr uint32_t kMostChanges = 4;

// A failed op waits that much longer for a peer whose network is gone to let its memory go.
bool IsSilent(FaultKind kind) { return kind == FaultKind::kServerSilent || kind == FaultKind::kWorkerSilent; }

}  // namespace

Cluster::Worker* Cluster::PickWorker(uint32_t target) {
  if (workers_.empty()) return nullptr;  // all has ended
  Worker& worker = workers_[target % workers_.size()];
  return worker.process == nullptr || worker.process->finished() ? nullptr : &worker;
}

// Where its target is not there, the next one is hit that is.
void Cluster::Happen(const Fault& fault) {
  world_.TraceText("fault: ", std::string(FaultName(fault.kind)), " ", fault.target);
  const uint64_t end_ns = world_.now_ns() + fault.duration_ns;
  const auto targets = static_cast<uint32_t>(servers_.size() + workers_.size());
  for (uint32_t i = 0; i < targets; ++i) {
    Fault next = fault;
    next.target += i;
    victims_.clear();
    if (!Hit(next, end_ns)) continue;
    ++faults_[static_cast<size_t>(fault.kind)];
    return fault_log_.Begin(fault.kind, victims_, world_.now_ns(), end_ns);
  }
  // What it is to hit may be away: it happens when that is back. (In a short run all is over by then.)
  if (profile_.jobs[0].until_ns > 0 && !AllWorkersEnded()) world_.After(kTryAgainNs, [this, fault] { Happen(fault); });
}

bool Cluster::Hit(const Fault& fault, uint64_t end_ns) {
  return HitNetwork(fault, end_ns) || HitNodes(fault, end_ns) || HitScheduler(fault, end_ns) ||
         HitServer(fault, end_ns) || HitWorker(fault, end_ns);
}

bool Cluster::HitNetwork(const Fault& fault, uint64_t end_ns) {
  const std::unique_ptr<ServerProcess>& server = servers_[fault.target % servers_.size()].process;
  const Worker* const worker = PickWorker(fault.target / 2);
  const std::string worker_node = worker == nullptr ? "" : worker->place.node;
  switch (fault.kind) {
    case FaultKind::kClog:
      if (worker == nullptr) return false;
      AddVictims(worker_node);
      network_.Cut(worker_node, server != nullptr && fault.target % 2 == 0 ? server->addresses().front() : "",
                   /*one_way=*/false, end_ns);
      return true;
    case FaultKind::kOneWay:
    case FaultKind::kPathCut: {
      if (server == nullptr || worker == nullptr) return false;
      AddVictims(worker_node);
      victims_.push_back(server->name());
      const std::string& address = server->addresses().back();
      const bool from_worker = fault.target % 2 == 0;
      network_.Cut(from_worker ? worker_node : address, from_worker ? address : worker_node,
                   fault.kind == FaultKind::kOneWay, end_ns);
      return true;
    }
    case FaultKind::kRankDataCut:
      if (worker == nullptr) return false;
      AddVictims(worker_node);
      network_.Cut(worker_node, "", /*one_way=*/false, end_ns);
      return true;
    case FaultKind::kReset:
      victims_ = network_.ResetRandomConnection();
      return !victims_.empty();
    case FaultKind::kCorruption:
      for (const Worker& each : workers_) {
        if (each.place.job.checksums && each.process != nullptr && !each.process->finished()) {
          AddVictims(each.place.node);
        }
      }
      if (victims_.empty() || !network_.Corrupt(1 + fault.target % kMostChanges, end_ns)) return false;
      victims_.emplace_back(kPayloads);
      return true;
    case FaultKind::kRogueClient: {
      if (server == nullptr) return false;
      rogues_.push_back(
          std::make_unique<RogueProcess>(&world_, profile_, &network_, &audit_, server->addresses().back()));
      world_.At(end_ns, [this, index = rogues_.size() - 1] {
        if (index < rogues_.size()) rogues_[index].reset();
      });
      return true;
    }
    default:
      return false;
  }
}

// Whether the scheduler counts those as lost who are silent from now on until then: it gives them time that it was away
// for itself.
bool Cluster::TakesLeases(uint64_t end_ns) const {
  const uint64_t lease_ns = LeaseRunsOutNs();
  return end_ns - world_.now_ns() > lease_ns && std::ranges::none_of(profile_.faults, [&](const Fault& fault) {
           return HitsScheduler(fault) && fault.at_ns < end_ns &&
                  fault.at_ns + fault.duration_ns + LeadIsBackNs(fault) + lease_ns > world_.now_ns();
         });
}

bool Cluster::HitNodes(const Fault& fault, uint64_t end_ns) {
  if (fault.kind == FaultKind::kWorkerNodeCut) {
    const Worker* const worker = PickWorker(fault.target);
    if (worker == nullptr) return false;
    for (const Worker* const each : WorkersOn(worker->place.node)) {
      MayFailFor(each->place);
      each->process->NoteHit();
      if (TakesLeases(end_ns) && each->process->joined()) RankDies(*each, /*connections_closed=*/false);
    }
    CutNode(worker->place.node, end_ns);
    return true;
  }
  const Server& server = servers_[fault.target % servers_.size()];
  if (fault.kind == FaultKind::kServerNodeCut) {
    if (server.process == nullptr || !IsDedicated(server)) return false;
    CutNode(server.place.node, end_ns);
    return true;
  }
  if (fault.kind != FaultKind::kEveryServerCut) return false;
  for (const Server& each : servers_) {
    if (each.process != nullptr && IsDedicated(each)) CutNode(each.place.node, end_ns);
  }
  return !victims_.empty();
}

void Cluster::CutNode(const std::string& node, uint64_t end_ns) {
  network_.Cut(node, "", /*one_way=*/false, end_ns);
  AddVictims(node);
  for (const std::string& process : victims_) {
    control_.Cut(process, /*from_caller=*/true, end_ns);
    control_.Cut(process, /*from_caller=*/false, end_ns);
  }
}

void Cluster::AddVictims(const std::string& node) {
  for (const Worker* const worker : WorkersOn(node)) victims_.push_back(worker->process->name());
  for (const Server& server : servers_) {
    if (server.process != nullptr && server.place.node == node) victims_.push_back(server.place.name);
  }
}

std::vector<Cluster::Worker*> Cluster::WorkersOn(const std::string& node) {
  std::vector<Worker*> found;
  for (Worker& worker : workers_) {
    if (worker.place.node == node && worker.process != nullptr && !worker.process->finished()) found.push_back(&worker);
  }
  return found;
}

void Cluster::MayFailFor(const WorkerProcess::Place& place) {
  for (const std::string& name : place.Names()) checkers_.MayFailFor(place.run, name);
}

void Cluster::PowerIsCut(const std::string& node) {
  victims_.clear();
  for (Worker* const worker : WorkersOn(node)) {
    victims_.push_back(worker->process->name());
    MayFailFor(worker->place);
    RankDies(*worker, /*connections_closed=*/false);
    KillWorker(worker, /*silently=*/true);
  }
}

bool Cluster::HitServer(const Fault& fault, uint64_t end_ns) {
  victims_.clear();
  const size_t index = fault.target % servers_.size();
  Server& server = servers_[index];
  if (fault.kind == FaultKind::kServerAdd) {
    const std::string name = absl::StrCat("server-", servers_.size());
    const uint64_t memory_bytes =
        profile_.added_slot_memory_bytes > 0 ? profile_.added_slot_memory_bytes : profile_.slot_memory_bytes;
    servers_.push_back(
        {.place = {.name = name, .node = name, .slot_memory_bytes = memory_bytes}, .process = nullptr, .worker = ""});
    StartServer(servers_.size() - 1);
    victims_ = {name};
    return true;
  }
  if (fault.kind == FaultKind::kEveryServerCrash) return CrashEveryServer(end_ns);
  if (fault.kind == FaultKind::kRollingRestart) {
    if (!rolling_.empty() || !OneOfMany()) return false;
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i].process == nullptr || !IsDedicated(servers_[i])) continue;
      rolling_.push_back(i);
      victims_.push_back(servers_[i].place.name);
    }
    return true;
  }
  if (server.process == nullptr || server.process->draining()) return false;
  victims_ = {server.place.name};
  switch (fault.kind) {
    case FaultKind::kPause:
      if (fault.target % 3 != 0) return false;
      server.process->PauseUntil(end_ns);
      return true;
    case FaultKind::kServerCut:
      for (const std::string& address : server.process->addresses()) network_.ResetConnectionsOf(address);
      server.process->PauseUntil(end_ns);
      return true;
    case FaultKind::kServerStop:
      server.process->PauseUntil(end_ns);
      return true;
    case FaultKind::kServerControlCut:
      control_.Cut(server.process->name(), fault.target % 2 == 0, end_ns);
      return true;
    case FaultKind::kServerCrash:
    case FaultKind::kServerSilent:
      if (!OneOfMany() || !IsDedicated(server)) return false;
      KillServer(&server, fault.kind == FaultKind::kServerSilent);
      return true;
    case FaultKind::kServerRestart:
      if (!IsDedicated(server)) return false;
      KillServer(&server, /*silently=*/false);
      world_.At(end_ns, [this, index] {
        if (servers_[index].process == nullptr) StartServer(index);
      });
      return true;
    case FaultKind::kServerDrain:
      if (!OneOfMany() || !IsDedicated(server) || server.drain_asked) return false;
      if (fault.target / kTellsDrains % 2 == 0) {
        server.process->Drain();
      } else {
        server.drain_asked = true;
        ++drains_asked_;
        AskForDrain(index);
      }
      return true;
    default:
      return false;
  }
}

void Cluster::AskForDrain(size_t index) {
  const Server& server = servers_[index];
  if (server.process == nullptr || !server.drain_asked) return;
  control_.Call({.alive = operator_is_there_, .name = "operator"}, scheduler::DrainServer{server.place.name},
                kOperatorTimeoutNs, [this, index](const absl::StatusOr<scheduler::Response>& response) {
                  if (response.ok()) return;
                  world_.After(kTryAgainNs, [this, index] { AskForDrain(index); });
                });
}

bool Cluster::CrashEveryServer(uint64_t back_ns) {
  bool hit = false;
  for (size_t index = 0; index < servers_.size(); ++index) {
    if (!IsDedicated(servers_[index]) || servers_[index].process == nullptr) continue;
    hit = true;
    victims_.push_back(servers_[index].place.name);
    KillServer(&servers_[index], /*silently=*/false);
    world_.At(back_ns, [this, index] {
      if (servers_[index].process == nullptr) StartServer(index);
    });
  }
  return hit;
}

bool Cluster::HitWorker(const Fault& fault, uint64_t end_ns) {
  Worker* const worker = PickWorker(fault.target);
  if (worker == nullptr) return false;
  WorkerProcess& process = *worker->process;
  const uint32_t run = worker->place.run;
  if (fault.kind == FaultKind::kJobRestart && runs_restarted_.contains(run)) return false;
  const bool is_open = worker->place.job.is_open();
  if (IsDestructive(fault.kind)) {
    MayFailFor(worker->place);
    process.NoteHit();
    if (fault.kind == FaultKind::kMissingRank) process.MayBeWaitedFor();
    if (fault.kind == FaultKind::kDisagree) checkers_.MayFailFor(run, "disagree on op ");
    if (fault.kind == FaultKind::kAbort) checkers_.MayFailFor(run, WorkerProcess::kAbortReason);
  }
  victims_ = {process.name()};
  switch (fault.kind) {
    case FaultKind::kPause:
    case FaultKind::kWorkerStop:
      if (fault.kind == FaultKind::kWorkerStop && TakesLeases(end_ns) && process.joined()) {
        RankDies(*worker, /*connections_closed=*/false);
      }
      checkers_.RankStandsStill(run, worker->place.rank, end_ns);
      process.PauseUntil(end_ns);
      if (HostsScheduler(worker->place) && scheduler_ != nullptr) scheduler_->PauseUntil(end_ns);
      return true;
    case FaultKind::kControlCut:
      control_.Cut(process.name(), fault.target % 2 == 0, end_ns);
      return true;
    case FaultKind::kAnswersLost:
      control_.LoseAnswers(process.name(), end_ns);
      return true;
    case FaultKind::kLateMap:
      control_.HoldStreams(process.name(), end_ns);
      return true;
    case FaultKind::kWorkerCrash:
      RankDies(*worker, ServersHearOfTheEndOf(process));
      KillWorker(worker, /*silently=*/false);
      return true;
    case FaultKind::kWorkerSilent:
      PowerIsCut(worker->place.node);
      return true;
    case FaultKind::kJobRestart:
      runs_restarted_.insert(run);
      ++restarts_due_;
      world_.At(end_ns, [this, run, was_in = WasInJob(*worker)] { RestartJob(run, was_in); });
      RankDies(*worker, ServersHearOfTheEndOf(process));
      KillWorker(worker, /*silently=*/false);
      return true;
    case FaultKind::kDisagree:
      process.DisagreeOnce();
      return true;
    case FaultKind::kAbort:
      if (is_open) {
        checkers_.MayFailFor(run, WorkerProcess::kGaveUp);
        RankDies(*worker, /*connections_closed=*/false);
        process.GiveUpAsLost();
        return true;
      }
      if (process.AbortGroup()) GroupIsGivenUp(run, WorkerProcess::kAllRanks);
      return true;
    case FaultKind::kMissingRank:
      process.StopCalling();
      return true;
    default:
      return false;
  }
}

// As an elastic launcher does it: what is left of the job is killed, and all ranks start again. Under the job's name,
// if the others were all in it still, or had not started: else a new rank would take the place of one that had left.
void Cluster::RestartJob(uint32_t run, bool first_was_in) {
  --restarts_due_;
  const auto of_run = [run](const Worker& worker) { return worker.place.run == run; };
  // A run has a rank at least.
  const WorkerProcess::Place& place = std::ranges::find_if(workers_, of_run)->place;
  uint32_t were_in = first_was_in ? 1 : 0;
  uint32_t never_came = 0;
  for (Worker& worker : workers_) {
    if (!of_run(worker)) continue;
    if (!std::exchange(worker.started, true)) ++never_came;
    if (worker.process == nullptr || worker.process->finished()) continue;
    if (WasInJob(worker) && !worker.process->leaves()) ++were_in;
    KillWorker(&worker, /*silently=*/false);
  }
  const bool same_name = were_in + never_came == place.job.ranks;
  JobProfile job = place.job;
  job.first_rank_late_ns = 0;
  StartRun(same_name ? place.job_name : absl::StrCat(place.job_name, "-again"), job, 0);
}

// So that its kernel closes a stream that the scheduler knows. (It may know of none if followers did not know yet who
// leads. The place is free then when the lease has run out.)
bool Cluster::WasInJob(const Worker& worker) const {
  return worker.process->opened_all() || (worker.place.job.first_rank_late_ns > 0 && worker.process->joined());
}

bool Cluster::IsOver(uint32_t run) const {
  return std::ranges::all_of(workers_, [&](const Worker& worker) {
    if (worker.place.run != run) return true;
    return worker.started && (worker.process == nullptr || worker.process->finished());
  });
}

// Whether it had a connection to a living server for each of its groups. A group has none when the server that it had
// died before, or with this process, and for a moment while it moves.
bool Cluster::ServersHearOfTheEndOf(const WorkerProcess& worker) const {
  if (!worker.opened_all()) return false;
  return std::ranges::all_of(worker.GroupsOnServers(), [&](const std::pair<GroupId, Rank>& place) {
    return std::ranges::any_of(servers_, [&](const Server& server) {
      return server.process != nullptr && server.worker != worker.name() &&
             server.process->HasRank(place.first, place.second);
    });
  });
}

// The ranks that share a group with it are to hear of it within the lease and a second, soon where its kernel has
// closed the connections of its groups, or as much later as other faults may take.
void Cluster::RankDies(const Worker& worker, bool connections_closed) {
  const WorkerProcess::Place& place = worker.place;
  // Where the scheduler ends with it, or has ended before, servers declare ranks lost that they miss for a lease.
  const bool by_server = HostsScheduler(place) || (profile_.is_hosted && scheduler_ == nullptr);
  if (by_server) {
    // One that no server knew beside the others, in the newest epoch, is missed by nobody; ops end at their deadline.
    const bool is_known = ServersHearOfTheEndOf(*worker.process) && checkers_.ops_ok() > 0 && !NewsIsHeld();
    if (!is_known) return checkers_.Excuse(ExcusableCheck::kLostRank, place.run);
  }
  uint64_t known_ns = connections_closed && !by_server ? kProcessEndedPatienceNs : LeaseRunsOutNs() + kNsPerS;
  if (by_server && !connections_closed) known_ns += kServerNoticesWithinNs;
  const std::optional<uint64_t> known_by_ns = AllKnowByNs(known_ns);
  if (!known_by_ns.has_value()) return checkers_.Excuse(ExcusableCheck::kLostRank, place.run);
  const uint32_t rank = worker.process->job_rank();
  if (!place.job.is_open()) return checkers_.RankDied(place.run, rank, *known_by_ns);
  if (worker.process->joined()) roster_checks_.RankIsGone(place.run, rank, *known_by_ns);
}

// Some ranks may not have heard of the newest map.
bool Cluster::NewsIsHeld() const {
  return std::ranges::any_of(profile_.faults, [&](const Fault& fault) {
    return fault.kind == FaultKind::kLateMap && fault.at_ns <= world_.now_ns() &&
           world_.now_ns() < fault.at_ns + fault.duration_ns;
  });
}

// Its ranks are to hear it by a server or by the scheduler, even if the rank that gives it up reaches only one of them.
void Cluster::GroupIsGivenUp(uint32_t run, const std::string& group) {
  if (news_lost_) return checkers_.Excuse(ExcusableCheck::kLostRank, run);
  const std::optional<uint64_t> known_by_ns = AllKnowByNs(LeaseRunsOutNs());
  if (!known_by_ns.has_value()) return checkers_.Excuse(ExcusableCheck::kLostRank, run);
  checkers_.GroupGivenUp(run, group, *known_by_ns);
}

// By the slowest and the fastest clock.
uint64_t Cluster::LeaseRunsOutNs() const {
  const uint64_t lease_ns = profile_.lease_ttl_ms * kNsPerMs;
  return lease_ns + lease_ns * profile_.clock_drift_per_million / 500'000;
}

// The bound: `known_ns` and a second, and as much more as those faults take that are open now or begin before all ranks
// know. Each may hold the news up for as long as it lasts; one of a scheduler for a lease more, in which members find
// the next one. What has ended before holds nothing up, but for a peer that has gone silent.
std::optional<uint64_t> Cluster::AllKnowByNs(uint64_t known_ns) const {
  std::vector<Fault> faults = profile_.faults;
  std::ranges::stable_sort(faults, {}, &Fault::at_ns);
  uint64_t known_by_ns = world_.now_ns() + known_ns + kNsPerS;
  bool waits_for_silent_peer = false;
  bool may_lose_the_news = false;
  bool moments_may_differ = false;
  for (const Fault& fault : faults) {
    if (fault.at_ns > known_by_ns) break;
    if (MakesForgetful(fault.kind)) return std::nullopt;
    // A server that loses all ranks of a group closes it, and has told of none if that is within its shortest pause
    // between heartbeats.
    const bool breaks_connections = fault.kind == FaultKind::kReset || fault.kind == FaultKind::kCorruption;
    if (breaks_connections && fault.at_ns + fault.duration_ns >= world_.now_ns() &&
        !std::exchange(may_lose_the_news, true)) {
      known_by_ns += LeaseRunsOutNs();
    }
    // A server that stands still for so long tells of the end of a connection as of another moment than that of the
    // stream, and the lease decides.
    const bool holds_still = fault.kind == FaultKind::kPause || fault.kind == FaultKind::kServerStop;
    if (holds_still && fault.duration_ns >= kSameMomentNs && fault.at_ns < world_.now_ns() + kNsPerS &&
        !std::exchange(moments_may_differ, true)) {
      known_by_ns += LeaseRunsOutNs();
    }
    if (IsSilent(fault.kind) && !std::exchange(waits_for_silent_peer, true)) {
      known_by_ns += WorkerMachineOptions().force_after_ns;
    }
    if (fault.at_ns + fault.duration_ns + LeadIsBackNs(fault) < world_.now_ns()) continue;
    known_by_ns += fault.duration_ns + LeadIsBackNs(fault);
    if (HitsScheduler(fault)) known_by_ns += profile_.lease_ttl_ms * kNsPerMs;
  }
  return known_by_ns;
}

}  // namespace shoal::sim
