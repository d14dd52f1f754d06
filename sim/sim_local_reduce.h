// The LocalReduce port under virtual time: ranks of one node that reach each other in memory.
//
// A contribution is copied when its op starts. Meeting, sums, results and bad news each take a while, drawn anew for
// every rank. Sums come in pieces. A rank that stands still does not poll, and the others wait for what is its to do.
// One thread (the world's).
#ifndef SHOAL_SIM_SIM_LOCAL_REDUCE_H_
#define SHOAL_SIM_SIM_LOCAL_REDUCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/world.h"
#include "worker/local_reduce/local_reduce.h"

namespace shoal::sim {

struct SimMeeting;

// Where an op of a rank is on its node: not all of the rank's part is summed; the part is on its way through the other
// nodes; others lack the part, or it lacks theirs.
enum class NodeStage : uint8_t { kReduceScatter, kOtherNodes, kAllGather };
inline constexpr size_t kNodeStages = 3;
using NodeStageCounts = std::array<uint64_t, kNodeStages>;

// What the ranks of a node share. Outlives its ranks.
class SimLocalNode {
 public:
  SimLocalNode(World* world, uint64_t max_delay_ns) : world_(world), max_delay_ns_(max_delay_ns) {}

  // One process's. Its end is its destruction. `wake` is called when Poll has something.
  std::unique_ptr<LocalReduce> Make(std::function<void()> wake);

  // Groups that somebody has opened and not closed.
  size_t groups_open() const { return meetings_.size(); }
  // Ops that ranks of groups with rails were in when they died.
  const NodeStageCounts& deaths() const { return deaths_; }

 private:
  friend class SimLocalReduce;

  // Lets every rank look in a while what it can do.
  void Stir(const std::shared_ptr<SimMeeting>& meeting);

  World* const world_;
  const uint64_t max_delay_ns_;
  std::map<std::string, std::shared_ptr<SimMeeting>> meetings_;
  NodeStageCounts deaths_ = {};
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_LOCAL_REDUCE_H_
