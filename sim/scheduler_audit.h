// Watches what the schedulers of a simulation do for the faults that happen.
//
//   pace       a group moves, states are saved and events are recorded a bounded number of times for each fault, and a
//              group does not move faster than its ranks can follow
//   untouched  a group moves only if a fault concerns one of its ranks, or a server
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
  SchedulerAudit(const FaultLog* faults, std::function<void(const std::string&)> fail)
      : faults_(faults), fail_(std::move(fail)) {}

  // A process joins the cluster: what that takes is no fault's.
  void ProcessStarted() { ++processes_; }
  // Of the job that is called so. `colocates`: servers come and go with the job's ranks.
  void RankStarted(const std::string& job, const std::string& process, const std::string& node, bool colocates);
  // From now on servers change only with faults.
  void AllStarted() { all_started_ = true; }
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
  };

  void OnMove(const scheduler::EventRecord& event, uint64_t now_ns);

  const FaultLog* const faults_;
  const std::function<void(const std::string&)> fail_;
  std::map<std::string, std::set<std::string>> places_;  // by job: its processes and their nodes
  std::set<std::string> jobs_with_servers_;
  // A job that was started again has its name and its groups' twice.
  std::map<std::pair<JobId, GroupId>, Moves> moves_of_;
  bool all_started_ = false;
  uint64_t processes_ = 0;
  uint64_t moves_ = 0;
  uint64_t saves_ = 0;
  uint64_t events_ = 0;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SCHEDULER_AUDIT_H_
