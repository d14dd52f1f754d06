// `shoalctl schedulers` against a real scheduler, and one that is not there.
#include "cli/schedulers.h"

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/shoalctl.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "tests/unit/cli/started_scheduler.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kPatienceMs = 5000;

TEST(SchedulersTest, EachIsAskedByItself) {
  const std::unique_ptr<Scheduler> scheduler = StartScheduler();
  const std::vector<AskedScheduler> asked =
      AskEachScheduler(absl::StrCat(scheduler->address(), ",127.0.0.1:1"), kPatienceMs);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[0].answer.ok() && asked[0].leads) << asked[0].answer;
  EXPECT_FALSE(asked[0].cluster_id.empty());
  EXPECT_FALSE(asked[1].answer.ok() || asked[1].leads);
  EXPECT_THAT(SchedulersText(asked),
              AllOf(StartsWith("SCHEDULER "), HasSubstr(absl::StrCat("leads  ", asked[0].cluster_id)),
                    HasSubstr("no answer"), HasSubstr("Connection refused")));
  EXPECT_THAT(SchedulersJson(asked), AllOf(HasSubstr("\"answers\":true,\"leads\":true"),
                                           HasSubstr("\"answers\":false,\"leads\":false,\"cluster_id\":\"\"")));
}

TEST(SchedulersTest, ThatNoneAnswersIsAnError) {
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(RunShoalctl({"schedulers", "--scheduler", "127.0.0.1:1"}, out, err), kExitFailure);
  EXPECT_THAT(out.str(), HasSubstr("Connection refused"));
  EXPECT_EQ(err.str(), "shoalctl: no scheduler answers\n");
}

}  // namespace
}  // namespace shoal::cli
