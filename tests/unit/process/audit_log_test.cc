// Lines survive whatever happens to the process, the file's name and the disk.
#include "process/audit_log.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/mutex.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

LogEvent Call(const std::string& object) {
  CallFacts facts;
  facts.who = "spiffe://a.example/shoal/operator";
  facts.role = "operator";
  facts.from = "10.0.0.7:51234";
  facts.call = "DrainServer";
  facts.object = object;
  facts.outcome = "ok";
  return {.kind = EventKind::kCallMade, .call = std::make_shared<const CallFacts>(facts)};
}

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    std::string pattern = ::testing::TempDir() + "/shoal-audit-XXXXXX";
    path_ = std::string(mkdtemp(pattern.data())) + "/audit.json";
  }

  std::unique_ptr<AuditLog> Start() {
    auto audit = AuditLog::Start(path_, [this](const LogEvent& event) {
      const MutexLock lock(mutex_);
      told_.push_back(std::string(EventKey(event.kind)) + " " + event.text);
    });
    EXPECT_TRUE(audit.ok()) << audit.status();
    return *std::move(audit);
  }
  static std::vector<std::string> LinesOf(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::vector<std::string> AwaitLines(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (LinesOf(path_).size() < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return LinesOf(path_);
  }
  std::vector<std::string> Told() {
    const MutexLock lock(mutex_);
    return told_;
  }

  std::string path_;
  Mutex mutex_;
  std::vector<std::string> told_;
};

TEST_F(AuditLogTest, EachCallIsALineAndThoseOfTheProcessBeforeStay) {
  Start()->Write(Call("server \"alpha\""));
  {
    const auto again = Start();
    again->Write({.kind = EventKind::kServerLost, .text = "no call"});
    again->Write(Call("server \"b\x1b\""));
  }
  const std::vector<std::string> lines = LinesOf(path_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], AllOf(HasSubstr(R"("event":"call")"), HasSubstr(R"("who":"spiffe://a.example/shoal/operator")"),
                              HasSubstr(R"("role":"operator","from":"10.0.0.7:51234","call":"DrainServer")"),
                              HasSubstr(R"("object":"server \"alpha\"","outcome":"ok"})")));
  EXPECT_THAT(lines[1], HasSubstr(R"(server \"b\u001b\")"));
  struct stat file {};
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07u, 0u) << "others can't read it";
}

TEST_F(AuditLogTest, AFileThatWasRenamedIsMadeAnew) {
  const auto audit = Start();
  audit->Write(Call("a"));
  ASSERT_EQ(AwaitLines(1).size(), 1u);
  ASSERT_EQ(std::rename(path_.c_str(), (path_ + ".1").c_str()), 0);
  audit->Write(Call("b"));
  EXPECT_THAT(AwaitLines(1), ::testing::ElementsAre(HasSubstr("\"b\"")));
  EXPECT_THAT(LinesOf(path_ + ".1"), ::testing::ElementsAre(HasSubstr("\"a\"")));
}

// As logrotate does with "create".
TEST_F(AuditLogTest, AnotherFileInItsPlaceIsWrittenFromThenOn) {
  const auto audit = Start();
  audit->Write(Call("a"));
  ASSERT_EQ(AwaitLines(1).size(), 1u);
  std::ofstream(path_ + ".new");
  ASSERT_EQ(std::rename(path_.c_str(), (path_ + ".1").c_str()), 0);
  ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  audit->Write(Call("b"));
  EXPECT_THAT(AwaitLines(1), ::testing::ElementsAre(HasSubstr("\"b\"")));
  EXPECT_THAT(LinesOf(path_ + ".1"), ::testing::ElementsAre(HasSubstr("\"a\"")));
}

// As on a full disk, a write takes a part of the line, and the next one nothing.
TEST_F(AuditLogTest, WhatADiskHasNoRoomForIsWrittenWhenItHas) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto audit = Start();
  audit->Write(Call("a"));
  const size_t line_bytes = AwaitLines(1)[0].size() + 1;
  const rlimit little{.rlim_cur = line_bytes + line_bytes / 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  audit->Write(Call("b"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (Told().empty() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  audit->Write(Call("c"));
  setrlimit(RLIMIT_FSIZE, &before);
  const std::vector<std::string> lines = AwaitLines(3);
  ASSERT_EQ(lines.size(), 3u);
  for (const std::string& line : lines) {
    EXPECT_THAT(line, AllOf(StartsWith("{\"time\""), HasSubstr("\"outcome\":\"ok\"}"))) << "each line is whole";
  }
  while (Told().size() < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  ASSERT_EQ(Told().size(), 2u);
  EXPECT_THAT(Told()[0], AllOf(StartsWith("audit-log-failed "), HasSubstr(path_), HasSubstr("calls go on")));
  EXPECT_THAT(Told()[1], AllOf(StartsWith("audit-log-written "), HasSubstr("lacks 0 lines")));
}

TEST_F(AuditLogTest, AFileThatCannotBeOpenedIsAnErrorAtTheStart) {
  const absl::Status status = AuditLog::Start("/no/such/folder/audit.json", nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--audit-log: /no/such/folder/audit.json can't be opened"));
}

}  // namespace
}  // namespace shoal
