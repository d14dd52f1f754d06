// The results of many seeds together.
#ifndef SHOAL_SIM_TALLY_H_
#define SHOAL_SIM_TALLY_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/simulation.h"

namespace shoal::sim {

struct Violation {
  uint64_t seed = 0;
  std::string what;
};

struct Tally {
  uint64_t seeds = 0;
  uint64_t events = 0;
  uint64_t virtual_ns = 0;
  uint64_t ops_ok = 0;
  uint64_t ops_failed = 0;
  uint64_t refusals = 0;
  uint64_t loans = 0;
  uint64_t changes_caught = 0;
  uint64_t chunks_chosen = 0;
  uint64_t device_copies = 0;
  uint64_t server_waits_told = 0;
  uint64_t terms = 0;
  uint64_t hosted_schedulers_ended = 0;
  uint64_t refused_saves = 0;
  uint64_t saves_unheard = 0;
  uint64_t hand_overs = 0;
  uint64_t preemptions = 0;
  uint64_t hellos_to_ended_groups = 0;
  uint64_t reports_without_move = 0;
  uint64_t deaths_while_gathering = 0;
  uint64_t large_jobs = 0;
  uint64_t uneven_memory = 0;
  uint64_t ended_for_memory = 0;
  uint64_t arenas = 0;
  uint64_t drains_asked = 0;
  NodeStageCounts node_deaths = {};
  std::array<uint64_t, kFaultKindCount> faults = {};
  uint64_t runs = 0;
  uint64_t open_runs = 0;
  uint64_t meetings_held = 0;
  uint64_t ops_with_fewer = 0;
  uint64_t ops_with_mixed = 0;
  uint64_t ops_without_nodes = 0;
  uint64_t ops_left_alone = 0;
  uint64_t ops_written_down = 0;
  std::array<uint64_t, kExcusableChecks> excuses = {};
  FaultMeetings meetings;
  std::vector<Violation> violations;  // the first of each seed that has any

  void Add(const Report& report);
  // For scripts/soak.py. `first`: the first of the seeds; `cpu_seconds`: the time that they took.
  std::string ToJson(uint64_t first, double cpu_seconds) const;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_TALLY_H_
