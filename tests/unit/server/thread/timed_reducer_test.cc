#include "server/thread/timed_reducer.h"

#include <gtest/gtest.h>

#include <vector>

#include "server/loop/inline_reducer.h"

namespace shoal {
namespace {

TEST(TimedReducerTest, CountsTheTimeOfWorkAlone) {
  TimedReducer reducer(std::make_unique<InlineReducer>());
  uint64_t budget_bytes = UINT64_MAX;
  reducer.Work(&budget_bytes);
  EXPECT_EQ(reducer.work_ns(), 0u) << "there was nothing to do";
  std::vector<float> sum(100'000, 1.0f);
  const std::vector<float> other(sum.size(), 2.0f);
  const std::vector<const std::byte*> inputs = {reinterpret_cast<const std::byte*>(sum.data()),
                                                reinterpret_cast<const std::byte*>(other.data())};
  reducer.Start({.spec = {.op = ReduceOp::kSum},
                 .inputs = inputs,
                 .output = reinterpret_cast<std::byte*>(sum.data()),
                 .elements = static_cast<uint32_t>(sum.size())});
  EXPECT_EQ(reducer.work_ns(), 0u);
  reducer.Work(&budget_bytes);
  EXPECT_EQ(sum.back(), 3.0f);
  EXPECT_GT(reducer.work_ns(), 0u);
  const uint64_t worked_ns = reducer.work_ns();
  reducer.Work(&budget_bytes);
  EXPECT_EQ(reducer.work_ns(), worked_ns);
}

}  // namespace
}  // namespace shoal
