// Watches what the schedulers of a simulation do for the faults that happen.
//
//   pace       a group moves, states are saved and events are recorded a bounded number of times for each fault, and a
//              group does not move faster than its ranks can follow
//   untouched  a server is lost only if a fault concerns it; a group moves only if servers came or went since it has
//              its map, or since a rank lost a server and a fault concerns that one or the group's job,
//              or the server had no memory for the group
//   retained   a scheduler does not keep groups that all their ranks have closed
//
// Failures are given to the callback, with the name of the check in brackets. One thread (the world's).
#ifndef SHOAL_SIM_SCHEDULER_AUDIT_H_
#define SHOAL_SIM_SCHEDULER_AUDIT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_state.h"
#include "sim/fault_log.h"

namespace shoal::sim {

class SchedulerAudit {
 public:
  // `look_away`: where untouched can't say anything of a run, since its schedulers may be wrong about servers.
  SchedulerAudit(const FaultLog* faults, std::function<void(const std::string&)> fail,
                 std::function<void(uint32_t run)> look_away)
      : faults_(faults), fail_(std::move(fail)), look_away_(std::move(look_away)) {}

  // A process joins the cluster: what that takes is no fault's.
  void ProcessStarted() { ++processes_; }
  // Of the job that is called so. `colocates`: servers come and go with the job's ranks.
  void RankStarted(uint32_t run, const std::string& job, const std::string& process, const std::string& node,
                   bool colocates);
  // A server ends before it knows that it is registered, or no scheduler hears that it leaves.
  void EndedUnheard(const std::string& server) { ended_unheard_.insert(server); }
  void OnEvent(const scheduler::EventRecord& event, uint64_t now_ns);
  void OnSave() { ++saves_; }
  // `most`: of the jobs to check, how many groups each may have there.
  void CheckRetained(const scheduler::PersistedState& state, const std::map<std::string, size_t>& most);
  void CheckEnd();

  uint64_t moves() const { return moves_; }
  uint64_t saves() const { return saves_; }
  uint64_t events() const { return events_; }

 private:
  struct Moves {
    std::string subject;
    uint64_t count = 0;
    std::deque<uint64_t> newest_ns;
    uint64_t server_changes = 0;  // of which the group's map knows
  };

  void OnMove(const scheduler::EventRecord& event, uint64_t now_ns);
  void OnServerLost(const std::string& server, uint64_t now_ns);
  // Whether a fault concerns the server: a job's own one goes with its ranks.
  bool IsConcerned(const std::string& server, uint64_t now_ns) const;
  // Whether the move had a cause: see above.
  bool HasCause(const scheduler::EventRecord& event, const std::string& job, const Moves& moves, uint64_t now_ns) const;

  const FaultLog* const faults_;
  const std::function<void(const std::string&)> fail_;
  const std::function<void(uint32_t)> look_away_;
  std::map<std::string, std::set<std::string>> places_;  // by job: its processes and their nodes
  std::map<std::string, std::set<uint32_t>> runs_;       // likewise: one that was started again has two
  std::set<std::string> jobs_with_servers_;
  std::set<std::string> ended_unheard_;  // servers
  // A job that was started again has its name and its groups' twice.
  std::map<std::pair<JobId, GroupId>, Moves> moves_of_;
  uint64_t server_changes_ = 0;  // a server came or went, or a scheduler took over, which may know of none
  uint64_t processes_ = 0;
  uint64_t moves_ = 0;
  uint64_t saves_ = 0;
  uint64_t events_ = 0;  // but for those of calls
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SCHEDULER_AUDIT_H_
