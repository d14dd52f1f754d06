// That the machine hears what came of an action before the transport's next events, and never in the middle of actions.
#include "worker/loop/worker_loop.h"

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kElements = 100;
const PeerId kServer(7);

// One server, whose events the test gives. What was sent and accepted is listed.
class OneServerTransport final : public Transport {
 public:
  struct Operation {
    FrameHeaderBytes header{};
    const std::byte* buffer = nullptr;
    uint64_t token = 0;
  };

  void Give(TransportEvent event) { next_.push_back(std::move(event)); }
  void GiveNote(const Note& note) {
    kept_.emplace_back(note.view().begin(), note.view().end());
    Give({.kind = TransportEventKind::kNote, .peer = kServer, .bytes = kept_.back()});
  }
  void GiveResultOf(const Operation& push) {
    FrameHeader header = *DecodeHeader(push.header);
    header.type = FrameType::kResult;
    header.contributors = 1;
    const FrameHeaderBytes bytes = EncodeHeader(header);
    kept_.emplace_back(bytes.begin(), bytes.end());
    Give({.kind = TransportEventKind::kOffered,
          .peer = kServer,
          .offer = OfferId(1),
          .payload_bytes = 4 * kElements,
          .bytes = kept_.back()});
  }

  absl::StatusOr<PeerId> Connect(const std::string& /*address*/) override {
    if (!connectable) return absl::InvalidArgumentError("not an address");
    return kServer;
  }
  absl::Status SendNote(PeerId /*peer*/, std::span<const std::byte> /*note*/) override { return absl::OkStatus(); }
  absl::Status Send(PeerId /*peer*/, std::span<const std::byte> header, std::span<const std::byte> payload,
                    uint64_t token) override {
    if (!takes_payloads) return absl::ResourceExhaustedError("no room");
    Operation send{.buffer = payload.data(), .token = token};
    std::copy(header.begin(), header.end(), send.header.begin());
    sends.push_back(send);
    return absl::OkStatus();
  }
  absl::Status Accept(OfferId /*offer*/, std::span<std::byte> buffer, uint64_t token) override {
    accepts.push_back({.buffer = buffer.data(), .token = token});
    return absl::OkStatus();
  }
  bool AcceptsAtOnce(OfferId /*offer*/) const override { return accepts_at_once; }
  void Decline(OfferId /*offer*/) override {}
  void Close(PeerId peer) override { closed.push_back(peer); }
  std::span<const TransportEvent> Poll() override {
    current_ = std::exchange(next_, {});
    return current_;
  }
  bool Arm() override { return next_.empty(); }
  int wake_fd() const override { return -1; }
  void Wake() override {}
  std::string listen_address() const override { return ""; }
  TransportReport Report(std::span<const PeerId> peers) const override {
    return {.description = "test", .peer_transports = std::vector<std::string>(peers.size(), "test")};
  }

  bool connectable = true;
  bool takes_payloads = true;
  bool accepts_at_once = false;
  std::vector<Operation> sends;
  std::vector<Operation> accepts;
  std::vector<PeerId> closed;

 private:
  std::vector<TransportEvent> next_;
  std::vector<TransportEvent> current_;
  std::deque<std::vector<std::byte>> kept_;
};

class WorkerLoopTest : public ::testing::Test {
 protected:
  WorkerLoopTest() : tensor_(4 * kElements), loop_({}, &transport_, /*local_reduce=*/nullptr) {
    auto info = std::make_shared<GroupInfo>();
    info->id = GroupId(1);
    info->name = "world";
    info->job_ranks = {JobRank(0)};
    info->nodes = {"node-0"};
    info->max_chunk_bytes = 1024;
    info->token.assign(kGroupTokenBytes, std::byte{6});
    info->map = std::make_shared<ShardMap>(
        *ShardMap::Make(Epoch(3), {{.server = ServerId(1), .server_name = "alpha", .address = "10.0.0.1:7000"}}));
    info_ = info;
  }

  void Run(const std::vector<WorkerCommand>& commands = {}) { loop_.RunOnce(now_, commands, &outcomes_); }
  void Open() {
    Run({OpenGroupCommand{.group = GroupHandle(0), .info = info_, .deadline_ns = 60 * kNsPerS}});
    transport_.Give({.kind = TransportEventKind::kPeerUp, .peer = kServer});
    transport_.GiveNote(MakeWelcome({.type = FrameType::kWelcome, .group = GroupId(1), .epoch = Epoch(3)},
                                    {.incarnation = Incarnation(5), .credit_chunks = 4}));
    Run();
    ASSERT_TRUE(Find<GroupOpened>() != nullptr && Find<GroupOpened>()->status.ok());
  }
  void Submit() {
    Run({SubmitCommand{.group = GroupHandle(0),
                       .ticket = 9,
                       .data = tensor_.data(),
                       .layout = OpLayout::Make(*info_, kElements, DataType::kFloat32).value(),
                       .submitted_ns = now_.monotonic_ns,
                       .deadline_ns = kNoDeadline}});
  }
  // Until the result of the op's only chunk is accepted.
  void SubmitAndAccept() {
    Submit();
    ASSERT_EQ(transport_.sends.size(), 1u);
    transport_.Give({.kind = TransportEventKind::kSent, .token = transport_.sends[0].token});
    transport_.GiveResultOf(transport_.sends[0]);
    Run();
    ASSERT_EQ(transport_.accepts.size(), 1u);
  }
  template <typename Outcome>
  const Outcome* Find() const {
    for (const WorkerOutcome& outcome : outcomes_) {
      if (const auto* found = std::get_if<Outcome>(&outcome)) return found;
    }
    return nullptr;
  }

  Now now_{.monotonic_ns = kNsPerS};
  std::shared_ptr<const GroupInfo> info_;
  std::vector<std::byte> tensor_;
  OneServerTransport transport_;
  WorkerOutcomes outcomes_;
  WorkerLoop loop_;
};

// Clause T10 of the transport: the kLanded event of an offer that is accepted at once may come with the next Poll.
TEST_F(WorkerLoopTest, AResultThatWasTakenAtOnceIsKnownToBeInTheTensorBeforeItLanded) {
  transport_.accepts_at_once = true;
  Open();
  SubmitAndAccept();
  EXPECT_EQ(transport_.accepts[0].buffer, tensor_.data());
  transport_.Give({.kind = TransportEventKind::kLanded,
                   .token = transport_.accepts[0].token,
                   .status = absl::UnavailableError("closed meanwhile")});
  Run();
  ASSERT_NE(Find<OpDone>(), nullptr) << "the tensor may hold neither the contribution nor the result: the group fails";
  EXPECT_THAT(std::string(Find<OpDone>()->status.message()), HasSubstr("did not arrive: closed meanwhile"));
}

TEST_F(WorkerLoopTest, AResultThatWasTakenBesideTheTensorLeavesTheContributionThere) {
  Open();
  SubmitAndAccept();
  EXPECT_NE(transport_.accepts[0].buffer, tensor_.data());
  transport_.Give({.kind = TransportEventKind::kLanded,
                   .token = transport_.accepts[0].token,
                   .status = absl::UnavailableError("closed meanwhile")});
  Run();
  EXPECT_EQ(Find<OpDone>(), nullptr) << "the chunk can be pushed again in the next epoch";
  EXPECT_EQ(transport_.closed, std::vector<PeerId>{kServer}) << "its connection is cut, so that there is one";
}

TEST_F(WorkerLoopTest, APushThatTheTransportDoesNotTakeEndsInTheSameRun) {
  Open();
  transport_.takes_payloads = false;
  Submit();
  EXPECT_EQ(transport_.closed, std::vector<PeerId>{kServer});
}

TEST_F(WorkerLoopTest, AConnectionThatCannotBeStartedIsTriedAgainAfterAWhile) {
  transport_.connectable = false;
  Run({OpenGroupCommand{.group = GroupHandle(0), .info = info_, .deadline_ns = 60 * kNsPerS}});
  EXPECT_EQ(loop_.NextDeadlineNs(), now_.monotonic_ns + WorkerMachineOptions().connect_retry_ns);
}

TEST_F(WorkerLoopTest, OutcomesComeOutInTheOrderInWhichTheyHappened) {
  Open();
  outcomes_.clear();
  SubmitAndAccept();
  transport_.Give({.kind = TransportEventKind::kLanded, .token = transport_.accepts[0].token});
  Run({CloseGroupCommand{GroupHandle(0)}});
  ASSERT_EQ(outcomes_.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<OpDone>(outcomes_[0]));
  EXPECT_TRUE(std::holds_alternative<GroupClosed>(outcomes_[1]));
}

}  // namespace
}  // namespace shoal
