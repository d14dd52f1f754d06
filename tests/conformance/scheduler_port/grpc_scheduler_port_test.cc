// The worker's control port over gRPC, at a real scheduler in this process.
#include "worker/rpc/grpc_scheduler_port.h"

#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <thread>

#include "core/version.h"
#include "process/clock.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "tests/conformance/scheduler_port/scheduler_port_suite.h"
#include "tests/conformance/scheduler_port/tcp_door.h"

namespace shoal {
namespace {

constexpr uint64_t kIdleNs = 5 * kNsPerMs;

class GrpcHarness : public SchedulerPortHarness {
 public:
  GrpcHarness() {
    StartScheduler();
    door_ = std::make_unique<TcpDoor>(
        static_cast<uint16_t>(std::atoi(config_.listen.substr(config_.listen.rfind(':') + 1).c_str())));
    port_ = std::make_unique<GrpcSchedulerPort>(door_->address());
  }

  GrpcSchedulerPort& port() override { return *port_; }
  void DestroyPort() override { port_.reset(); }
  uint64_t now_ns() override { return MonotonicNs(); }
  void Idle() override {
    if (port_ != nullptr) port_->SleepUntil(MonotonicNs() + kIdleNs);
  }
  void StopScheduler() override { scheduler_.reset(); }
  void StartScheduler() override {
    absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = Scheduler::Start(config_);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
    config_.listen = scheduler_->address();
  }
  void AddServer() override {
    v1::RegisterServerRequest request;
    request.set_control_version(kControlVersion);
    request.set_oldest_control_version(kOldestControlVersion);
    request.set_name("a");
    request.set_incarnation(1);
    request.add_addresses("10.0.0.1:1");
    request.set_node("node-of-a");
    grpc::ClientContext context;
    v1::RegisterServerResponse response;
    const auto stub =
        v1::Scheduler::NewStub(grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials()));
    const grpc::Status status = stub->RegisterServer(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  void SilenceConnections() override { door_->Silence(); }

 private:
  SchedulerConfig config_ = {.listen = "127.0.0.1:0"};
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<TcpDoor> door_;
  std::unique_ptr<GrpcSchedulerPort> port_;
};

INSTANTIATE_TEST_SUITE_P(Grpc, SchedulerPortSuite,
                         testing::Values(SchedulerPortKind{"Grpc", [] { return std::make_unique<GrpcHarness>(); }}),
                         SchedulerPortKindName);

TEST(GrpcSchedulerPort, AnotherThreadWakesItsOwner) {
  GrpcSchedulerPort port("127.0.0.1:1");
  constexpr uint64_t kLongNs = 3600 * kNsPerS;  // waiting that out ends the test as too slow
  for (int i = 0; i < 100; ++i) {
    std::thread waker([&] {
      port.Wake();
      port.Wake();
    });
    port.SleepUntil(MonotonicNs() + kLongNs);
    waker.join();
  }
}

TEST(GrpcSchedulerPort, AWakeUpIsNotLostWhileTheOwnerIsAwake) {
  GrpcSchedulerPort port("127.0.0.1:1");
  port.Wake();
  port.Poll();
  port.SleepUntil(MonotonicNs() + 3600 * kNsPerS);
}

TEST(GrpcSchedulerPort, WhatIsNoSchedulerIsNamed) {
  grpc::ServerBuilder builder;
  int listens = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &listens);
  const std::unique_ptr<grpc::Server> other = builder.BuildAndStart();  // offers no service
  const std::string address = "127.0.0.1:" + std::to_string(listens);
  GrpcSchedulerPort port(address);
  port.StartCall(CallId(1), JoinJobCall{}, MonotonicNs() + 20 * kNsPerS);
  std::span<const SchedulerPortEvent> events = port.Poll();
  while (events.empty()) {
    port.SleepUntil(MonotonicNs() + kIdleNs);
    events = port.Poll();
  }
  const absl::Status status = std::get<CallEnded>(events[0]).answer.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), testing::HasSubstr("what answers at " + address + " is not a Shoal scheduler"));
}

}  // namespace
}  // namespace shoal
