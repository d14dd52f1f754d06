// Which identity has which role.
#include "core/caller.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Caller, IdentitiesOfTheDefaultFormHaveTheirRole) {
  const IdentityRules rules;
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kServer, Role::kScheduler}) {
    const std::string identity = "spiffe://a.example/shoal/" + std::string(RoleName(role));
    EXPECT_EQ(rules.Find(identity), (Caller{identity, role, ""})) << identity;
  }
  const std::string worker = "spiffe://a.example/shoal/worker/vision";
  EXPECT_EQ(rules.Find(worker), (Caller{worker, Role::kWorker, "vision"}));
  EXPECT_EQ(CallerText(*rules.Find(worker)), worker + " (worker of tenant vision)");
}

TEST(Caller, OtherIdentitiesHaveNone) {
  for (const char* const identity :
       {"", "spiffe://a/shoal/worker", "spiffe://a/shoal/worker/", "spiffe://a/shoal/worker/x/y",
        "spiffe://a/shoal/server/x", "spiffe:///shoal/server", "spiffe://a/other/server", "spiffe://a/shoal/Server",
        "spiffe://a/x/shoal/server", "https://a/shoal/server", "server", "spiffe://a/shoal/root",
        "spiffe://a/shoal/worker/b\x1b[31m", "spiffe://a/shoal/worker/two words"}) {
    EXPECT_EQ(IdentityRules().Find(identity), std::nullopt) << identity;
  }
}

TEST(Caller, TheFirstRuleThatFitsCounts) {
  const absl::StatusOr<IdentityRules> rules = IdentityRules::Parse(
      "# who is who\n\n"
      "spiffe://a/ns/train/sa/admin operator\n"
      "spiffe://a/ns/train/*\tworker train\r\n"
      "metrics.example viewer\n");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->Find("spiffe://a/ns/train/sa/admin")->role, Role::kOperator);
  EXPECT_EQ(rules->Find("spiffe://a/ns/train/sa/job")->tenant, "train");
  EXPECT_EQ(rules->Find("metrics.example")->role, Role::kViewer);
  EXPECT_EQ(rules->Find("metrics.example.org"), std::nullopt);
  EXPECT_EQ(rules->Find("spiffe://a/shoal/operator"), std::nullopt) << "with a file, the default form has no role";
  EXPECT_EQ(rules->FindFirst({"x", "metrics.example", "spiffe://a/ns/train/sa/admin"})->role, Role::kViewer);
  EXPECT_EQ(IdentityRules::Parse("")->Find("spiffe://a/shoal/operator"), std::nullopt);
}

TEST(Caller, WrongLinesAreNamed) {
  for (const char* const line :
       {"a", "a root", "a worker", "a worker x y", "a server x", "a Viewer", "a? viewer", "a worker b%c"}) {
    const absl::Status status = IdentityRules::Parse(std::string("b viewer\n") + line).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << line;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("line 2"), HasSubstr(line), HasSubstr("write IDENTITY")));
  }
}

}  // namespace
}  // namespace shoal
