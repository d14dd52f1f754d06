// The Stager port under virtual time: copies take a while, drawn anew for each, and end in any order.
//
// Until a copy ends its destination holds garbage, half a copy being no better: what is sent, pushed again or handed
// over too early gives a wrong sum. A tensor is garbage until it is ready, and not touched after its op has ended. No
// copy writes to a chunk of a tensor that another copy reads or writes. One thread (the world's).
#ifndef SHOAL_SIM_SIM_STAGER_H_
#define SHOAL_SIM_SIM_STAGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/world.h"
#include "worker/device/stager.h"
#include "worker/machine/staging_arena.h"

namespace shoal::sim {

class SimStager final : public Stager {
 public:
  // `wake` is called when Poll has something, `fail` when two copies are at odds.
  SimStager(World* world, uint64_t max_delay_ns, std::function<void()> wake,
            std::function<void(const std::string&)> fail);
  // What is under way is dropped: the process is gone.
  ~SimStager() override;
  SimStager(const SimStager&) = delete;
  SimStager& operator=(const SimStager&) = delete;

  const std::shared_ptr<StagingArena>& arena() const { return arena_; }
  // What a tensor holds until it is ready.
  static void FillWithGarbage(std::span<std::byte> memory);
  uint64_t DrawDelay() { return world_->random().Below(max_delay_ns_ + 1); }
  uint64_t copies() const { return copies_; }

  void Start(DeviceCopy copy) override;
  void EndCopies(uint64_t /*ticket*/) override {}
  void EndOp(uint64_t /*ticket*/, bool /*well*/) override {}
  void Abandon(GroupHandle group) override;
  std::span<const DeviceCopyEnded> Poll() override;
  // Its wake does what a real loop's looking again does.
  uint64_t PollWithinNs() const override { return kNoDeadline; }

 private:
  void End(uint64_t number);

  World* const world_;
  const uint64_t max_delay_ns_;
  const std::function<void()> wake_;
  const std::function<void(const std::string&)> fail_;
  // Of the size that a worker has by default, of which a simulation touches little: such pages cost nothing.
  const std::unique_ptr<std::byte, void (*)(void*)> region_;
  const std::shared_ptr<StagingArena> arena_;
  std::shared_ptr<SimStager*> alive_;         // to this; events of the world look whether it is null
  std::map<uint64_t, DeviceCopy> under_way_;  // by number
  uint64_t copies_ = 0;
  std::vector<DeviceCopyEnded> next_;
  std::vector<DeviceCopyEnded> polled_;
};

}  // namespace shoal::sim

#endif  // SHOAL_SIM_SIM_STAGER_H_
