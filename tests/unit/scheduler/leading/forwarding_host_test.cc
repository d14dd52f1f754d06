// What a scheduler that does not lead does with calls, over real connections.
#include "scheduler/leading/forwarding_host.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "core/failure_detection.h"
#include "core/no_leader.h"
#include "gtest/gtest.h"
#include "process/clock.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "shoal/v1/status.grpc.pb.h"
#include "tests/conformance/scheduler_port/tcp_door.h"

namespace shoal::scheduler {
namespace {

constexpr std::chrono::seconds kPatience{60};
// So that a busy machine does not make a leader silent in tests of something else.
constexpr uint64_t kLongLeaseTtlMs = 600'000;

class ForwardingHostTest : public ::testing::Test {
 protected:
  explicit ForwardingHostTest(uint64_t lease_ttl_ms = kLongLeaseTtlMs) {
    SchedulerConfig config;
    config.listen = "127.0.0.1:0";
    leader_ = *Scheduler::Start(config);
    follower_ = *ForwardingHost::Listen("127.0.0.1:0", lease_ttl_ms);
    follower_->SetLeader(leader_->address());
  }

  std::shared_ptr<grpc::Channel> Channel() const {
    // Each with a connection of its own.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(follower_->address(), grpc::InsecureChannelCredentials(), arguments);
  }
  static void SetDeadline(grpc::ClientContext* context) {
    context->set_deadline(std::chrono::system_clock::now() + kPatience);
  }

  struct OpenWatch {
    explicit OpenWatch(const std::shared_ptr<grpc::Channel>& channel) : stub(v1::Scheduler::NewStub(channel)) {
      SetDeadline(&context);
      stream = stub->Watch(&context, v1::WatchRequest());
    }
    // False: the stream has ended.
    bool Reads() { return stream->Read(&news); }

    const std::unique_ptr<v1::Scheduler::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::WatchResponse>> stream;
    v1::WatchResponse news;
  };

  std::unique_ptr<Scheduler> leader_;
  std::unique_ptr<ForwardingHost> follower_;
};

// A caller has said all it has to say when the leader answers, and the leader ends the call with its answer: what was
// under way towards the caller then must not be followed by another look at a call that is gone.
TEST_F(ForwardingHostTest, PassesCallsOnForAsLongAsItRuns) {
  constexpr int kCallers = 64;
  constexpr int kCallsOfEach = 500;
  std::atomic<int> answered = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      const std::shared_ptr<grpc::Channel> channel = Channel();
      // So many connections at once sometimes take gRPC a second attempt.
      ASSERT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() + kPatience));
      const auto status = v1::Status::NewStub(channel);
      for (int i = 0; i < kCallsOfEach; ++i) {
        grpc::ClientContext context;
        SetDeadline(&context);
        v1::Cluster cluster;
        const grpc::Status answer = status->GetCluster(&context, v1::GetClusterRequest(), &cluster);
        if (!answer.ok()) {
          ADD_FAILURE() << "call " << i << ": " << answer.error_message() << " (" << answer.error_code() << ")";
          return;
        }
        answered += cluster.cluster_id().empty() ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answered, kCallers * kCallsOfEach);
}

TEST_F(ForwardingHostTest, PassesARefusalOnWithItsReason) {
  const auto stub = v1::Scheduler::NewStub(Channel());
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::HeartbeatWorkerRequest request;
  request.set_job_id(77);
  v1::HeartbeatWorkerResponse response;
  const grpc::Status refused = stub->HeartbeatWorker(&context, request, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_NE(refused.error_message().find("no job has id 77"), std::string::npos) << refused.error_message();
}

TEST_F(ForwardingHostTest, AStreamLastsUntilTheLeaderIsAnother) {
  OpenWatch watch(Channel());
  ASSERT_TRUE(watch.Reads());
  EXPECT_TRUE(watch.news.has_map());
  follower_->SetLeader("");
  EXPECT_FALSE(watch.Reads());
  EXPECT_EQ(watch.stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// A follower and its leader, between which nothing may get through for a while (docs/failover.md, F16).
class CutOffFollowerTest : public ForwardingHostTest {
 protected:
  static constexpr uint64_t kLeaseNs = 5 * kNsPerS;
  // What a busy machine adds; a call that is not told anything ends after kPatience.
  static constexpr uint64_t kSlackNs = 10 * kNsPerS;

  CutOffFollowerTest()
      : ForwardingHostTest(kLeaseNs / kNsPerMs),
        door_(static_cast<uint16_t>(std::stoi(leader_->address().substr(leader_->address().rfind(':') + 1)))) {
    follower_->SetLeader(door_.address());
    EXPECT_TRUE(Ask().ok());
  }

  grpc::Status Ask() const {
    const auto status = v1::Status::NewStub(Channel());
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::Cluster cluster;
    return status->GetCluster(&context, v1::GetClusterRequest(), &cluster);
  }
  static void ExpectLeaderIsSilent(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(status.error_message(), kLeaderIsSilent);
  }

  void ExpectAnswerBeforeLong() const {
    const uint64_t begin_ns = MonotonicNs();
    grpc::Status answer = Ask();
    while (!answer.ok() && MonotonicNs() - begin_ns < kLeaseNs + kSlackNs) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      answer = Ask();
    }
    EXPECT_TRUE(answer.ok()) << answer.error_message();
  }

  TcpDoor door_;
};

TEST_F(CutOffFollowerTest, CallsThatWaitForALeaderThatFellSilentEndWhileTheirCallersHaveTimeLeft) {
  OpenWatch watch(Channel());
  ASSERT_TRUE(watch.Reads());
  door_.Cut();
  const uint64_t cut_ns = MonotonicNs();
  ExpectLeaderIsSilent(Ask());
  EXPECT_LT(MonotonicNs() - cut_ns, kLeaseNs / 3 + kSlackNs);
  EXPECT_FALSE(watch.Reads()) << "a stream that is silent would tell of no loss and no map";
  ExpectLeaderIsSilent(watch.stream->Finish());
  EXPECT_FALSE(follower_->leader_answers());
  // From now on callers do not wait at all.
  const uint64_t refused_ns = MonotonicNs();
  for (int i = 0; i < 20; ++i) ExpectLeaderIsSilent(Ask());
  EXPECT_LT(MonotonicNs() - refused_ns, 20 * LeaderProbeTimeoutNs(kLeaseNs));
}

TEST_F(CutOffFollowerTest, ItPassesCallsOnAgainWhenTheLeaderAnswers) {
  door_.Cut();
  ExpectLeaderIsSilent(Ask());
  door_.Mend();
  ExpectAnswerBeforeLong();
}

TEST_F(CutOffFollowerTest, ItIsNotHeldUpByAnOldConnectionThatIsSilent) {
  OpenWatch watch(Channel());
  ASSERT_TRUE(watch.Reads());
  door_.Silence();
  EXPECT_FALSE(watch.Reads());
  ExpectLeaderIsSilent(watch.stream->Finish());
  ExpectAnswerBeforeLong();  // over a new one
}

TEST_F(CutOffFollowerTest, AnotherLeaderIsAskedAtOnce) {
  door_.Cut();
  ExpectLeaderIsSilent(Ask());
  follower_->SetLeader(leader_->address());
  EXPECT_TRUE(Ask().ok());
}

}  // namespace
}  // namespace shoal::scheduler
