#include "worker/device/local_devices.h"

#include <chrono>
#include <latch>
#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace shoal {
namespace {

class Failures : public NodeFailures {
 public:
  bool AnyRankHasFailed() const override { return has_failed; }
  bool has_failed = false;
};

TEST(GatheringVerdictTest, WhatWasGatheredCountsUntilARankHasFailedOrItWasAborted) {
  const auto failures = std::make_shared<Failures>();
  GatheringVerdict verdict(failures);
  EXPECT_TRUE(verdict.Counts());
  failures->has_failed = true;
  EXPECT_FALSE(verdict.Counts());
  failures->has_failed = false;
  verdict.NoteAborted();
  EXPECT_FALSE(verdict.Counts());
}

// NCCL may have to wait for a device when it gives back what it has. Here it is this that waits.
class SlowToEnd : public Failures {
 public:
  explicit SlowToEnd(std::latch* may_end) : may_end_(may_end) {}
  ~SlowToEnd() override { may_end_->wait(); }

 private:
  std::latch* const may_end_;
};

TEST(LocalDevicesTest, WhoeverLetsGoOfThemDoesNotWaitAndCanWaitForTheirEnd) {
  std::latch may_end(1);
  std::shared_ptr<LocalDevices> devices =
      LocalDevices::Make(/*api=*/nullptr, /*meeting=*/{}, /*place=*/{}, std::make_shared<SlowToEnd>(&may_end));
  EXPECT_TRUE(LocalDevices::AwaitGivenBack(std::chrono::milliseconds(0))) << "nobody has let go of them";
  devices.reset();
  EXPECT_FALSE(LocalDevices::AwaitGivenBack(std::chrono::milliseconds(20)));
  may_end.count_down();
  EXPECT_TRUE(LocalDevices::AwaitGivenBack(std::chrono::seconds(30)));
}

}  // namespace
}  // namespace shoal
