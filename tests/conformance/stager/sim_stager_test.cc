#include "sim/sim_stager.h"

#include "tests/conformance/stager/stager_suite.h"

namespace shoal {
namespace {

// Time passes whenever the suite polls.
class SteppingStager final : public Stager {
 public:
  explicit SteppingStager(sim::World* world)
      : world_(*world),
        stager_(
            world, 50'000, [] {}, [](const std::string& what) { ADD_FAILURE() << what; }) {}

  const std::shared_ptr<StagingArena>& arena() const { return stager_.arena(); }
  void Start(DeviceCopy copy) override {
    ++under_way_;
    stager_.Start(std::move(copy));
  }
  void EndCopies(uint64_t ticket) override { stager_.EndCopies(ticket); }
  void EndOp(uint64_t ticket, bool well) override { stager_.EndOp(ticket, well); }
  void Abandon(GroupHandle group) override { stager_.Abandon(group); }
  std::span<const DeviceCopyEnded> Poll() override {
    world_.RunUntil(world_.now_ns() + 1000);
    const std::span<const DeviceCopyEnded> ended = stager_.Poll();
    under_way_ -= ended.size();
    return ended;
  }
  uint64_t PollWithinNs() const override { return under_way_ > 0 ? 1000 : kNoDeadline; }

 private:
  sim::World& world_;
  sim::SimStager stager_;
  size_t under_way_ = 0;
};

class SimHarness : public HostTensors {
 public:
  static constexpr bool kCopiesInStart = false;

  Stager& stager() { return stager_; }
  std::shared_ptr<StagingArena> arena() { return stager_.arena(); }

 private:
  sim::World world_{7};
  SteppingStager stager_{&world_};
};

INSTANTIATE_TYPED_TEST_SUITE_P(Sim, StagerSuite, SimHarness);

}  // namespace
}  // namespace shoal
