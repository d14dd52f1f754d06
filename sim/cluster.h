// The simulated cluster of a profile: its processes, and what faults do to them.
//
// A job runs once, or again under its name when a fault restarts it; the runs are numbered. One thread (the world's).
#ifndef SHOAL_SIM_CLUSTER_H_
#define SHOAL_SIM_CLUSTER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/checkers.h"
#include "sim/fault_log.h"
#include "sim/op_schedule.h"
#include "sim/profile.h"
#include "sim/rendezvous.h"
#include "sim/rogue_process.h"
#include "sim/roster_checks.h"
#include "sim/same_node.h"
#include "sim/scheduler_audit.h"
#include "sim/scheduler_process.h"
#include "sim/server_process.h"
#include "sim/sim_candidate.h"
#include "sim/sim_control.h"
#include "sim/sim_local_reduce.h"
#include "sim/sim_store.h"
#include "sim/sim_transport.h"
#include "sim/wire_audit.h"
#include "sim/worker_process.h"
#include "sim/world.h"

namespace shoal::sim {

class Cluster {
 public:
  Cluster(const Profile& profile, size_t trace_lines);

  // From here on all processes start, and faults happen, in virtual time.
  void Start();
  // True when all processes that were to start have started, and have ended or died.
  bool AllWorkersEnded() const;
  // By then servers have noticed the end of the last worker, which was just now, and cuts have ended.
  uint64_t SettledByNs() const;
  // Ends the processes that are left, and checks them.
  void CheckEnd();

  World& world() { return world_; }
  const SimNetwork& network() const { return network_; }
  const Checkers& checkers() const { return checkers_; }
  Checkers& checkers() { return checkers_; }
  uint64_t hand_overs() const { return hand_overs_; }
  uint64_t hellos_to_ended_groups() const { return audit_.hellos_to_ended_groups(); }
  uint64_t reports_without_move() const { return control_.reports_without_move(); }
  uint64_t deaths_while_gathering() const { return deaths_while_gathering_; }
  const FaultLog& fault_log() const { return fault_log_; }
  const RosterChecks& roster_checks() const { return roster_checks_; }
  NodeStageCounts node_deaths() const;
  uint64_t terms() const { return terms_; }
  uint64_t hosted_schedulers_ended() const { return hosted_schedulers_ended_; }
  const SimDisk& disk() const { return disk_; }
  // Of jobs.
  uint32_t runs() const { return runs_; }
  // Of open jobs among them; what their ranks have met for.
  uint64_t open_runs() const { return rendezvous_.size(); }
  uint64_t meetings_held() const;
  // Of them, those of 16 ranks and those that failed since their servers have too little memory.
  uint64_t large_jobs() const { return large_jobs_; }
  uint64_t ended_for_memory() const;
  // Of servers, by an operator.
  uint64_t drains_asked() const { return drains_asked_; }
  const std::array<uint64_t, kFaultKindCount>& faults() const { return faults_; }

 private:
  struct Worker {
    WorkerProcess::Place place;
    std::unique_ptr<WorkerProcess> process;  // null: not started, or dead
    bool started = false;
  };
  struct Server {
    ServerProcess::Place place;
    std::unique_ptr<ServerProcess> process;  // likewise
    std::string worker;                      // of a colocated server: the process that it is in
    bool drain_asked = false;                // by an operator; the process may not have heard of it
  };

  // ---- cluster.cc: processes ----
  void StartScheduler();
  void StartCandidate(size_t index);
  std::unique_ptr<SchedulerProcess> StartTerm(size_t index, SchedulerProcess::Lead lead);
  SchedulerProcess::OnEvent TakeSchedulerEvents();
  // Somebody leads, and all that don't stand still know it.
  bool LeadIsSettled() const;
  bool SomebodyLeads() const;
  void StartFollower(size_t index);
  void StartServer(size_t index);
  // For the worker's job, in its process. The worker is told when the server is registered, or that it is not in time.
  void StartColocatedServer(size_t worker, JobId job, uint64_t timeout_ms);
  void WaitForColocatedServer(size_t worker, size_t server, uint64_t until_ns);
  void StartRun(const std::string& job_name, const JobProfile& job, uint64_t after_ns);
  void StartWorker(size_t index);
  void KillWorker(Worker* worker, bool silently);
  void KillServer(Server* server, bool silently);
  // A colocated one, before it knows that it is registered.
  void EndUnheard(Server* server);
  // What ranks on that node share.
  SimLocalNode* LocalNode(const std::string& node);
  // Those that run on the node and have not finished.
  std::vector<Worker*> WorkersOn(const std::string& node);
  // Its process has the scheduler in it.
  bool HostsScheduler(const WorkerProcess::Place& place) const {
    return profile_.is_hosted && place.run == 0 && place.rank == 0;
  }
  bool IsDedicated(const Server& server) const { return server.place.job == JobId(); }
  // Whether another server for all jobs is left if one of them leaves.
  bool OneOfMany() const;
  // Processes whose time has come end: servers that are drained, those of workers that have ended.
  void Tend();
  void TendRollingRestart();

  // ---- cluster_checks.cc ----
  void CheckRuns();
  bool EndedForMemory(uint32_t run) const;
  // While all is well: what the scheduler has of jobs that make and close groups.
  void CheckRetained();

  // How long a group may take to work again when all faults that concern its job have ended (I10).
  static uint64_t HealingNs(const Profile& profile);
  // When the last of these ends: 0, if none has begun.
  uint64_t LastFaultEndedNs(uint32_t run) const;

  // ---- cluster_faults.cc; true: it found something to hit, and has said in `victims_` what that is ----
  void Happen(const Fault& fault);
  bool Hit(const Fault& fault, uint64_t end_ns);
  bool HitNetwork(const Fault& fault, uint64_t end_ns);
  bool HitNodes(const Fault& fault, uint64_t end_ns);
  void CutNode(const std::string& node, uint64_t end_ns);
  // All that runs on the node.
  void AddVictims(const std::string& node);
  // Ops of the run may fail, with an error that names the rank.
  void MayFailFor(const WorkerProcess::Place& place);
  void PowerIsCut(const std::string& node);
  bool HitServer(const Fault& fault, uint64_t end_ns);
  // An operator does it, who asks again while no scheduler answers and the process is there.
  void AskForDrain(size_t index);
  bool CrashEveryServer(uint64_t back_ns);
  bool HitWorker(const Fault& fault, uint64_t end_ns);
  // `first_was_in`: the rank whose crash began it had opened all its groups.
  void RestartJob(uint32_t run, bool first_was_in);
  bool WasInJob(const Worker& worker) const;
  // All its ranks have ended.
  bool IsOver(uint32_t run) const;
  bool TakesLeases(uint64_t end_ns) const;
  bool ServersHearOfTheEndOf(const WorkerProcess& worker) const;
  void RankDies(const Worker& worker, bool connections_closed);
  void GroupIsGivenUp(uint32_t run, const std::string& group);
  bool NewsIsHeld() const;
  uint64_t LeaseRunsOutNs() const;
  // As much later than `known_ns` from now as other faults of that time may take; nullopt: a scheduler that forgets may
  // never tell.
  std::optional<uint64_t> AllKnowByNs(uint64_t known_ns) const;
  Worker* PickWorker(uint32_t target);

  // ---- cluster_scheduler_faults.cc ----
  static bool HitsScheduler(const Fault& fault);
  bool HitScheduler(const Fault& fault, uint64_t end_ns);
  // Where schedulers are elected.
  bool HitCandidate(const Fault& fault, uint64_t end_ns);
  bool HitStore(const Fault& fault, uint64_t end_ns);
  // Of a fault after which the scheduler does not know what it must: groups may not be moved any more.
  void ExcuseRunsFromHealing();
  // What a scheduler without its state can't go on with.
  void ExcuseRunsOfLostState();
  // Of ranks that are about to join, or do so until then.
  void ExcuseJoinsUntil(uint64_t end_ns);
  void ExcuseRunsThatJoin(uint64_t until_ns);
  // How much longer than the fault itself what it does to schedulers lasts: until another one leads.
  uint64_t LeadIsBackNs(const Fault& fault) const;

  const Profile profile_;
  World world_;
  FaultLog fault_log_;
  Checkers checkers_;
  RosterChecks roster_checks_;
  std::map<uint32_t, Rendezvous> rendezvous_;  // by run, of open jobs
  OpSchedule schedule_;
  SchedulerAudit scheduler_audit_;
  WireAudit audit_;
  SimNetwork network_;
  std::unique_ptr<SameNode> same_node_;                               // null: processes are on nodes of their own
  std::map<std::string, std::unique_ptr<SimLocalNode>> local_nodes_;  // by name
  SimControl control_;
  SimDisk disk_;
  std::unique_ptr<SchedulerProcess> scheduler_;
  std::vector<std::unique_ptr<SimFollower>> followers_;
  std::vector<std::unique_ptr<SimCandidate>> candidates_;  // in place of both, where schedulers are elected
  uint64_t terms_ = 0;                                     // that elections have given
  bool news_lost_ = false;                // with a hosted scheduler: ranks that have not heard of a map never will
  uint64_t hosted_schedulers_ended_ = 0;  // with their rank, in the middle of its job
  std::vector<std::unique_ptr<SchedulerProcess>> deposed_;
  std::deque<Server> servers_;
  std::deque<Worker> workers_;
  std::vector<std::unique_ptr<RogueProcess>> rogues_;
  std::deque<size_t> rolling_;      // servers that are still to be restarted
  bool rolling_restarted_ = false;  // the first of them is on its way back
  uint32_t runs_ = 0;
  uint64_t large_jobs_ = 0;
  uint64_t drains_asked_ = 0;
  uint32_t restarts_due_ = 0;
  std::set<uint32_t> runs_restarted_;  // or about to be
  uint64_t hand_overs_ = 0;
  uint64_t deaths_while_gathering_ = 0;  // of ranks and servers that had to do with a chunk after a move
  uint64_t most_shards_ = 0;             // of all servers at a time
  uint64_t next_retained_check_ns_ = 0;
  uint64_t joins_excused_until_ns_ = 0;
  const std::shared_ptr<bool> operator_is_there_ = std::make_shared<bool>(true);
  std::array<uint64_t, kFaultKindCount> faults_ = {};
  std::vector<std::string> victims_;  // of the fault that is about to begin
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_CLUSTER_H_
