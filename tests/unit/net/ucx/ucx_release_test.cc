#include "net/ucx/ucx_release.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(UcxReleaseTest, OldReleasesUnderstandEachOtherAndNewOnesThemselvesAlone) {
  const auto of = [](const char* text) { return ReleasesThatAgree(*ParseUcxRelease(text)); };
  EXPECT_EQ(of("1.13.1"), of("1.18.0"));
  EXPECT_NE(of("1.18.1"), of("1.22.0"));
  EXPECT_EQ(of("1.22.0"), of("1.22.1"));
  EXPECT_NE(of("1.22.0"), of("1.23.0"));
  EXPECT_NE(of("1.13.1"), of("2.13.1"));
  for (const char* text : {"", "1", "one.13", "1.x", "-1.2"}) EXPECT_FALSE(ParseUcxRelease(text).has_value()) << text;
}

}  // namespace
}  // namespace shoal
