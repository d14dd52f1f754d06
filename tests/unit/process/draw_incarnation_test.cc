#include "process/draw_incarnation.h"

#include <set>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(DrawIncarnation, NoLifeIsTakenForAnother) {
  std::set<Incarnation> drawn;
  for (int process = 0; process < 1000; ++process) {
    const absl::StatusOr<Incarnation> incarnation = DrawIncarnation();
    ASSERT_TRUE(incarnation.ok()) << incarnation.status();
    EXPECT_NE(*incarnation, Incarnation());
    EXPECT_TRUE(drawn.insert(*incarnation).second);
  }
}

}  // namespace
}  // namespace shoal
