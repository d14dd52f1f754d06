#include "process/file_descriptor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "gtest/gtest.h"

namespace shoal {
namespace {

bool IsReadable(int fd) {
  pollfd asked{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&asked, 1, 0) > 0;
}

// A socket that an epoll watches, with something to read, and the copy of it that a forked child would have.
class WatchedDescriptorTest : public ::testing::Test {
 protected:
  WatchedDescriptorTest() : epoll_(MakeEpoll().value()) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    other_end_ = FileDescriptor(ends[1]);
    copy_ = FileDescriptor(dup(ends[0]));
    EXPECT_TRUE(watched_.Watch(FileDescriptor(ends[0]), epoll_.get(), /*key=*/7).ok());
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    EXPECT_TRUE(IsReadable(epoll_.get()));
  }
  bool OtherEndHasEnded() const {
    char byte = 0;
    return recv(other_end_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  FileDescriptor epoll_;
  FileDescriptor other_end_;
  FileDescriptor copy_;
  WatchedDescriptor watched_;
};

TEST_F(WatchedDescriptorTest, IsWatchedNoLongerOnceItIsClosedAlthoughThereIsACopy) {
  watched_.Reset();
  EXPECT_FALSE(watched_.valid());
  EXPECT_FALSE(IsReadable(epoll_.get()));
  EXPECT_FALSE(OtherEndHasEnded()) << "the copy holds it";
}

TEST_F(WatchedDescriptorTest, HangsUpAlthoughThereIsACopy) {
  watched_.HangUp();
  EXPECT_FALSE(IsReadable(epoll_.get()));
  EXPECT_TRUE(OtherEndHasEnded());
}

TEST_F(WatchedDescriptorTest, IsWatchedNoLongerOnceItIsItsCallers) {
  const FileDescriptor released = watched_.Release();
  EXPECT_TRUE(IsReadable(released.get()));
  EXPECT_FALSE(IsReadable(epoll_.get()));
}

TEST_F(WatchedDescriptorTest, MovesWithItsOwner) {
  WatchedDescriptor moved = std::move(watched_);
  EXPECT_TRUE(IsReadable(epoll_.get()));
  moved = WatchedDescriptor();
  EXPECT_FALSE(IsReadable(epoll_.get()));
}

TEST_F(WatchedDescriptorTest, MakesRoomForTheNext) {
  FileDescriptor timer(dup(copy_.get()));
  ASSERT_TRUE(watched_.Watch(std::move(timer), epoll_.get(), /*key=*/8).ok());
  epoll_event event{};
  ASSERT_EQ(epoll_wait(epoll_.get(), &event, 1, 0), 1);
  EXPECT_EQ(event.data.u64, 8u);
  watched_.WatchFor(0);
  EXPECT_FALSE(IsReadable(epoll_.get()));
  watched_.WatchFor(EPOLLIN);
  EXPECT_TRUE(IsReadable(epoll_.get()));
}

TEST(WatchedDescriptor, WhatCannotBeWatchedIsAnErrorAndIsClosed) {
  const FileDescriptor epoll = MakeEpoll().value();
  WatchedDescriptor watched;
  const absl::Status status = watched.Watch(FileDescriptor(open("/proc/self/exe", O_RDONLY)), epoll.get(), 1);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << "files can't be watched: " << status;
  EXPECT_FALSE(watched.valid());
}

}  // namespace
}  // namespace shoal
