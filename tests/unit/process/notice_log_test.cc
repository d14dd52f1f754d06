#include "process/notice_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "process/file_descriptor.h"

namespace shoal {
namespace {

// Standard error is a pipe; the test reads it, or does not.
class NoticeLogTest : public ::testing::Test {
 protected:
  NoticeLogTest() : saved_(dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    reading_ = FileDescriptor(ends[0]);
    EXPECT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
  }
  ~NoticeLogTest() override { dup2(saved_.get(), STDERR_FILENO); }

  std::string ReadSome(size_t most_bytes) const {
    std::string text(most_bytes, '\0');
    const ssize_t got = read(reading_.get(), text.data(), text.size());
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return text;
  }
  static std::string LongLine() { return std::string(8000, 'x'); }

  FileDescriptor saved_;
  FileDescriptor reading_;
};

TEST_F(NoticeLogTest, ItsEndWritesWhatIsLeft) {
  std::unique_ptr<NoticeLog> log = NoticeLog::Start("rank 3: ", /*quiet=*/false).value();
  EXPECT_TRUE(log->Say("one"));
  EXPECT_TRUE(log->Say("two"));
  log.reset();
  EXPECT_EQ(ReadSome(100), "rank 3: one\nrank 3: two\n");
}

TEST_F(NoticeLogTest, ItsEndIsNotKeptByAPipeThatNobodyReads) {
  std::unique_ptr<NoticeLog> log = NoticeLog::Start("", /*quiet=*/false).value();
  for (int line = 0; line < 50; ++line) EXPECT_TRUE(log->Say(LongLine()));
  const auto begin = std::chrono::steady_clock::now();
  log.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  // The thread hangs in its write, and ends when that does.
  reading_.Reset();
}

TEST_F(NoticeLogTest, ASlowReaderGetsEveryLine) {
  constexpr size_t kLines = 40;
  std::unique_ptr<NoticeLog> log = NoticeLog::Start("", /*quiet=*/false, std::chrono::minutes(1)).value();
  for (size_t line = 0; line < kLines; ++line) EXPECT_TRUE(log->Say(LongLine()));
  size_t bytes = 0;
  std::thread reader([&] {
    while (bytes < kLines * (LongLine().size() + 1)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      bytes += ReadSome(16'000).size();
    }
  });
  log.reset();
  reader.join();
  EXPECT_EQ(bytes, kLines * (LongLine().size() + 1));
}

}  // namespace
}  // namespace shoal
