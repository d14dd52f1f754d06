#include "core/name.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string WhyNot(const std::string& name) { return std::string(CheckName("job name", name).message()); }

TEST(Name, WhatProgramsGiveIsAName) {
  for (const char* const name : {"gpt", "0", "dp_cp-1.2", "0:split:3", "node-7.rack2.example", "10.0.0.1-29500-0-x",
                                 "spiffe://prod.example/ns/train/sa/job"}) {
    EXPECT_TRUE(CheckName("job name", name).ok()) << name;
  }
  EXPECT_TRUE(CheckName("job name", std::string(kMaxNameBytes, 'x')).ok());
}

TEST(Name, ARefusalSaysWhichNameWhereAndWhatIsAllowed) {
  EXPECT_EQ(CheckName("job name", "my job").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WhyNot("my job"),
            "job name \"my job\" has a space after 2 bytes; give 1 to 200 ASCII letters, digits and the characters "
            ". _ - : /");
  EXPECT_THAT(WhyNot("z\u00fcrich"), HasSubstr("has '\u00fc' after 1 bytes"));
  EXPECT_THAT(WhyNot("a\x1b[31m"), AllOf(HasSubstr("\"a\\x1b[31m\""), HasSubstr("has '\\x1b' after 1 bytes")));
  EXPECT_THAT(WhyNot("a\xff"), HasSubstr("has '\\xff' after 1 bytes"));
  EXPECT_THAT(WhyNot(std::string("a\0b", 3)), HasSubstr("has '\\x00' after 1 bytes"));
  EXPECT_THAT(WhyNot(""), HasSubstr("has 0 bytes; give 1 to 200"));
  EXPECT_THAT(WhyNot(std::string(kMaxNameBytes + 1, 'x')), HasSubstr("has 201 bytes; give 1 to 200"));
  EXPECT_LT(WhyNot(std::string(5 << 20, '\x1b')).size(), 2000u);
  for (const char odd : std::string("\"'\\<>&;|$`(){}[]*?!#%+=,@~^\n\t ")) {
    EXPECT_FALSE(CheckName("job name", std::string("a") + odd).ok()) << odd;
  }
}

}  // namespace
}  // namespace shoal
