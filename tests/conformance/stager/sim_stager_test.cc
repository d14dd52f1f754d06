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
            world, 50'000, 32 << 20, [] {}, [](const std::string& what) { ADD_FAILURE() << what; }) {}

  const std::shared_ptr<StagingArena>& arena() const { return stager_.arena(); }
  void Start(DeviceCopy copy) override {
    ++under_way_;
    stager_.Start(std::move(copy));
  }
  void Flush() override { stager_.Flush(); }
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

class SimHarness {
 public:
  static constexpr bool kFillsFailed = false;

  Stager& stager() { return stager_; }
  std::shared_ptr<StagingArena> arena() { return stager_.arena(); }
  std::byte* MakeTensor(const void* content, uint64_t bytes) {
    tensors_.push_back(std::make_unique<std::vector<uint64_t>>(bytes / 8 + 1));
    std::memcpy(tensors_.back()->data(), content, bytes);
    return reinterpret_cast<std::byte*>(tensors_.back()->data());
  }
  std::vector<std::byte> Read(const std::byte* tensor, uint64_t bytes) { return {tensor, tensor + bytes}; }
  void StartOp(uint64_t /*ticket*/, std::byte* /*tensor*/, uint64_t /*bytes*/, uint16_t /*group*/ = 0) {}

 private:
  sim::World world_{7};
  SteppingStager stager_{&world_};
  std::vector<std::unique_ptr<std::vector<uint64_t>>> tensors_;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Sim, StagerSuite, SimHarness);

}  // namespace
}  // namespace shoal
