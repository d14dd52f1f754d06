#include "process/flight_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "core/now.h"
#include "process/clock.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string NobodyHasIt(const FlightFolder::Record&, uint64_t) { return ""; }

class FlightFolderTest : public testing::Test {
 protected:
  FlightFolderTest() : path_(std::filesystem::path(testing::TempDir()) / ("flights-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~FlightFolderTest() override { std::filesystem::remove_all(path_); }

  std::unique_ptr<FlightFolder> Start(const std::string& choice) {
    return FlightFolder::Start(
               choice,
               [this](const FlightFolder::Record& record, uint64_t deadline_ns) { return Send(record, deadline_ns); },
               [this](std::string sentence) { said_.push_back(std::move(sentence)); })
        .value();
  }
  std::unique_ptr<FlightFolder> Start() { return Start(path_.string()); }
  std::string Send(const FlightFolder::Record& record, uint64_t deadline_ns) {
    sent_.push_back(record.text);
    send_by_ns_.push_back(deadline_ns);
    std::this_thread::sleep_for(send_takes_);
    return who_has_it_;
  }
  std::vector<std::filesystem::path> Files() const {
    return {std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()};
  }

  const std::filesystem::path path_;
  std::string who_has_it_;  // what sending says; empty: it fails
  std::chrono::milliseconds send_takes_{0};
  std::vector<std::string> said_;  // to be read when the folder has ended, as the next two
  std::vector<std::string> sent_;
  std::vector<uint64_t> send_by_ns_;
};

TEST_F(FlightFolderTest, WritesAFileAndSaysWhere) {
  Start()->Save({.name = "shoal-a/b c-rank-3", .failure = "the group failed", .text = "what happened\n"});
  ASSERT_THAT(Files(), SizeIs(1));
  EXPECT_THAT(Files()[0].filename().string(), testing::StartsWith("shoal-a-b-c-rank-3-"));
  std::stringstream text;
  text << std::ifstream(Files()[0]).rdbuf();
  EXPECT_EQ(text.str(), "what happened\n");
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], HasSubstr("the group failed; what happened before is in " + Files()[0].string()));
}

TEST_F(FlightFolderTest, WritesNoMoreThanSoManyInAnHour) {
  {
    const std::unique_ptr<FlightFolder> folder = Start();
    for (size_t i = 0; i < FlightFolder::kMostFilesAnHour; ++i) {
      EXPECT_TRUE(folder->HasRoom());
      folder->Save({.name = "same", .failure = "x", .text = "text"});
    }
    EXPECT_FALSE(folder->HasRoom());
    folder->Save({.name = "same", .failure = "x", .text = "text"});
  }
  EXPECT_THAT(Files(), SizeIs(FlightFolder::kMostFilesAnHour));
}

TEST_F(FlightFolderTest, SaysWhatItCouldNotWrite) {
  {
    const std::unique_ptr<FlightFolder> folder = Start();
    std::filesystem::remove_all(path_);
    folder->Save({.name = "late", .failure = "x", .text = "text"});
  }
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], AllOf(HasSubstr("could not be written to"), HasSubstr(": No such file or directory")));
}

TEST_F(FlightFolderTest, AFolderThatCanNotBeUsedIsRefusedWithTheReason) {
  const auto refusal = [](const std::string& folder) {
    const auto started = FlightFolder::Start(folder, NobodyHasIt, [](const std::string&) {});
    EXPECT_EQ(started.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(started.status().message());
  };
  EXPECT_THAT(refusal("/no/such/folder"), HasSubstr("/no/such/folder: No such file"));
  std::ofstream(path_ / "file") << "x";
  EXPECT_THAT(refusal((path_ / "file").string()), HasSubstr("it is not a folder"));
}

TEST_F(FlightFolderTest, NoneIsMadeWhereNoneIsAskedFor) {
  for (const char* const choice : {"", kNoFlightFolder}) {
    const auto started = FlightFolder::Start(choice, NobodyHasIt, [](const std::string&) {});
    ASSERT_TRUE(started.ok());
    EXPECT_EQ(*started, nullptr);
  }
}

TEST_F(FlightFolderTest, SendsEachRecordAlsoWhereItCouldNotBeWritten) {
  who_has_it_ = "somebody has it";
  {
    const std::unique_ptr<FlightFolder> folder = Start();
    folder->Save({.name = "a", .failure = "x", .text = "first"});
    folder->Save({.name = "a", .failure = "x", .text = "not for others", .is_sent = false});
  }
  {
    const std::unique_ptr<FlightFolder> folder = Start();
    std::filesystem::remove_all(path_);  // while nothing is being written there
    folder->Save({.name = "a", .failure = "x", .text = "last"});
  }
  EXPECT_THAT(sent_, testing::ElementsAre("first", "last"));
  ASSERT_THAT(said_, SizeIs(3));
  EXPECT_THAT(said_[2], AllOf(HasSubstr("could not be written to"), testing::EndsWith("; somebody has it")));
}

TEST_F(FlightFolderTest, WhatIsLeftAtTheEndHasTheTimeOfOneToBeSent) {
  std::unique_ptr<FlightFolder> folder = Start();
  send_takes_ = std::chrono::milliseconds(20);
  for (size_t i = 0; i < FlightFolder::kMostFilesAnHour; ++i) {
    folder->Save({.name = "a", .failure = "x", .text = "text"});
  }
  const uint64_t ends_ns = MonotonicNs();
  folder.reset();
  ASSERT_THAT(send_by_ns_, SizeIs(FlightFolder::kMostFilesAnHour));
  EXPECT_GE(send_by_ns_.back(), ends_ns + FlightFolder::kSendPatienceMs * kNsPerMs);
  EXPECT_EQ(send_by_ns_.back(), send_by_ns_[send_by_ns_.size() - 2]) << "none has more than the one before";
}

// The temporary directory is the test's own.
class OwnFlightFolderTest : public FlightFolderTest {
 protected:
  OwnFlightFolderTest() : own_(path_ / ("shoal-flights-" + std::to_string(geteuid()))) {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", path_.c_str(), 1);
  }
  ~OwnFlightFolderTest() override { before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1); }

  std::unique_ptr<FlightFolder> Start() { return FlightFolderTest::Start(kOwnFlightFolder); }
  static void Save(FlightFolder* folder) { folder->Save({.name = "shoal-x", .failure = "it failed", .text = "text"}); }
  void FailTwice() {
    const std::unique_ptr<FlightFolder> folder = Start();
    Save(folder.get());
    Save(folder.get());
  }
  size_t FilesOfOwn() const {
    return std::distance(std::filesystem::directory_iterator(own_), std::filesystem::directory_iterator());
  }
  // After two failures, of which the first says why nothing is written, and the second nothing.
  void ExpectRefused(const std::string& why) {
    said_.clear();
    FailTwice();
    ASSERT_THAT(said_, SizeIs(1));
    EXPECT_THAT(said_[0],
                AllOf(testing::StartsWith("it failed; "), HasSubstr(own_.string() + " can't be had: " + why)));
  }

  const std::filesystem::path own_;

 private:
  std::string before_;
};

TEST_F(OwnFlightFolderTest, IsMadeForThisUserAloneWhenSomethingFails) {
  {
    const std::unique_ptr<FlightFolder> folder = Start();
    EXPECT_THAT(Files(), SizeIs(0)) << "nothing has failed";
    Save(folder.get());
  }
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], HasSubstr("it failed; what happened before is in " + own_.string() + "/shoal-x-"));
  struct stat found = {};
  ASSERT_EQ(lstat(own_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode, mode_t{S_IFDIR | 0700});
  EXPECT_EQ(FilesOfOwn(), 1u);
}

TEST_F(OwnFlightFolderTest, KeepsTheNewestOfAllProcesses) {
  std::filesystem::create_directory(own_);
  std::filesystem::permissions(own_, std::filesystem::perms::owner_all);
  for (size_t i = 0; i < FlightFolder::kMostFilesOfOwn + 10; ++i) {
    const std::filesystem::path path = own_ / ("shoal-old-" + std::to_string(i) + ".txt");
    std::ofstream(path) << "x";
    std::filesystem::last_write_time(path,
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1000 - i));
  }
  std::ofstream(own_ / "notes.txt") << "not ours";
  Save(Start().get());
  EXPECT_EQ(FilesOfOwn(), FlightFolder::kMostFilesOfOwn + 1) << "with the file that is not ours";
  EXPECT_TRUE(std::filesystem::exists(own_ / "notes.txt"));
  EXPECT_FALSE(std::filesystem::exists(own_ / "shoal-old-10.txt"));
  EXPECT_TRUE(std::filesystem::exists(own_ / "shoal-old-11.txt"));
}

TEST_F(OwnFlightFolderTest, WhatSomebodyElseMayHavePutThereIsNotUsed) {
  const std::filesystem::path elsewhere = path_ / "elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, own_);
  ExpectRefused("it is a symbolic link");
  std::filesystem::remove(own_);
  std::ofstream(own_) << "x";
  ExpectRefused("it is not a folder");
  std::filesystem::remove(own_);
  std::filesystem::create_directory(own_);
  std::filesystem::permissions(own_, std::filesystem::perms::all);
  ExpectRefused("others may write to it");
  if (geteuid() == 0) {
    std::filesystem::permissions(own_, std::filesystem::perms::owner_all);
    ASSERT_EQ(chown(own_.c_str(), 1, 1), 0);
    ExpectRefused("it belongs to somebody else");
  }
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

TEST_F(OwnFlightFolderTest, WhereItCanNotBeMadeEachRecordIsSentAllTheSame) {
  setenv("TMPDIR", (path_ / "missing").c_str(), 1);
  who_has_it_ = "somebody has it";
  FailTwice();
  EXPECT_THAT(sent_, SizeIs(2));
  ASSERT_THAT(said_, SizeIs(2));
  EXPECT_THAT(said_[0], AllOf(HasSubstr("can't be had: No such file or directory"), HasSubstr("; somebody has it")));
  EXPECT_EQ(said_[1], "it failed; what happened before is not written; somebody has it");
}

TEST_F(OwnFlightFolderTest, WhereItCanNotBeMadeNothingElseHappens) {
  setenv("TMPDIR", (path_ / "missing").c_str(), 1);
  FailTwice();
  ASSERT_THAT(said_, SizeIs(1));
  EXPECT_THAT(said_[0], HasSubstr("can't be had: No such file or directory"));
}

}  // namespace
}  // namespace shoal
