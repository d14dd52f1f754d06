// A simulated worker process: its two real loops, for the data plane and for its membership, under a workload of
// checked all-reduces.
#ifndef SHOAL_SIM_WORKER_PROCESS_H_
#define SHOAL_SIM_WORKER_PROCESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/checkers.h"
#include "sim/fault_log.h"
#include "sim/op_schedule.h"
#include "sim/profile.h"
#include "sim/rendezvous.h"
#include "sim/roster_checks.h"
#include "sim/same_node.h"
#include "sim/sim_control.h"
#include "sim/sim_local_reduce.h"
#include "sim/sim_process.h"
#include "sim/sim_scheduler_port.h"
#include "sim/sim_stager.h"
#include "sim/sim_transport.h"
#include "sim/wire_audit.h"
#include "worker/loop/membership_loop.h"
#include "worker/loop/worker_loop.h"

namespace shoal::sim {

class WorkerProcess : public SimProcess {
 public:
  // Which run of which job. A job that is started again is another run, under the same name.
  struct Place {
    uint32_t run = 0;
    std::string job_name;
    JobProfile job;
    uint32_t rank = 0;
    std::string node;

    // One of these is in every error that names the rank.
    std::vector<std::string> Names() const;
  };
  struct Ports {
    SimNetwork* network;
    SameNode* same_node;       // not null: used in place of the network
    SimLocalNode* local_node;  // not null: where the rank can reduce with others
    SimControl* control;
    Checkers* checkers;
    RosterChecks* roster_checks;
    Rendezvous* rendezvous;  // null: the job has a fixed size
    WireAudit* audit;
    OpSchedule* schedule;
    FaultLog* fault_log;
  };

  // Starts a colocated server for the job in this process; ColocatedServerStarted follows, within the time.
  using ColocateServer = std::function<void(JobId job, uint64_t timeout_ms)>;

  WorkerProcess(World* world, const Profile& profile, const Place& place, const Ports& ports,
                ColocateServer colocate_server);
  // The process dies.
  ~WorkerProcess() override;

  const Place& place() const { return place_; }

  // Orderly end: everything closed, the job left.
  bool finished() const { return finished_; }
  // Every op of the workload was called and ended well.
  bool did_everything() const;
  // Its job.
  bool joined() const { return in_job_; }
  // The scheduler may have heard that it leaves.
  bool leaves() const { return shutting_down_; }
  // In its job; of an open one since it has joined.
  uint32_t job_rank() const { return place_.job.is_open() ? job_rank_.value() : place_.rank; }
  bool opened_none() const;
  // All its groups were opened.
  bool opened_all() const;
  // Its groups that are open and have servers, each with its rank there.
  std::vector<std::pair<GroupId, Rank>> GroupsOnServers() const;
  // The cluster had no memory for the job's slots and said so.
  bool refused_memory() const { return refused_memory_; }
  // Groups that it has joined and not closed.
  size_t groups_open() const;
  // One of them has a chunk that a server gathers after a move.
  bool HasChunkGatheringAfterMove() const;
  std::string Describe() const;
  void ColocatedServerStarted(const absl::Status& status);
  WorkerCounters Counters() const { return loop_->counters(); }

  // ---- faults ----
  // Ops of its job may fail now, with an error that says that they wait for it.
  void MayBeWaitedFor();
  // Of an open job: a fault hits it, so that it may end anyhow; it ends as a lost rank, as a script does that raises.
  void NoteHit();
  void GiveUpAsLost();
  static constexpr char kGaveUp[] = "it gave up";
  void DisagreeOnce() { disagree_ = true; }
  void StopCalling();
  // The group of all ranks. False: it is not open.
  bool AbortGroup();
  static constexpr char kAllRanks[] = "all";
  static constexpr char kAbortReason[] = "aborted by the simulation";
  // When the process dies, nobody hears of it.
  void FallSilent() {
    if (simulated_ != nullptr) simulated_->FallSilent();
  }

 protected:
  uint64_t Run(Now now) override;

 private:
  struct Group {
    std::string name;
    uint64_t most_ops = 0;
    bool is_short = false;  // closed before the next one is made
    GroupId id;
    std::shared_ptr<const GroupInfo> info;  // null: not joined
    std::vector<uint32_t> ranks;            // of the job
    SumOrder order;
    uint32_t rank = 0;  // of this worker in it
    bool opened = false;
    bool was_opened = false;
    bool over = false;  // no op will be submitted any more
    bool closed = false;
    uint64_t submitted = 0;
    uint64_t ended = 0;
    uint64_t ended_well = 0;
    uint64_t next_submit_ns = 0;
    uint64_t leaves_after = UINT64_MAX;  // ops, and with them its job

    // Of the job, that are summed with this rank on its node.
    std::vector<uint32_t> MembersOnNode() const;
  };
  struct RosterTold {
    GroupId group;
    Epoch epoch;
    std::vector<std::byte> sealed;
  };
  struct OpenOp {
    size_t group = 0;
    uint64_t number = 0;
    uint64_t called_ns = 0;
    OpPlan plan;
    std::vector<std::byte> memory;
  };

  // ---- worker_rosters.cc: open jobs ----
  // If nothing is under way.
  void WantMeeting();
  void TakeMeeting(Now now);
  void IsLost();
  // Ops of the ranks of its node may end with its own.
  void MayEnd();
  // The one that it has asked for.
  void OnRefusedGroup(const absl::Status& status);
  OpOfRoster OfRoster(const Group& group, uint64_t number, const OpPlan& plan) const;

  void ListGroups();
  // If it is its turn.
  void JoinNextGroup(Now now);
  // What it asks for in its groups.
  bool AsksForChecksums() const;
  uint32_t AskedChunkBytes() const;
  uint64_t GroupTimeoutNs() const;
  uint32_t CountedRanks() const;
  void NoteRosters();
  void OpenGroup(size_t index, const GroupInfo& info, Now now);
  void GiveUp(const std::string& why, const absl::Status& status);
  // As a program that closes its worker while a thread of it asks for a group.
  void CloseWhileJoining();
  uint64_t SubmitDue(Now now);
  // Where there are rails, the audit has to know how much of the op crosses the wire.
  void NoteRailOp(const Group& group, const OpenOp& op);
  void Take(const WorkerOutcome& outcome);
  void Take(const MembershipOutcome& outcome, Now now);
  void CloseIfOver(Now now);
  void ShutDown(Now now);
  // A round of each loop. True if anything happened.
  bool RunLoops(Now now);
  std::unique_ptr<Transport> MakeTransport();
  std::unique_ptr<LocalReduce> MakeLocalReduce();
  std::unique_ptr<SimStager> MakeStager();
  NodeReduceRequest NodeReduce() const;
  WorkerMachineOptions MachineOptions() const;
  // Its tensor is garbage until its device has come to it.
  void PutOnDevice(const SubmitCommand& command);

  const Profile& profile_;
  const Place place_;
  const Ports ports_;
  ColocateServer colocate_server_;
  SimTransport* simulated_ = nullptr;  // the transport, unless it is a real one
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<LocalReduce> local_reduce_;  // null: there is nobody to reduce with
  std::unique_ptr<SimStager> stager_;          // null: the job has no devices
  std::unique_ptr<WorkerLoop> loop_;
  SimSchedulerPort scheduler_;
  MembershipLoop membership_;
  std::vector<WorkerCommand> commands_;
  std::vector<MembershipCommand> membership_commands_;
  size_t groups_asked_for_ = 0;
  size_t groups_joined_ = 0;
  std::vector<Group> groups_;
  std::map<uint64_t, OpenOp> ops_;        // by ticket
  std::vector<RosterTold> rosters_told_;  // of groups that it does not have yet
  uint64_t next_ticket_ = 1;
  bool disagree_ = false;
  bool stopped_calling_ = false;
  bool in_job_ = false;
  bool given_up_ = false;
  bool closes_when_joined_ = false;
  bool shutting_down_ = false;
  bool finished_ = false;
  bool refused_memory_ = false;
  // Of open jobs.
  JobId job_id_;
  JobRank job_rank_;
  std::optional<Meeting> meeting_;  // that it has been told of
  bool wants_meeting_ = false;
  bool was_hit_ = false;
  bool is_lost_ = false;
  bool leaves_ = false;   // its job, before the end
  bool gave_up_ = false;  // it counts as lost by its own word
  bool has_left_ = false;
  bool has_shut_down_ = false;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_WORKER_PROCESS_H_
