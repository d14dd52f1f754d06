// What must hold in every simulation, checked from outside.
//
//   exactly once  a result that a rank gets is right: every rank's contribution is in it once (I2), summed in rank
//                 order (I1); contributions differ by rank and position, so a missing, doubled or misplaced one shows
//   agreement     all ranks that get a result of an op have the same bits (I1)
//   one map       all ranks that hear of a group's epoch hear of the same shards in it (I4)
//   bounds        a server's memory and tables never exceed what it was given at start-up (I7)
//   ownership     memory of an op that has ended is not touched any more, nor is memory that is being sent before its
//                 kSent
//   isolation     a job that no destructive fault hit succeeds (I8); with benign faults alone, every job does
//   lost rank     the survivors' ops end soon after a rank's death, not at their deadline (I8)
//   loans         what a server borrows is not written to, and is returned once
//   liveness      every op ends, every process ends, and servers are empty when all workers have gone
//
// wire_audit.h checks the messages between workers and servers.
#ifndef SHOAL_SIM_CHECKERS_H_
#define SHOAL_SIM_CHECKERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/shard_map.h"
#include "server/machine/server_actions.h"
#include "sim/op_truth.h"
#include "sim/sim_transport.h"
#include "sim/world.h"

namespace shoal::sim {

class Checkers {
 public:
  explicit Checkers(World* world) : world_(world) {}

  // The text names the check that failed, in brackets.
  void Fail(const std::string& what);
  const std::vector<std::string>& failures() const { return failures_; }

  // `rank` in the group, whose ranks in the job are `job_ranks`.
  void OpEnded(uint32_t job, const std::string& group, uint64_t op, uint32_t rank,
               const std::vector<uint32_t>& job_ranks, const OpPlan& plan, const absl::Status& status,
               const std::vector<std::byte>& memory);
  // Ops of its groups must have ended by then.
  void RankDied(uint32_t job, uint32_t job_rank, uint64_t all_know_by_ns) {
    all_know_by_ns_.try_emplace({job, job_rank}, all_know_by_ns);
  }
  // From now on nothing may write to the memory; it is kept and compared again at the end.
  void Bury(std::string whose, std::vector<std::byte> memory);
  void SawMap(GroupId group, const ShardMap& map);
  void CheckServerBounds(const std::string& server, const ServerCounters& counters, uint64_t slot_memory_bytes);
  void CheckServerEmpty(const std::string& server, const ServerCounters& counters);
  void CheckGraves();
  void CheckNetwork(const SimNetwork& network);

  uint64_t ops_ok() const { return ops_ok_; }
  uint64_t ops_failed() const { return ops_failed_; }
  uint64_t ops_failed_of(uint32_t job) const;
  uint64_t refusals() const { return refusals_; }
  uint64_t preemptions() const { return preemptions_; }

 private:
  struct Truth {
    std::vector<std::byte> expected;
    uint64_t told_digest = 0;  // of the result that the first rank got
    uint32_t told = 0;         // ranks
  };
  struct Grave {
    std::string whose;
    std::vector<std::byte> memory;
  };

  World* world_;
  std::vector<std::string> failures_;
  std::map<std::tuple<uint32_t, std::string, uint64_t>, Truth> truths_;
  std::map<std::pair<GroupId, Epoch>, std::vector<Shard>> maps_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> all_know_by_ns_;  // by job and rank
  std::vector<Grave> graves_;
  uint64_t ops_ok_ = 0;
  uint64_t ops_failed_ = 0;
  std::map<uint32_t, uint64_t> ops_failed_by_job_;
  uint64_t refusals_ = 0;
  uint64_t preemptions_ = 0;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_CHECKERS_H_
