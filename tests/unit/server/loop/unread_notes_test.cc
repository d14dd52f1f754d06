// What a server tells a rank that does not read, over a transport that holds few notes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/frame.h"
#include "core/token.h"
#include "net/loopback/loopback_transport.h"
#include "server/loop/inline_reducer.h"
#include "server/loop/server_loop.h"

namespace shoal {
namespace {

constexpr uint64_t kUnixS = 1'800'000'000;
constexpr size_t kMostNotes = 8;
constexpr uint32_t kElements = 256;

class UnreadNotes : public testing::Test {
 protected:
  UnreadNotes() : slot_memory_(1 << 20) {
    ServerMachineOptions options;
    options.server_name = "server-a";
    options.incarnation = Incarnation(77);
    options.slot_memory_bytes = slot_memory_.size();
    options.window_bytes = 16 << 10;
    options.lease_ttl_ns = 100 * kNsPerS;
    report_ns_ = options.waiting_report_ns;
    LoopbackOptions of_server;
    of_server.limits.max_notes_per_peer = kMostNotes;
    server_ = *network_.MakeTransport(of_server);
    loop_ = std::make_unique<ServerLoop>(options, server_.get(), &reducer_, std::span(slot_memory_));
    rank_ = *network_.MakeTransport({.listen = false});
    peer_ = *rank_->Connect(server_->listen_address());
    key_ = options.token_key;
    Run();
    Read();
  }

  void Run() {
    while (loop_->RunOnce(now_)) {
    }
  }

  // What the rank finds: types of notes, and whether its connection stands.
  void Read() {
    for (const TransportEvent& event : rank_->Poll()) {
      if (event.kind == TransportEventKind::kNote) types_.push_back(DecodeHeader(event.bytes)->type);
      connected_ = connected_ && event.kind != TransportEventKind::kPeerDown;
    }
  }

  void SayHello() {
    GroupToken token;
    token.job = JobId(9);
    token.group = GroupId(1);
    token.epoch = Epoch(3);
    token.incarnation = Incarnation(1000);
    token.rank = Rank(0);
    token.group_size = 2;  // the other one never comes
    token.max_chunk_bytes = kElements * sizeof(float);
    token.expires_at_unix_s = kUnixS + 600;
    SignToken(key_, &token);
    FrameHeader hello{.type = FrameType::kHello, .group = token.group, .epoch = token.epoch, .rank = token.rank};
    ASSERT_TRUE(rank_->SendNote(peer_, MakeHello(hello, EncodeToken(token)).view()).ok());
    Run();
    Read();
    ASSERT_EQ(types_, std::vector{FrameType::kWelcome});
    types_.clear();
  }

  void Push(uint64_t op) {
    FrameHeader push{.type = FrameType::kPush, .group = GroupId(1), .epoch = Epoch(3), .op = OpNumber(op)};
    push.bucket_elements = kElements;
    push.chunk_elements = kElements;
    ASSERT_TRUE(rank_->Send(peer_, EncodeHeader(push), std::as_bytes(std::span(tensor_)), op).ok());
    Run();
  }

  LoopbackNetwork network_;
  std::vector<std::byte> slot_memory_;
  InlineReducer reducer_;
  std::unique_ptr<Transport> server_;
  std::unique_ptr<ServerLoop> loop_;
  std::unique_ptr<Transport> rank_;
  PeerId peer_;
  TokenKey key_{};
  uint64_t report_ns_ = 0;
  Now now_{.monotonic_ns = kNsPerS, .unix_ms = kUnixS * 1000};
  std::vector<float> tensor_ = std::vector<float>(kElements, 1.0F);
  std::vector<FrameType> types_;
  bool connected_ = true;
};

TEST_F(UnreadNotes, ARankThatStandsStillIsNotCutOffForBeingToldForWhomItWaits) {
  SayHello();
  Push(1);
  for (size_t i = 0; i < 5 * kMostNotes; ++i) {
    now_.monotonic_ns += report_ns_;
    Run();
  }
  Read();
  EXPECT_TRUE(connected_);
  EXPECT_EQ(types_, std::vector(kMostNotes, FrameType::kWaiting));
  // It reads again, and is told again.
  types_.clear();
  now_.monotonic_ns += report_ns_;
  Run();
  Read();
  EXPECT_EQ(types_, std::vector{FrameType::kWaiting});
}

TEST_F(UnreadNotes, ARankThatDoesNotReadWhatItMustHearIsCutOff) {
  SayHello();
  for (size_t i = 0; i <= kMostNotes; ++i) {
    ASSERT_TRUE(rank_->SendNote(peer_, MakeNote({.type = FrameType::kProbe}).view()).ok());
  }
  Run();
  Read();
  EXPECT_FALSE(connected_);
}

}  // namespace
}  // namespace shoal
