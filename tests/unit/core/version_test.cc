#include "core/version.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(VersionTest, TwoReleasesNeedAVersionThatBothSpeak) {
  // Of this side: 5, and 4 as well.
  EXPECT_TRUE(CanSpeakWith(5, 4, 5, 4));
  EXPECT_TRUE(CanSpeakWith(4, 3, 5, 4)) << "one back";
  EXPECT_TRUE(CanSpeakWith(6, 5, 5, 4)) << "one ahead";
  EXPECT_FALSE(CanSpeakWith(3, 2, 5, 4)) << "two back";
  EXPECT_FALSE(CanSpeakWith(7, 6, 5, 4)) << "two ahead";
}

TEST(VersionTest, APeerThatSaysNoOldestVersionSpeaksOneAlone) {
  EXPECT_TRUE(CanSpeakWith(4, 0, 5, 4));
  EXPECT_FALSE(CanSpeakWith(3, 0, 5, 4));
  EXPECT_FALSE(CanSpeakWith(6, 0, 5, 4));
  EXPECT_FALSE(CanSpeakWith(0, 0, 5, 4)) << "one that says nothing at all";
}

}  // namespace
}  // namespace shoal
