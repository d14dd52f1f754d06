#include "core/colocation.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(Colocation, NamesAndNumbersComeBack) {
  for (const Colocation colocation : {Colocation::kOff, Colocation::kAuto, Colocation::kOn}) {
    EXPECT_EQ(ColocationFromName(ColocationName(colocation)), colocation);
    EXPECT_EQ(ColocationFromNumber(static_cast<uint32_t>(colocation)), colocation);
  }
}

TEST(Colocation, OtherNamesAndNumbersAreNone) {
  for (const uint32_t number : {3u, 256u, UINT32_MAX}) EXPECT_FALSE(ColocationFromNumber(number).has_value());
  for (const char* name : {"", "On", "yes", "unknown"}) EXPECT_FALSE(ColocationFromName(name).has_value()) << name;
}

}  // namespace
}  // namespace shoal
