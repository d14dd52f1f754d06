// What profile.h's DrawProfile is made of: the kinds of runs.
#ifndef SHOAL_SIM_DRAW_RUN_H_
#define SHOAL_SIM_DRAW_RUN_H_

#include <cstdint>
#include <initializer_list>

#include "sim/profile.h"
#include "sim/world.h"

namespace shoal::sim {

template <typename T>
T Pick(Random& random, std::initializer_list<T> choices) {
  return *(choices.begin() + random.Below(choices.size()));
}

// How long a fault of the kind lasts; 0 where what it does is done at once. What may last for many leases lasts for
// `longest_ns` at most.
uint64_t DrawDuration(Random& random, FaultKind kind, uint64_t lease_ns, uint64_t longest_ns);

// Jobs and faults of a run; the cluster is drawn already. Draw how patient ops are, and may change the cluster.
void DrawShortRun(Random& random, Profile* profile);
void DrawLongRun(Random& random, Profile* profile);

}  // namespace shoal::sim

#endif  // SHOAL_SIM_DRAW_RUN_H_
