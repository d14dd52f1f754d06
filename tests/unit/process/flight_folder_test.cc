#include "process/flight_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class FlightFolderTest : public testing::Test {
 protected:
  FlightFolderTest() : path_(std::filesystem::path(testing::TempDir()) / ("flights-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~FlightFolderTest() override { std::filesystem::remove_all(path_); }

  std::unique_ptr<FlightFolder> Start() {
    return FlightFolder::Start(path_.string(), [this](std::string sentence) { said_.push_back(std::move(sentence)); })
        .value();
  }
  std::vector<std::filesystem::path> Files() const {
    return {std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()};
  }

  const std::filesystem::path path_;
  std::vector<std::string> said_;  // to be read when the folder has ended
};

TEST_F(FlightFolderTest, WritesAFileAndSaysWhere) {
  Start()->Save("shoal-a/b c-rank-3", "what happened\n");
  ASSERT_THAT(Files(), SizeIs(1));
  EXPECT_THAT(Files()[0].filename().string(), testing::StartsWith("shoal-a-b-c-rank-3-"));
  std::stringstream text;
  text << std::ifstream(Files()[0]).rdbuf();
  EXPECT_EQ(text.str(), "what happened\n");
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], HasSubstr("what happened before is in " + Files()[0].string()));
}

TEST_F(FlightFolderTest, WritesNoMoreThanSoManyInAnHour) {
  {
    const std::unique_ptr<FlightFolder> folder = Start();
    for (size_t i = 0; i < FlightFolder::kMostFilesAnHour; ++i) {
      EXPECT_TRUE(folder->HasRoom());
      folder->Save("same", "text");
    }
    EXPECT_FALSE(folder->HasRoom());
    folder->Save("same", "text");
  }
  EXPECT_THAT(Files(), SizeIs(FlightFolder::kMostFilesAnHour));
}

TEST_F(FlightFolderTest, SaysWhatItCouldNotWrite) {
  {
    const std::unique_ptr<FlightFolder> folder = Start();
    std::filesystem::remove_all(path_);
    folder->Save("late", "text");
  }
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], AllOf(HasSubstr("could not be written to"), HasSubstr(": No such file or directory")));
}

TEST_F(FlightFolderTest, AFolderThatCanNotBeUsedIsRefusedWithTheReason) {
  const auto refusal = [](const std::string& folder) {
    const auto started = FlightFolder::Start(folder, [](const std::string&) {});
    EXPECT_EQ(started.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(started.status().message());
  };
  EXPECT_THAT(refusal("/no/such/folder"), HasSubstr("/no/such/folder: No such file"));
  std::ofstream(path_ / "file") << "x";
  EXPECT_THAT(refusal((path_ / "file").string()), HasSubstr("it is not a folder"));
}

}  // namespace
}  // namespace shoal
