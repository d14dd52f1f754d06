// Whose turn it is to measure a node's link.
#include "worker/library/link_turn.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "process/clock.h"

namespace shoal {
namespace {

constexpr uint64_t kLongMs = 30'000;
constexpr uint64_t kShortMs = 20;

// No other test's.
std::string Name(const std::string& of) { return absl::StrCat("link-turn-test-", getpid(), "-", of); }

TEST(LinkTurn, OneHasItAtATime) {
  std::optional<LinkTurn> first;
  first.emplace(Name("one"), DeadlineIn(kLongMs));
  EXPECT_TRUE(first->has());
  const uint64_t until_ns = DeadlineIn(kShortMs);
  EXPECT_FALSE(LinkTurn(Name("one"), until_ns).has());
  EXPECT_GE(MonotonicNs(), until_ns) << "gave up too early";
  EXPECT_TRUE(LinkTurn(Name("another"), 0).has());
  first.reset();
  EXPECT_TRUE(LinkTurn(Name("one"), 0).has()) << "it is free, and needs no time";
}

TEST(LinkTurn, WhoWaitsGetsItWhenItIsFree) {
  std::optional<LinkTurn> first;
  first.emplace(Name("wait"), DeadlineIn(kLongMs));
  bool had_it = false;
  std::thread second([&] { had_it = LinkTurn(Name("wait"), DeadlineIn(kLongMs)).has(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(kShortMs));
  first.reset();
  second.join();
  EXPECT_TRUE(had_it);
}

}  // namespace
}  // namespace shoal
