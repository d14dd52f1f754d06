#include "worker/device/local_devices.h"

#include <memory>

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

}  // namespace
}  // namespace shoal
