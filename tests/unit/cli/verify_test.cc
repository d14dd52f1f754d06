#include "cli/verify.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/json_text.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "tests/unit/cli/started_scheduler.h"

namespace shoal::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct Op {
  uint64_t group;
  uint64_t op;
  uint64_t digest;
};

std::string RecordOf(const std::vector<Op>& ops, uint64_t ranks = 2, uint64_t left_out = 0) {
  std::string text =
      absl::StrCat("rank 0 of job \"gpt\" on node-1, a trace (trace=9) ended: after 2.0 s\nleft_out=", left_out, "\n");
  for (const Op& op : ops) {
    absl::StrAppendFormat(&text, "group=%d ranks=%d op=%d elements=100 dtype=float32 crc64=%016x name=group %d\n",
                          op.group, ranks, op.op, op.digest, op.group);
  }
  return text;
}

TEST(CompareDigests, OpsThatTwoRanksHaveAreComparedInEachGroup) {
  const Verification verification = CompareDigests({.records = {{"rank 0", RecordOf({{1, 6, 5}, {1, 7, 8}, {2, 7, 9}})},
                                                                {"rank 1", RecordOf({{1, 7, 8}, {1, 8, 3}})},
                                                                {"rank 2", RecordOf({{2, 7, 9}})}},
                                                    .remarks = {"No record came from rank 3."}});
  EXPECT_EQ(verification.members, 3u);
  EXPECT_EQ(verification.compared, 2u) << "op 7 of both groups; the others are of one rank each";
  EXPECT_EQ(verification.groups, 2u);
  EXPECT_THAT(verification.differences, IsEmpty());
  EXPECT_EQ(VerificationText(verification),
            "2 all-reduces of 2 groups compared over 3 ranks: each has the same bits on all ranks that were compared.\n"
            "No record came from rank 3.\n");
}

TEST(CompareDigests, ADifferenceNamesOpAndRanks) {
  const Verification verification = CompareDigests({.records = {{"rank 0 on a", RecordOf({{1, 6, 5}, {1, 7, 8}})},
                                                                {"rank 1 on b", RecordOf({{1, 6, 5}, {1, 7, 4}})},
                                                                {"rank 2 on c", RecordOf({{1, 6, 5}, {1, 7, 8}})}},
                                                    .remarks = {}});
  EXPECT_EQ(verification.compared, 2u);
  ASSERT_THAT(verification.differences, SizeIs(1));
  EXPECT_EQ(VerificationText(verification),
            "2 all-reduces of 1 group compared over 3 ranks: 1 differ.\n"
            "  all-reduce 7 of group \"group 1\":\n"
            "    crc64 0000000000000004 of 100 float32: rank 1 on b\n"
            "    crc64 0000000000000008 of 100 float32: rank 0 on a, rank 2 on c\n");
  const Json json = Json::parse(VerificationJson(verification));
  EXPECT_EQ(json.at("compared"), 2);
  const Json& difference = json.at("differences").at(0);
  EXPECT_EQ(difference.at("op"), 7);
  EXPECT_EQ(difference.at("results").at(0).at("members").at(0), "rank 1 on b");
}

TEST(CompareDigests, WhatNotAllRanksHaveSentIsToldApart) {
  const std::string first = RecordOf({{1, 6, 5}, {1, 6, 9}, {1, 7, 8}}, 3);
  const Verification verification = CompareDigests({.records = {{"rank 0", first},
                                                                {"rank 1", RecordOf({{1, 6, 5}, {1, 7, 8}}, 3)},
                                                                {"rank 2", RecordOf({{1, 7, 8}}, 3, 40)}},
                                                    .remarks = {}});
  EXPECT_EQ(verification.compared, 1u);
  EXPECT_EQ(verification.compared_in_part, 1u);
  EXPECT_THAT(verification.differences, IsEmpty()) << "the second result of one rank for the same op is none";
  EXPECT_THAT(VerificationText(verification),
              AllOf(HasSubstr("Of 1 all-reduces only some ranks of the group have sent their result"),
                    HasSubstr("40 results of rank 2 had no room and are not compared.\n")));
}

TEST(CompareDigests, RanksThatReducedOnDevicesAreToldWithHowOften) {
  const auto record_of = [](int on_devices, const std::vector<Op>& ops) {
    std::string text = RecordOf(ops);
    const std::string left_out = "left_out=0\n";
    return text.insert(text.find(left_out) + left_out.size(), absl::StrCat("on_devices=", on_devices, "\n"));
  };
  const Verification verification = CompareDigests({.records = {{"rank 0 on a", record_of(12, {{1, 6, 5}})},
                                                                {"rank 1 on b", record_of(13, {{1, 6, 5}})},
                                                                {"rank 2 on c", RecordOf({{1, 6, 5}})}},
                                                    .remarks = {}});
  EXPECT_EQ(verification.members, 3u);
  EXPECT_EQ(verification.compared, 1u);
  EXPECT_THAT(verification.remarks,
              ElementsAre("All-reduces of tensors on devices are not compared: 12 of rank 0 on a, 13 of rank 1 on b."));
  TraceRecords many;
  for (int rank = 0; rank < 11; ++rank) many.records.push_back({absl::StrCat("rank ", rank), record_of(1, {})});
  EXPECT_THAT(CompareDigests(many).remarks, ElementsAre(HasSubstr(", 1 of rank 7 and those of 3 more.")));
}

TEST(CompareDigests, WhatATerminalWouldObeyIsTakenOut) {
  const auto record_of = [](const std::string& elements) {
    return absl::StrCat("rank 0\nleft_out=0\ngroup=1 ranks=2 op=1 elements=", elements,
                        " dtype=float32 crc64=0 name=a\x1b[31m\n");
  };
  const Verification verification = CompareDigests({.records = {{"rank 0", record_of("1")},
                                                                {"rank 1", record_of("\xc2\x9b"
                                                                                     "2J")}},
                                                    .remarks = {}});
  EXPECT_EQ(VerificationText(verification),
            "1 all-reduces of 1 group compared over 2 ranks: 1 differ.\n"
            "  all-reduce 1 of group \"a?[31m\":\n"
            "    crc64 0 of 1 float32: rank 0\n"
            "    crc64 0 of ?2J float32: rank 1\n");
}

TEST(CompareDigests, ManyDifferencesAreCountedAndTheFirstOnesShown) {
  std::vector<Op> ops;
  for (uint64_t op = 1; op <= 25; ++op) ops.push_back({1, op, op});
  std::vector<Op> others = ops;
  for (Op& op : others) ++op.digest;
  const Verification verification =
      CompareDigests({.records = {{"rank 0", RecordOf(ops)}, {"rank 1", RecordOf(others)}}, .remarks = {}});
  EXPECT_THAT(VerificationText(verification), AllOf(HasSubstr("25 differ.\n"), HasSubstr("  and 15 more\n")));
}

TEST(CompareDigests, WhatCanNotBeReadIsSaid) {
  const std::string good = RecordOf({{1, 6, 5}});
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() - 1), good + "group=1\n", RecordOf({}) + "on_devices=some\n",
        good + "on_devices=1\n", good + "group=x ranks=2 op=1 elements=1 dtype=float32 crc64=0 name=\n",
        good + "op=1 ranks=2 group=1 elements=1 dtype=float32 crc64=0 name=\n"}) {
    const Verification verification = CompareDigests({.records = {{"rank 0", good}, {"rank 1", bad}}, .remarks = {}});
    EXPECT_EQ(verification.members, 1u) << bad;
    EXPECT_THAT(verification.remarks, ElementsAre("What rank 1 sent can't be read.")) << bad;
  }
}

// A job of two ranks that a real scheduler asks, and that answer as the test wants.
class VerifyJobTest : public ::testing::Test {
 protected:
  VerifyJobTest() {
    scheduler_ = StartScheduler(600);
    stub_ = v1::Scheduler::NewStub(grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials()));
    for (uint32_t rank = 0; rank < 2; ++rank) {
      v1::JoinJobRequest request;
      request.set_control_version(kControlVersion);
      request.set_job_name("gpt");
      request.set_world_size(2);
      request.set_rank(rank);
      request.set_incarnation(rank + 1);
      request.set_node(absl::StrCat("node-", rank));
      v1::JoinJobResponse joined;
      grpc::ClientContext context;
      EXPECT_TRUE(stub_->JoinJob(&context, request, &joined).ok());
      job_ = joined.job_id();
    }
  }

  // Renews the leases, and sends `records` once they are asked for and the time is over.
  absl::StatusOr<Verification> VerifyWith(const std::vector<std::string>& records) {
    std::thread ranks([&] { Answer(records); });
    ClusterClient client(scheduler_->address(), 30'000);
    absl::StatusOr<Verification> verification = VerifyJob("gpt", 0.2, &client);
    ranks.join();
    return verification;
  }

 private:
  void Answer(const std::vector<std::string>& records) {
    v1::TraceRequest asked[2];
    while (asked[0].trace_id() == 0 || asked[1].trace_id() == 0) {
      for (uint32_t rank = 0; rank < 2; ++rank) {
        v1::HeartbeatWorkerRequest request;
        request.set_job_id(job_);
        request.set_rank(rank);
        request.set_incarnation(rank + 1);
        v1::HeartbeatWorkerResponse response;
        grpc::ClientContext context;
        ASSERT_TRUE(stub_->HeartbeatWorker(&context, request, &response).ok());
        if (response.has_trace()) asked[rank] = response.trace();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (uint32_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(asked[rank].kind(), 1u);
      v1::SendTraceRequest request;
      request.set_trace_id(asked[rank].trace_id());
      request.set_job_id(job_);
      request.set_rank(rank);
      request.set_incarnation(rank + 1);
      request.set_record(records[rank]);
      v1::SendTraceResponse response;
      grpc::ClientContext context;
      EXPECT_TRUE(stub_->SendTrace(&context, request, &response).ok());
    }
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<v1::Scheduler::Stub> stub_;
  uint64_t job_ = 0;
};

TEST_F(VerifyJobTest, RanksThatDifferAreFound) {
  const absl::StatusOr<Verification> verification =
      VerifyWith({RecordOf({{1, 6, 5}, {1, 7, 8}}), RecordOf({{1, 6, 5}, {1, 7, 9}})});
  ASSERT_TRUE(verification.ok()) << verification.status();
  ASSERT_THAT(verification->differences, SizeIs(1));
  EXPECT_THAT(VerificationText(*verification),
              AllOf(StartsWith("2 all-reduces of 1 group compared over 2 ranks: 1 differ.\n"),
                    HasSubstr("0000000000000009 of 100 float32: rank 1 on node-1\n")));
}

TEST_F(VerifyJobTest, NothingToCompareIsNoSuccess) {
  const absl::StatusOr<Verification> verification = VerifyWith({RecordOf({{1, 6, 5}}), RecordOf({})});
  EXPECT_EQ(verification.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(verification.status().message()),
              HasSubstr("no all-reduce of job \"gpt\" has ended on two ranks in that time"));
}

TEST_F(VerifyJobTest, RecordsThatCanNotBeReadAreNoSuccess) {
  const absl::StatusOr<Verification> verification = VerifyWith({"garbage", ""});
  EXPECT_EQ(verification.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(verification.status().message()),
              AllOf(HasSubstr("has sent anything that can be read"), HasSubstr("What rank 1 on node-1 sent")));
}

}  // namespace
}  // namespace shoal::cli
