// The port within a node under virtual time.
#include "sim/sim_local_reduce.h"

#include "tests/conformance/local_reduce/local_reduce_suite.h"

namespace shoal {
namespace {

class SimNode : public LocalReduceNode {
 public:
  std::unique_ptr<LocalReduce> Make() override {
    return node_.Make([] {});
  }
  void Wait() override { world_.RunUntil(world_.now_ns() + 20'000); }

 private:
  sim::World world_{1};
  sim::SimLocalNode node_{&world_, 100'000};
};

const LocalReduceKind kSim{"Sim", [] { return std::make_unique<SimNode>(); }};
INSTANTIATE_TEST_SUITE_P(Sim, LocalReduceSuite, testing::Values(kSim), LocalReduceKindName);
INSTANTIATE_TEST_SUITE_P(Sim, LocalGroupEnds, testing::Values(kSim), LocalReduceKindName);
INSTANTIATE_TEST_SUITE_P(Sim, LocalParts, testing::Values(kSim), LocalReduceKindName);

}  // namespace
}  // namespace shoal
