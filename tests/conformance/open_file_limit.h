// Takes descriptors away from this process for a while, so that a test sees what becomes of what needs them.
#ifndef SHOAL_TESTS_CONFORMANCE_OPEN_FILE_LIMIT_H_
#define SHOAL_TESTS_CONFORMANCE_OPEN_FILE_LIMIT_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace shoal {

class OpenFileLimit {
 public:
  OpenFileLimit() { EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0); }
  ~OpenFileLimit() { Restore(); }
  OpenFileLimit(const OpenFileLimit&) = delete;
  OpenFileLimit& operator=(const OpenFileLimit&) = delete;

  // The process can open at most `count` more.
  void Leave(int count) const {
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    const rlimit low = {.rlim_cur = static_cast<rlim_t>(next + count), .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  void Restore() const { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

}  // namespace shoal

#endif  // SHOAL_TESTS_CONFORMANCE_OPEN_FILE_LIMIT_H_
