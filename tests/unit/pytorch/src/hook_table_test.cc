// Hooks may come and go while others are called.
#include "pytorch/src/hook_table.h"

#include <chrono>
#include <future>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::pytorch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HookTable, CallsThoseThatAreThere) {
  HookTable<int> table;
  std::vector<int> called;
  EXPECT_TRUE(table.empty());
  table.CallAll(1);
  EXPECT_TRUE(table.Add(7, [&](int value) { called.push_back(value); }));
  EXPECT_TRUE(table.Add(8, [&](int value) { called.push_back(10 * value); }));
  EXPECT_FALSE(table.Add(7, [&](int) { ADD_FAILURE() << "the first one of a number stays"; }));
  EXPECT_FALSE(table.empty());
  table.CallAll(2);
  EXPECT_THAT(called, ElementsAre(2, 20));
  called.clear();
  table.Remove(7);
  table.Remove(7);
  table.CallAll(3);
  EXPECT_THAT(called, ElementsAre(30));
  called.clear();
  table.Remove(8);
  EXPECT_TRUE(table.empty());
  table.CallAll(4);
  EXPECT_THAT(called, IsEmpty());
}

// Whoever removes a hook may hold a lock for which the hook waits.
TEST(HookTable, AHookIsRemovedWhileItWaits) {
  HookTable<int> table;
  std::promise<void> removed;
  bool removed_in_time = false;
  table.Add(1, [&](int) {
    removed_in_time = removed.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  });
  std::promise<void> began;
  table.Add(0, [&](int) { began.set_value(); });
  std::future<void> call = std::async(std::launch::async, [&] { table.CallAll(1); });
  began.get_future().wait();
  table.Remove(1);
  removed.set_value();
  call.wait();
  EXPECT_TRUE(removed_in_time);
}

}  // namespace
}  // namespace shoal::pytorch
