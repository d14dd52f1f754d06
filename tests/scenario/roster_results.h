// Whose contributions an op's result has, where ranks are lost while it is open: worked out from the result's bytes,
// and compared with what ranks tell.
#ifndef SHOAL_TESTS_SCENARIO_ROSTER_RESULTS_H_
#define SHOAL_TESTS_SCENARIO_ROSTER_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/scenario/cluster.h"
#include "tests/scenario/tensors.h"
#include "worker/machine/worker_outcomes.h"

namespace shoal {

// How many ops had how many contributors: a test shows little where kills come before or after all of them.
struct SeenRosters {
  int whole = 0;  // all in all chunks
  int mixed = 0;  // some chunks have more than others
  int fewer = 0;  // fewer in all chunks
};

// What the contributions of some ranks make.
struct RosterSum {
  Bytes sum;
  uint32_t contributors = 0;
};

// Of op `op`, which is the first of its group if that is 0: that all these workers have the same bits, that each
// element is one of these sums, and that each worker tells how many contributed, in its answer and to the scheduler.
// `results`: by worker, of all of the cluster's. Failures are fatal.
void ExpectResultsOfRosters(const Cluster& cluster, uint64_t op, const std::vector<uint32_t>& workers,
                            const std::vector<Bytes>& results, const std::vector<RosterSum>& sums, size_t element_bytes,
                            const std::string& where, SeenRosters* seen);

}  // namespace shoal

#endif  // SHOAL_TESTS_SCENARIO_ROSTER_RESULTS_H_
