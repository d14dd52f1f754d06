// Makes a failing profile small enough to read: fewer faults, jobs, ranks, ops and servers, as long as it still fails.
//
// Greedy, like delta debugging (Zeller and Hildebrandt, TSE 2002): it takes the first smaller profile that fails, again
// and again. Any failure counts: a smaller profile is another simulation and need not fail in the same way.
#ifndef SHOAL_SIM_SHRINK_H_
#define SHOAL_SIM_SHRINK_H_

#include <cstdint>

#include "sim/profile.h"

namespace shoal::sim {

struct Shrunk {
  Profile profile;
  uint32_t runs = 0;  // simulations that it took
};

// `failing` fails. Stops after `most_runs` simulations with the smallest profile so far.
Shrunk Shrink(const Profile& failing, uint32_t most_runs);

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SHRINK_H_
