#include "process/write_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WriteFile, ReplacesWhatIsThere) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / ("file-" + std::to_string(getpid()))).string();
  ASSERT_TRUE(WriteFile(path, "a long text").ok());
  ASSERT_TRUE(WriteFile(path, "short").ok());
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "short");
  std::filesystem::remove(path);
}

TEST(WriteFile, SaysWhyItCanNot) {
  const absl::Status missing = WriteFile("/nowhere/at/all.json", "text");
  EXPECT_EQ(missing.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("/nowhere/at/all.json"), HasSubstr("No such file or directory")));
  EXPECT_THAT(WriteFile("/dev/full", "text").message(), HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace shoal
