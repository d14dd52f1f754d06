// The sockets alone, without UCX.
#include "net/ucx/handshake_sockets.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "tests/conformance/open_file_limit.h"
#include "tests/unit/loopback_socket.h"
#include "tests/unit/net/raw_socket.h"

namespace shoal {
namespace {

class HandshakeSocketsTest : public testing::Test {
 protected:
  HandshakeSocketsTest() : sockets_(*HandshakeSockets::Make()) { EXPECT_TRUE(sockets_->Listen("127.0.0.1", 0).ok()); }

  // Polls, sleeping in between as a loop does, until `done`.
  bool PollUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      for (const HandshakeEvent& event : sockets_->Poll()) {
        greeted_ += event.kind == HandshakeEvent::Kind::kGreeted;
        ended_ += event.kind == HandshakeEvent::Kind::kEnded;
      }
      ++polls_;
      if (!sockets_->HasWork()) WaitReadable({sockets_->fd()}, 10'000'000);
    }
    return done();
  }

  static Bytes Greeting() {
    HandshakeMessage greeting;
    greeting.port = 4711;
    return EncodeHandshake(greeting);
  }

  OpenFileLimit limit_;
  std::unique_ptr<HandshakeSockets> sockets_;
  int greeted_ = 0;
  int ended_ = 0;
  int polls_ = 0;
};

TEST_F(HandshakeSocketsTest, WhoSaysNothingMakesRoomForWhoGreets) {
  RawSocket silent = RawSocket::ConnectTo(sockets_->listen_address());
  RawSocket friendly = RawSocket::ConnectTo(sockets_->listen_address());
  friendly.Say(Greeting());
  limit_.Leave(1);
  ASSERT_TRUE(PollUntil([&] { return greeted_ == 1; }));
  EXPECT_TRUE(silent.HasEnded());
  EXPECT_FALSE(friendly.HasEnded());
}

TEST_F(HandshakeSocketsTest, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  RawSocket friendly = RawSocket::ConnectTo(sockets_->listen_address());
  friendly.Say(Greeting());
  limit_.Leave(0);
  const auto begin = std::chrono::steady_clock::now();
  PollUntil([&] { return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(300); });
  EXPECT_EQ(greeted_, 0);
  EXPECT_LT(polls_, 100) << "asks again and again for what there is not";
  limit_.Restore();
  EXPECT_TRUE(PollUntil([&] { return greeted_ == 1; }));
}

TEST_F(HandshakeSocketsTest, ADescriptorIsWatchedUntilThatIsOver) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const int copy = dup(ends[0]);  // as a forked child has one
  ASSERT_TRUE(sockets_->Watch(ends[0]).ok());
  EXPECT_FALSE(WaitReadable({sockets_->fd()}, 0));
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  EXPECT_TRUE(WaitReadable({sockets_->fd()}, 0));
  sockets_->Unwatch(ends[0]);
  close(ends[0]);
  EXPECT_FALSE(WaitReadable({sockets_->fd()}, 0));
  close(copy);
  close(ends[1]);
}

// A listener whose queue is full answers attempts to connect as a silent path does: not at all.
TEST_F(HandshakeSocketsTest, AnAttemptThatFindsNoAnswerFailsSoonEnoughToBeginAnother) {
  const LoopbackSocket listener(0);
  const RawSocket in_the_queue = RawSocket::ConnectTo(listener.address());
  HandshakeMessage greeting;
  greeting.port = 4711;
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<ConnectionId> dialed = sockets_->Dial(*ParseSocketAddress(listener.address()), greeting);
  ASSERT_TRUE(dialed.ok());
  ASSERT_TRUE(PollUntil([&] { return ended_ == 1; }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "the kernel's own limit is 127 s";
}

TEST_F(HandshakeSocketsTest, AnotherListenerOnThePortIsRefusedWithItsName) {
  const std::string address = sockets_->listen_address();
  const std::unique_ptr<HandshakeSockets> other = *HandshakeSockets::Make();
  const absl::Status taken = other->Listen("127.0.0.1", PortOf(*ParseSocketAddress(address)));
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  EXPECT_NE(taken.ToString().find(address), std::string::npos) << taken;
}

}  // namespace
}  // namespace shoal
