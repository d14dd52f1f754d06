// One seed from start to end: builds the cluster of a profile, lets the faults happen, waits for the end, and checks.
#ifndef SHOAL_SIM_SIMULATION_H_
#define SHOAL_SIM_SIMULATION_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/checkers.h"
#include "sim/fault_log.h"
#include "sim/profile.h"
#include "sim/sim_local_reduce.h"

namespace shoal::sim {

struct Report {
  uint64_t seed = 0;
  uint64_t digest = 0;  // of everything that happened
  uint64_t events = 0;
  uint64_t virtual_ns = 0;
  uint64_t ops_ok = 0;
  uint64_t ops_failed = 0;
  uint64_t refusals = 0;
  uint64_t loans = 0;                                   // payloads that servers borrowed
  uint64_t changes_caught = 0;                          // payloads that were changed on their way
  uint64_t chunks_chosen = 0;                           // by the product's plan: groups
  uint64_t device_copies = 0;                           // between tensors on devices and host memory
  uint64_t server_waits_told = 0;                       // by ranks, in heartbeats
  uint64_t terms = 0;                                   // of schedulers that were elected
  uint64_t hosted_schedulers_ended = 0;                 // with their rank, in the middle of its job
  uint64_t refused_saves = 0;                           // of schedulers whose term was over
  uint64_t saves_unheard = 0;                           // whose answer did not come
  uint64_t hand_overs = 0;                              // results that ranks handed over after a move
  uint64_t preemptions = 0;                             // pushes that made room for an older chunk
  uint64_t hellos_to_ended_groups = 0;                  // of ranks, to servers where their group had ended
  uint64_t reports_without_move = 0;                    // of servers, whose answer was no newer map
  uint64_t deaths_while_gathering = 0;                  // of who had to do with a chunk that was gathered after a move
  uint64_t large_jobs = 0;                              // runs of 16 ranks
  uint64_t uneven_memory = 0;                           // of servers, or too little after a loss: 1 or 0
  uint64_t ended_for_memory = 0;                        // runs that failed since their servers have too little
  uint64_t arenas = 0;                                  // the cluster shares a node's memory: 1 or 0
  uint64_t drains_asked = 0;                            // by an operator
  NodeStageCounts node_deaths = {};                     // ops over rails in which ranks died
  std::array<uint64_t, kFaultKindCount> faults = {};    // that hit something, by kind
  uint64_t runs = 0;                                    // of jobs
  uint64_t open_runs = 0;                               // of open jobs
  uint64_t meetings_held = 0;                           // of their ranks, for another group
  uint64_t ops_with_fewer = 0;                          // ranks in all chunks than their group has
  uint64_t ops_with_mixed = 0;                          // in some chunks
  uint64_t ops_without_nodes = 0;                       // of both: without whole nodes, in groups with rails
  uint64_t ops_left_alone = 0;                          // that ended since a rank of their node was gone
  uint64_t ops_written_down = 0;                        // whose contributions ranks had written down
  std::array<uint64_t, kExcusableChecks> excuses = {};  // runs that each check was told to look away from
  FaultMeetings meetings;                               // of the faults
  std::vector<std::string> failures;                    // empty: all checks held
  std::vector<std::string> trace;                       // the last lines, if asked for
};

// `trace_lines`: how many lines of the trace to keep.
Report Simulate(const Profile& profile, size_t trace_lines);

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIMULATION_H_
