// A simulated reduction server process: the real loops (one for each I/O thread, and the one that keeps the lease).
#ifndef SHOAL_SIM_SERVER_PROCESS_H_
#define SHOAL_SIM_SERVER_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/loop/lease_loop.h"
#include "server/loop/server_loop.h"
#include "sim/checkers.h"
#include "sim/profile.h"
#include "sim/same_node.h"
#include "sim/sim_control.h"
#include "sim/sim_control_link.h"
#include "sim/sim_process.h"
#include "sim/sim_reducer.h"
#include "sim/sim_transport.h"

namespace shoal::sim {

class ServerProcess : public SimProcess {
 public:
  struct Place {
    std::string name;
    std::string node;
    uint64_t slot_memory_bytes = 0;
    JobId job;  // of a colocated server: the only job that it serves; 0: it serves all jobs
  };

  // `same_node`: not null: used in place of the network.
  ServerProcess(World* world, const Profile& profile, const Place& place, SimNetwork* network, SameNode* same_node,
                SimControl* control, Checkers* checkers);
  // The process dies.
  ~ServerProcess() override = default;

  const Place& place() const { return place_; }

  const std::vector<std::string>& addresses() const { return addresses_; }
  // When the process dies, nobody hears of it.
  void FallSilent();
  // As at SIGTERM: it leaves the cluster and opens no new group; drained() when none is open any more. Where an
  // operator asks the scheduler for it, the server hears of that with its lease.
  void Drain();
  // Whether the rank has a connection here for the group.
  bool HasRank(GroupId group, Rank rank) const;
  bool registered() const { return token_key_.has_value(); }
  bool draining() const { return draining_; }
  bool drained() const { return left_ && GroupsOpen() == 0; }
  // It could not tell the scheduler that it leaves, which will take it for lost.
  bool left_untold() const { return left_untold_; }
  // Reports what is still open, once everybody is gone.
  void CheckAtEnd() const;

 protected:
  uint64_t Run(Now now) override;

 private:
  struct IoThread {
    // Most of it is never touched: the system gives zeros when it is.
    std::unique_ptr<std::byte, decltype(&std::free)> memory{nullptr, &std::free};
    SimTransport* simulated = nullptr;  // the transport, unless it is a real one
    std::unique_ptr<Transport> transport;
    std::unique_ptr<SimReducer> reducer;
    std::unique_ptr<ServerLoop> loop;  // from the registration on
  };

  // Or gives the loops that there are the newest key.
  void StartLoops();
  // Returns when it is to be called again, at the latest.
  uint64_t StepLease(Now now);
  void OnOutcome(const LeaseOutcome& outcome);
  void OpenNoNewGroups();
  // The scheduler has granted or renewed the lease.
  void NoteScheduler(const SchedulerHeard& heard);
  // As server/thread does: another absent rank is told at once.
  void NoteAbsentRanks(std::vector<AbsentRank> absent);
  uint32_t GroupsOpen() const;
  ServerCounters Counters() const;

  const Profile& profile_;
  const Place place_;
  SameNode* const same_node_;
  Checkers* checkers_;
  Incarnation incarnation_;
  std::vector<IoThread> threads_;
  std::vector<std::string> addresses_;
  SimControlLink control_link_;
  std::optional<LeaseLoop> lease_loop_;
  std::vector<LeaseCommand> commands_;    // for it
  std::optional<TokenKey> token_key_;     // once it is registered
  std::vector<AbsentRank> absent_ranks_;  // that were told
  bool draining_ = false;
  bool asked_to_drain_ = false;  // by an operator
  bool groups_ended_ = false;    // after that
  bool left_ = false;
  bool left_untold_ = false;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SERVER_PROCESS_H_
