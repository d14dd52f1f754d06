#include "process/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class OpenFiles : public ::testing::Test {
 protected:
  OpenFiles() { EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0); }
  ~OpenFiles() override {
    for (const int fd : opened_) close(fd);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
  }

  void Allow(rlim_t files) {
    rlimit limit = before_;
    limit.rlim_cur = files;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  bool Open() {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) opened_.push_back(fd);
    return fd >= 0;
  }

  rlimit before_{};
  std::vector<int> opened_;
};

TEST_F(OpenFiles, AsManyAreLeftAsCanBeOpened) {
  Allow(100);
  while (CheckFilesLeft(5).ok()) ASSERT_TRUE(Open());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Open()) << i;
  EXPECT_FALSE(Open());
}

TEST_F(OpenFiles, AShortageSaysTheLimitAndWhatToDo) {
  Allow(20);
  const absl::Status status = CheckFilesLeft(kFilesToStart);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("may have 20, and wants 48 more; raise the limit with ulimit -n"));
  while (Open()) {
  }
  EXPECT_THAT(std::string(CheckFilesLeft(1).message()), HasSubstr("has 20 files and sockets open")) << "none for /proc";
}

TEST_F(OpenFiles, TheLimitIsRaisedAsFarAsItMayBe) {
  Allow(20);
  RaiseOpenFileLimit();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, std::min<rlim_t>(before_.rlim_max, 1 << 20));
}

}  // namespace
}  // namespace shoal
