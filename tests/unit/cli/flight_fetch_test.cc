// `shoalctl timeline` of what members have sent to a real scheduler.
#include "cli/flight_fetch.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/shoalctl.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "tests/unit/cli/started_scheduler.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kEvents[] = "The last 1 of 1 events, in seconds before unix_ms=5:\n-0.5 peer down peer=1\n";

// A job of two ranks, which both have joined.
class FlightFetchTest : public ::testing::Test {
 protected:
  FlightFetchTest() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      v1::JoinJobRequest request;
      request.set_control_version(kControlVersion);
      request.set_job_name("gpt");
      request.set_world_size(2);
      request.set_rank(rank);
      request.set_incarnation(rank + 1);
      request.set_node("node-1");
      v1::JoinJobResponse joined;
      grpc::ClientContext context;
      EXPECT_TRUE(stub_->JoinJob(&context, request, &joined).ok());
      job_ = joined.job_id();
    }
  }

  void Send(uint32_t rank, uint64_t group, const std::string& record) {
    v1::SendFlightRecordRequest request;
    request.set_job_id(job_);
    request.set_group_id(group);
    request.set_rank(rank);
    request.set_incarnation(rank + 1);
    request.set_record(record);
    v1::SendFlightRecordResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->SendFlightRecord(&context, request, &response).ok());
  }
  void SendWhole(uint32_t rank, uint64_t group) {
    Send(rank, group,
         absl::StrCat("rank ", rank, " of job \"gpt\" on node-1, group \"ddp\" (group=", group, ") failed: why\n",
                      kEvents));
  }
  absl::StatusOr<FlightRecords> Fetch(const std::string& job, uint64_t group) {
    ClusterClient client(scheduler_->address(), 30'000);
    return FetchFlightRecords(job, group, &client);
  }

  const std::unique_ptr<Scheduler> scheduler_ = StartScheduler();
  const std::unique_ptr<v1::Scheduler::Stub> stub_ =
      v1::Scheduler::NewStub(grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials()));
  uint64_t job_ = 0;
};

TEST_F(FlightFetchTest, FetchesWhatEachMemberHasSentOfTheGroupThatFailedLast) {
  SendWhole(0, 7);
  SendWhole(1, 12);
  SendWhole(0, 12);
  for (const std::string job : {"gpt", ""}) {
    const absl::StatusOr<FlightRecords> found = Fetch(job, 0);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->records.size(), 2u);
    EXPECT_EQ(found->records[0].member, "rank 0 of job \"gpt\" on node-1");
    EXPECT_EQ(found->records[1].member, "rank 1 of job \"gpt\" on node-1");
    EXPECT_EQ(found->records[0].group, 12u);
    EXPECT_THAT(found->remarks,
                ElementsAre("Records of group 7 of this job are not drawn: --group N draws those of one."));
  }
  const absl::StatusOr<FlightRecords> first = Fetch("", 7);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->records.size(), 1u);
  EXPECT_THAT(first->remarks, IsEmpty()) << "it was asked for";
}

TEST_F(FlightFetchTest, WhatCanNotBeReadIsNamed) {
  SendWhole(0, 7);
  Send(1, 7, "garbage");
  const absl::StatusOr<FlightRecords> found = Fetch("gpt", 7);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->records.size(), 1u);
  EXPECT_THAT(found->remarks, ElementsAre(HasSubstr("What rank 1 on node-1 sent is no flight record: line 1")));
  Send(0, 8, "");
  const absl::Status nothing = Fetch("gpt", 0).status();
  EXPECT_EQ(nothing.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(nothing.message()), AllOf(HasSubstr("no flight record of group 8 that can be read"),
                                                    HasSubstr("What rank 0 on node-1 sent is no flight record")));
}

TEST_F(FlightFetchTest, TheCommandDrawsThem) {
  const auto run = [this](std::vector<std::string> arguments) {
    std::ostringstream out;
    std::ostringstream err;
    arguments.insert(arguments.begin(), {"timeline", "--scheduler", scheduler_->address(), "--timeout", "30"});
    const int exit_code = RunShoalctl(arguments, out, err);
    return std::make_tuple(exit_code, out.str(), err.str());
  };
  const auto [none, nothing, why] = run({"--job", "gpt"});
  EXPECT_EQ(none, kExitFailure);
  EXPECT_THAT(why, HasSubstr("the scheduler has no flight records of job \"gpt\""));
  SendWhole(0, 12);
  for (const std::vector<std::string>& which :
       std::vector<std::vector<std::string>>{{}, {"--job", "gpt"}, {"--group", "12"}}) {
    const auto [exit_code, drawn, err] = run(which);
    EXPECT_EQ(exit_code, kExitOk) << err;
    EXPECT_THAT(drawn, AllOf(HasSubstr("\"traceEvents\""), HasSubstr("1 member of group 12")));
  }
}

}  // namespace
}  // namespace shoal::cli
