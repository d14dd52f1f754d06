#include "sim/simulation.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "sim/checkers.h"
#include "sim/rogue_node.h"
#include "sim/scheduler_node.h"
#include "sim/server_node.h"
#include "sim/worker_node.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kLongestNs = 90 * kNsPerS;  // by then every process has ended, whatever happened
constexpr uint64_t kSettleNs = 10 * kNsPerS;   // for the servers to notice the last one's end

class Simulation {
 public:
  Simulation(const Profile& profile, size_t trace_lines)
      : profile_(profile),
        world_(profile.seed),
        network_(&world_, profile_.network),
        control_(&world_, profile_.network.latency_ns),
        store_(&world_),
        checkers_(&world_, profile.seed) {
    world_.KeepText(trace_lines);
  }

  Report Run();

 private:
  struct Worker {
    uint32_t job;
    std::unique_ptr<WorkerNode> node;  // null: crashed
  };

  void Start();
  void StartScheduler();
  void Happen(const Fault& fault);
  void HitJob(uint32_t job) { jobs_hit_.insert(job); }
  Worker* PickWorker(uint32_t target);
  void StartServer(uint32_t number);
  // A survivable fault of servers.
  void HappenToServer(const Fault& fault, uint64_t end_ns);
  bool AllWorkersEnded() const;
  void CheckEnd();

  const Profile profile_;
  World world_;
  SimNetwork network_;
  SimControl control_;
  SimStore store_;
  Checkers checkers_;
  std::unique_ptr<SchedulerNode> scheduler_;
  std::vector<std::unique_ptr<ServerNode>> servers_;
  std::vector<Worker> workers_;
  std::vector<std::unique_ptr<RogueNode>> rogues_;
  std::set<uint32_t> jobs_hit_;
  uint64_t hand_overs_ = 0;
};

void Simulation::Start() {
  Random& random = world_.random();
  // Start order never matters.
  world_.After(random.Below(20'000'000), [this] { StartScheduler(); });
  servers_.resize(profile_.servers);
  for (uint32_t i = 0; i < profile_.servers; ++i) {
    world_.After(random.Below(20'000'000), [this, i] { StartServer(i); });
  }
  for (uint32_t job = 0; job < profile_.jobs.size(); ++job) {
    for (uint32_t rank = 0; rank < profile_.jobs[job].ranks; ++rank) workers_.push_back({job, nullptr});
  }
  uint32_t index = 0;
  for (uint32_t job = 0; job < profile_.jobs.size(); ++job) {
    for (uint32_t rank = 0; rank < profile_.jobs[job].ranks; ++rank, ++index) {
      world_.After(random.Below(20'000'000), [this, job, rank, index] {
        workers_[index].node =
            std::make_unique<WorkerNode>(&world_, profile_, job, rank, &network_, &control_, &checkers_);
      });
    }
  }
  for (const Fault& fault : profile_.faults) {
    world_.At(fault.at_ns, [this, fault] { Happen(fault); });
  }
}

void Simulation::StartScheduler() {
  if (scheduler_ == nullptr) scheduler_ = std::make_unique<SchedulerNode>(&world_, profile_, &control_, &store_);
}

void Simulation::StartServer(uint32_t number) {
  servers_[number] = std::make_unique<ServerNode>(&world_, profile_, number, &network_, &control_, &checkers_);
}

Simulation::Worker* Simulation::PickWorker(uint32_t target) {
  Worker& worker = workers_[target % workers_.size()];
  return worker.node == nullptr || worker.node->finished() ? nullptr : &worker;
}

void Simulation::HappenToServer(const Fault& fault, uint64_t end_ns) {
  const auto number = static_cast<uint32_t>(fault.target % servers_.size());
  ServerNode* const server = servers_[number].get();
  const auto stays = [](const std::unique_ptr<ServerNode>& each) { return each != nullptr && !each->draining(); };
  const bool one_of_many = std::count_if(servers_.begin(), servers_.end(), stays) > 1;
  if (fault.kind == FaultKind::kServerAdd) {
    servers_.emplace_back();
    return StartServer(static_cast<uint32_t>(servers_.size() - 1));
  }
  if (server == nullptr || server->draining()) return;
  switch (fault.kind) {
    case FaultKind::kServerCrash:
      if (one_of_many) servers_[number].reset();
      return;
    case FaultKind::kServerRestart:
      servers_[number].reset();
      return world_.At(end_ns, [this, number] { StartServer(number); });
    case FaultKind::kServerCut:
      for (const std::string& address : server->addresses()) network_.ResetConnectionsOf(address);
      return server->PauseUntil(end_ns);
    case FaultKind::kServerStop:
      return server->PauseUntil(end_ns);
    case FaultKind::kServerDrain:
      if (one_of_many) server->Drain();
      return;
    default:
      return;
  }
}

void Simulation::Happen(const Fault& fault) {
  world_.TraceText(absl::StrCat("fault: ", FaultName(fault.kind)));
  const uint64_t end_ns = world_.now_ns() + fault.duration_ns;
  const std::unique_ptr<ServerNode>& server = servers_[fault.target % servers_.size()];
  Worker* const worker = PickWorker(fault.target);
  switch (fault.kind) {
    case FaultKind::kClog:
      return network_.Clog(worker != nullptr ? worker->node->transport_name() : "",
                           server != nullptr && fault.target % 2 == 0 ? server->addresses().front() : "", end_ns);
    case FaultKind::kPause:
      if (fault.target % 3 == 0 && server != nullptr) return server->PauseUntil(end_ns);
      if (fault.target % 3 == 1 && scheduler_ != nullptr) return scheduler_->PauseUntil(end_ns);
      if (worker != nullptr) worker->node->PauseUntil(end_ns);
      return;
    case FaultKind::kSchedulerOutage:
      scheduler_.reset();
      return world_.At(end_ns, [this] { StartScheduler(); });
    case FaultKind::kStoreFailures:
      return store_.FailUntil(end_ns);
    case FaultKind::kRogueClient: {
      if (server == nullptr) return;
      rogues_.push_back(std::make_unique<RogueNode>(&world_, &network_, server->addresses().back()));
      const size_t index = rogues_.size() - 1;
      world_.At(end_ns, [this, index] { rogues_[index].reset(); });
      return;
    }
    case FaultKind::kReset:
      network_.ResetRandomConnection();
      return;
    default:
      break;
  }
  if (IsSurvivable(fault.kind)) return HappenToServer(fault, end_ns);
  if (worker == nullptr) return;
  HitJob(worker->job);
  if (fault.kind == FaultKind::kWorkerCrash) worker->node.reset();
  if (fault.kind == FaultKind::kDisagree) worker->node->DisagreeOnce();
  if (fault.kind == FaultKind::kAbort) worker->node->AbortGroup();
  if (fault.kind == FaultKind::kMissingRank) worker->node->StopCalling();
}

bool Simulation::AllWorkersEnded() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.node == nullptr || worker.node->finished(); });
}

void Simulation::CheckEnd() {
  std::set<uint32_t> refused;
  for (const Worker& worker : workers_) {
    if (worker.node == nullptr) continue;
    hand_overs_ += worker.node->results_handed_over();
    if (!worker.node->finished()) checkers_.Fail(absl::StrCat("never ended (liveness): ", worker.node->Describe()));
    if (worker.node->refused_memory()) refused.insert(worker.job);
  }
  for (uint32_t job = 0; job < profile_.jobs.size(); ++job) {
    if (jobs_hit_.contains(job) || refused.contains(job)) continue;
    if (checkers_.ops_failed_of(job) > 0) {
      checkers_.Fail(absl::StrCat("job ", job, " had failed ops though nothing destructive hit it (isolation)"));
    }
    for (const Worker& worker : workers_) {
      if (worker.job == job && worker.node != nullptr && !worker.node->did_everything()) {
        checkers_.Fail(absl::StrCat("left work undone (isolation): ", worker.node->Describe()));
      }
    }
  }
  rogues_.clear();
  workers_.clear();
  world_.RunUntil(world_.now_ns() + kNsPerS);
  for (const std::unique_ptr<ServerNode>& server : servers_) {
    if (server == nullptr) continue;
    server->CheckAtEnd();
    if (server->draining() && !server->drained()) checkers_.Fail(server->name() + " was never drained (liveness)");
  }
  checkers_.CheckGraves();
  checkers_.CheckLoans(network_);
}

Report Simulation::Run() {
  Start();
  world_.RunUntil(world_.now_ns() + 400 * kNsPerMs);  // all have started, all faults have begun
  const uint64_t latest_ns = world_.now_ns() + kLongestNs;
  while (!AllWorkersEnded() && world_.RunOne(latest_ns)) {
  }
  world_.RunUntil(world_.now_ns() + kSettleNs + profile_.return_patience_ns);
  CheckEnd();
  return {.seed = profile_.seed,
          .digest = world_.digest(),
          .events = world_.events_run(),
          .virtual_ns = world_.now_ns(),
          .ops_ok = checkers_.ops_ok(),
          .ops_failed = checkers_.ops_failed(),
          .refusals = checkers_.refusals(),
          .loans = network_.loans_taken(),
          .hand_overs = hand_overs_,
          .preemptions = checkers_.preemptions(),
          .failures = checkers_.failures(),
          .trace = world_.text()};
}

}  // namespace

Report Simulate(const Profile& profile, size_t trace_lines) { return Simulation(profile, trace_lines).Run(); }

}  // namespace shoal::sim
