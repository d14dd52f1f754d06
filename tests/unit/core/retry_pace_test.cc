#include "core/retry_pace.h"

#include "core/now.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr uint64_t kFirstNs = 100 * kNsPerMs;
constexpr uint64_t kLongestNs = kNsPerS;

TEST(RetryPace, WaitsTwiceAsLongEachTimeUpToTheLimitAndBeginsAnewAfterSuccess) {
  Jitter jitter(7);
  RetryPace pace(kFirstNs, kLongestNs);
  for (const uint64_t most_ns : {kFirstNs, 2 * kFirstNs, 4 * kFirstNs, 8 * kFirstNs, kLongestNs, kLongestNs}) {
    const uint64_t wait_ns = pace.Next(&jitter);
    EXPECT_GE(wait_ns, most_ns / 2);
    EXPECT_LE(wait_ns, most_ns);
  }
  pace.Reset();
  EXPECT_LE(pace.Next(&jitter), kFirstNs);
}

TEST(Jitter, SpreadsThoseWithDifferentSeedsAndRepeatsItselfForOne) {
  Jitter one(1);
  Jitter same(1);
  Jitter other(2);
  uint64_t equal_to_other = 0;
  for (int draw = 0; draw < 100; ++draw) {
    const uint64_t wait_ns = one.Of(kNsPerS);
    EXPECT_EQ(wait_ns, same.Of(kNsPerS));
    equal_to_other += wait_ns == other.Of(kNsPerS) ? 1 : 0;
  }
  EXPECT_EQ(equal_to_other, 0u);
}

}  // namespace
}  // namespace shoal
