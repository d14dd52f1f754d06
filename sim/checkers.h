// What must hold in every simulation, watched from outside.
//
//   exactly once  a result that a rank was told is right: every rank's contribution is in it once (I2); contributions
//   are
//                 small integers that differ by rank and position, so a missing or doubled one changes the sum
//   agreement     all ranks that were told a result of an op have the same bits (I1)
//   bounds        a server's memory and tables never exceed what it was given at start-up (I7)
//   ownership     memory of an op that ended is not touched any more
//   isolation     a job that no destructive fault hit ends well (I8); with benign faults alone, every job does
//   loans         what a server borrows is not written to, and returned once
//   liveness      every op ends, every process ends, and servers are empty when all workers have gone
#ifndef SHOAL_SIM_CHECKERS_H_
#define SHOAL_SIM_CHECKERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "core/dtype.h"
#include "server/server_events.h"
#include "sim/sim_transport.h"
#include "sim/world.h"

namespace shoal::sim {

// One op of the workload: the same on every rank that follows the plan.
struct OpPlan {
  uint64_t elements = 1;
  DataType dtype = DataType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
};

OpPlan PlanOp(uint64_t seed, uint32_t job, const std::string& group, uint64_t op);
// A rank's contribution to an op, and what the result must be.
std::vector<std::byte> Contribution(uint64_t seed, uint32_t job, const std::string& group, uint64_t op,
                                    const OpPlan& plan, uint32_t rank);
std::vector<std::byte> ExpectedResult(uint64_t seed, uint32_t job, const std::string& group, uint64_t op,
                                      const OpPlan& plan, uint32_t ranks);

class Checkers {
 public:
  Checkers(World* world, uint64_t seed) : world_(world), seed_(seed) {}

  void Fail(const std::string& what);
  const std::vector<std::string>& failures() const { return failures_; }

  void OpEnded(uint32_t job, const std::string& group, uint64_t op, uint32_t rank, uint32_t ranks, const OpPlan& plan,
               const absl::Status& status, const std::vector<std::byte>& memory);
  // From now on nothing may write to the memory; it is kept and looked at again at the end.
  void Bury(const std::string& whose, std::vector<std::byte> memory);
  void CheckServerBounds(const std::string& server, const ServerCounters& counters, uint64_t slot_memory_bytes);
  void CheckServerEmpty(const std::string& server, const ServerCounters& counters);
  void CheckGraves();
  void CheckLoans(const SimNetwork& network);

  uint64_t ops_ok() const { return ops_ok_; }
  uint64_t ops_failed() const { return ops_failed_; }
  uint64_t ops_failed_of(uint32_t job) const;
  uint64_t refusals() const { return refusals_; }
  uint64_t preemptions() const { return preemptions_; }

 private:
  struct Grave {
    std::string whose;
    std::vector<std::byte> memory;
  };

  World* world_;
  uint64_t seed_;
  std::vector<std::string> failures_;
  std::map<std::tuple<uint32_t, std::string, uint64_t>, uint64_t> digests_;
  std::vector<Grave> graves_;
  uint64_t ops_ok_ = 0;
  uint64_t ops_failed_ = 0;
  std::map<uint32_t, uint64_t> ops_failed_by_job_;
  uint64_t refusals_ = 0;
  uint64_t preemptions_ = 0;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_CHECKERS_H_
