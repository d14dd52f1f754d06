// Hooks may come and go while others are called, and may throw.
#include "pytorch/src/hook_table.h"

#include <chrono>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal::pytorch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void CallAll(const HookTable<int>& table, int value) {
  table.CallAll(value, [](const std::exception& error) { ADD_FAILURE() << error.what(); });
}

TEST(HookTable, CallsThoseThatAreThere) {
  HookTable<int> table;
  std::vector<int> called;
  EXPECT_TRUE(table.empty());
  CallAll(table, 1);
  EXPECT_TRUE(table.Add(7, [&](int value) { called.push_back(value); }));
  EXPECT_TRUE(table.Add(8, [&](int value) { called.push_back(10 * value); }));
  EXPECT_FALSE(table.Add(7, [&](int) { ADD_FAILURE() << "the first one of a number stays"; }));
  EXPECT_FALSE(table.empty());
  CallAll(table, 2);
  EXPECT_THAT(called, ElementsAre(2, 20));
  called.clear();
  table.Remove(7);
  table.Remove(7);
  CallAll(table, 3);
  EXPECT_THAT(called, ElementsAre(30));
  called.clear();
  table.Remove(8);
  EXPECT_TRUE(table.empty());
  CallAll(table, 4);
  EXPECT_THAT(called, IsEmpty());
}

TEST(HookTable, WhatAHookThrowsKeepsNoOtherFromBeingCalled) {
  HookTable<int> table;
  int called = 0;
  table.Add(1, [](int) { throw std::runtime_error("wrong"); });
  table.Add(2, [&](int value) { called = value; });
  table.Add(3, [](int) { throw std::runtime_error("also wrong"); });
  std::vector<std::string> errors;
  table.CallAll(5, [&](const std::exception& error) { errors.emplace_back(error.what()); });
  EXPECT_EQ(called, 5);
  EXPECT_THAT(errors, ElementsAre("wrong", "also wrong"));
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
  std::future<void> call = std::async(std::launch::async, [&] { CallAll(table, 1); });
  began.get_future().wait();
  table.Remove(1);
  removed.set_value();
  call.wait();
  EXPECT_TRUE(removed_in_time);
}

}  // namespace
}  // namespace shoal::pytorch
