// Sleeps on one descriptor, an epoll or another one, and on several.
#include "net/wake_up.h"

#include <sys/epoll.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <thread>

#include "core/now.h"
#include "gtest/gtest.h"
#include "net/peer_socket.h"
#include "process/clock.h"

namespace shoal {
namespace {

constexpr int64_t kLongNs = 30 * static_cast<int64_t>(kNsPerS);
constexpr int64_t kShortNs = 20 * static_cast<int64_t>(kNsPerMs);

class WaitReadableTest : public ::testing::Test {
 protected:
  WaitReadableTest() : wake_up_(*WakeUp::Make()), other_(*WakeUp::Make()), epoll_(*MakeEpoll()) {
    EXPECT_TRUE(WatchBorrowed(wake_up_->fd(), epoll_.get(), /*key=*/7).ok());
  }

  void Check(std::initializer_list<int> fds) {
    EXPECT_FALSE(WaitReadable(fds, 0));
    EXPECT_FALSE(WaitReadable(fds, -1)) << "a deadline that is over";
    const uint64_t began_ns = MonotonicNs();
    EXPECT_FALSE(WaitReadable(fds, kShortNs));
    EXPECT_GE(MonotonicNs() - began_ns, static_cast<uint64_t>(kShortNs));
    std::thread caller([this] { wake_up_->Signal(); });
    EXPECT_TRUE(WaitReadable(fds, kLongNs));
    caller.join();
    EXPECT_TRUE(WaitReadable(fds, std::nullopt)) << "it stays readable";
    epoll_event event{};
    EXPECT_EQ(epoll_wait(epoll_.get(), &event, 1, 0), 1) << "what woke the sleeper is there to be taken";
    EXPECT_EQ(event.data.u64, 7u);
    wake_up_->Drain();
    EXPECT_FALSE(WaitReadable(fds, 0));
  }

  const std::unique_ptr<WakeUp> wake_up_;
  const std::unique_ptr<WakeUp> other_;
  const FileDescriptor epoll_;
};

TEST_F(WaitReadableTest, AnEpollAlone) { Check({epoll_.get()}); }

TEST_F(WaitReadableTest, AnEpollBesideADescriptorThatIsNone) { Check({epoll_.get(), -1}); }

TEST_F(WaitReadableTest, OneDescriptorThatIsNoEpoll) { Check({wake_up_->fd()}); }

TEST_F(WaitReadableTest, SeveralDescriptors) { Check({other_->fd(), epoll_.get()}); }

TEST_F(WaitReadableTest, NoDescriptorAtAllSleepsUntilTheDeadline) {
  const uint64_t began_ns = MonotonicNs();
  EXPECT_FALSE(WaitReadable({-1}, kShortNs));
  EXPECT_GE(MonotonicNs() - began_ns, static_cast<uint64_t>(kShortNs));
}

}  // namespace
}  // namespace shoal
