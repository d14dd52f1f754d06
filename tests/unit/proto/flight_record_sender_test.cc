// What happened before a failure on its way to a scheduler that takes it, refuses it, or is not there.
#include "proto/flight_record_sender.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/clock.h"
#include "shoal/v1/scheduler.grpc.pb.h"

namespace shoal {
namespace {

constexpr uint64_t kPatienceMs = 20'000;

// As each release had it before it knew the call.
class OldScheduler : public v1::Scheduler::Service {};

class FakeScheduler : public v1::Scheduler::Service {
 public:
  grpc::Status SendFlightRecord(grpc::ServerContext* context, const v1::SendFlightRecordRequest* request,
                                v1::SendFlightRecordResponse*) override {
    calls.push_back(*request);
    while (is_silent && !context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return answer;
  }

  std::vector<v1::SendFlightRecordRequest> calls;
  grpc::Status answer;
  bool is_silent = false;
};

class Listening {
 public:
  explicit Listening(grpc::Service* service) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service);
    server_ = builder.BuildAndStart();
  }
  ~Listening() { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::string SendTo(const std::string& scheduler, uint64_t patience_ms = kPatienceMs) {
  v1::SendFlightRecordRequest member;
  member.set_server_id(4);
  member.set_incarnation(77);
  const FlightFolder::Record record{
      .name = "shoal-x", .failure = "it failed", .text = "lines", .job = JobId(3), .group = GroupId(9), .io_thread = 2};
  return SendFlightRecord(scheduler, member, record, DeadlineIn(patience_ms));
}

TEST(FlightRecordSender, SaysWhoseItIsAndWhereItIsThen) {
  FakeScheduler scheduler;
  const Listening listening(&scheduler);
  EXPECT_EQ(SendTo(listening.address()), "the scheduler has it: `shoalctl timeline --group 9` draws it");
  ASSERT_EQ(scheduler.calls.size(), 1u);
  const v1::SendFlightRecordRequest& sent = scheduler.calls.front();
  EXPECT_EQ(sent.job_id(), 3u);
  EXPECT_EQ(sent.group_id(), 9u);
  EXPECT_EQ(sent.server_id(), 4u);
  EXPECT_EQ(sent.io_thread(), 2u);
  EXPECT_EQ(sent.incarnation(), 77u);
  EXPECT_EQ(sent.record(), "lines");
}

TEST(FlightRecordSender, ARefusalIsNoMoreThanThat) {
  FakeScheduler scheduler;
  scheduler.answer = grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "others take all the room");
  const Listening listening(&scheduler);
  EXPECT_EQ(SendTo(listening.address()), "");
  EXPECT_EQ(scheduler.calls.size(), 1u) << "one try";
  OldScheduler old;
  const Listening too_old(&old);
  EXPECT_EQ(SendTo(too_old.address()), "");
}

TEST(FlightRecordSender, WaitsForNobodyLongerThanItMay) {
  std::string nobody;
  {
    OldScheduler ended;
    nobody = Listening(&ended).address();
  }
  const uint64_t begun_ns = MonotonicNs();
  EXPECT_EQ(SendTo(nobody), "");
  EXPECT_LT(MonotonicNs() - begun_ns, kPatienceMs * kNsPerMs / 2) << "a scheduler that is not there refuses at once";
  FakeScheduler scheduler;
  scheduler.is_silent = true;
  const Listening listening(&scheduler);
  const uint64_t silent_since_ns = MonotonicNs();
  EXPECT_EQ(SendTo(listening.address(), 200), "");
  EXPECT_GE(MonotonicNs() - silent_since_ns, 200 * kNsPerMs);
  EXPECT_LT(MonotonicNs() - silent_since_ns, kPatienceMs * kNsPerMs);
}

}  // namespace
}  // namespace shoal
