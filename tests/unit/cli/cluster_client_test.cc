// What shoalctl's client makes of a scheduler with more than one answer has, and of one that knows no pages.
#include "cli/cluster_client.h"

#include <grpcpp/grpcpp.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "tests/unit/cli/started_scheduler.h"

namespace shoal::cli {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kTimeoutMs = 30'000;

// A job whose groups wait, each for nearly all of very many ranks: they are more than one answer has.
class ClusterOfLargeJobTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kWorldSize = 65536;
  static constexpr int kGroups = 6;

  ClusterOfLargeJobTest() {
    scheduler_ = StartScheduler();
    channel_ = grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials());
    members_ = v1::Scheduler::NewStub(channel_);
    Join("before", 1);
    large_ = Join("large", kWorldSize);
    Join("after", 1);
    for (int i = 0; i < kGroups; ++i) {
      ranks_.emplace_back([this, i] { AskForGroup(i); });
    }
  }
  ~ClusterOfLargeJobTest() override {
    for (grpc::ClientContext& context : contexts_) context.TryCancel();
    for (std::thread& rank : ranks_) rank.join();
  }

  uint64_t Join(const std::string& name, uint32_t world_size) {
    v1::JoinJobRequest job;
    job.set_control_version(kControlVersion);
    job.set_job_name(name);
    job.set_world_size(world_size);
    job.set_incarnation(12);
    v1::JoinJobResponse joined;
    grpc::ClientContext context;
    const grpc::Status status = members_->JoinJob(&context, job, &joined);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return joined.job_id();
  }

  void AskForGroup(int number) {
    v1::JoinGroupRequest group;
    group.set_job_id(large_);
    group.set_incarnation(12);
    group.set_group_name(absl::StrCat("group-", number));
    for (uint32_t rank = 0; rank < kWorldSize; ++rank) group.add_ranks(rank);
    group.set_wait_ms(600'000);
    v1::JoinGroupResponse joined;
    members_->JoinGroup(&contexts_[static_cast<size_t>(number)], group, &joined);
  }

  // When all groups have been asked for.
  v1::JobStatus AwaitLargeJob(ClusterClient* client) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kTimeoutMs);
    for (;;) {
      const auto job = client->FindJob("large");
      EXPECT_TRUE(job.ok()) << job.status();
      if (!job.ok() || job->groups_size() == kGroups || std::chrono::steady_clock::now() > deadline) {
        return job.value_or(v1::JobStatus());
      }
    }
  }

  std::unique_ptr<Scheduler> scheduler_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Scheduler::Stub> members_;
  uint64_t large_ = 0;
  std::array<grpc::ClientContext, kGroups> contexts_;
  std::vector<std::thread> ranks_;
};

TEST_F(ClusterOfLargeJobTest, ListsAreWholeThoughEachAnswerIsSmall) {
  ClusterClient client(scheduler_->address(), kTimeoutMs);
  const v1::JobStatus large = AwaitLargeJob(&client);
  ASSERT_EQ(large.groups_size(), kGroups);
  for (int i = 0; i < kGroups; ++i) {
    EXPECT_EQ(large.groups(i).name(), absl::StrCat("group-", i));
    EXPECT_EQ(large.groups(i).missing_ranks_size(), static_cast<int>(kWorldSize) - 1);
  }
  const auto jobs = client.ListJobs();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->jobs_size(), 3);
  EXPECT_EQ(jobs->jobs(0).name(), "before");
  EXPECT_EQ(jobs->jobs(1).groups_size(), kGroups);
  EXPECT_EQ(jobs->jobs(1).ranks_size(), 1) << "no part of it came twice";
  EXPECT_EQ(jobs->jobs(2).name(), "after");

  v1::ListJobsResponse page;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::Status::NewStub(channel_)->ListJobs(&context, {}, &page).ok());
  EXPECT_NE(page.next_page_token(), "") << "or the test tests nothing";
}

TEST_F(ClusterOfLargeJobTest, ANameThatThereIsNotIsToldWithThoseThatThereAre) {
  ClusterClient client(scheduler_->address(), kTimeoutMs);
  const absl::Status no_job = client.FindJob("bert").status();
  EXPECT_EQ(no_job.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_job.message()), HasSubstr("no job is named \"bert\"; open jobs: before, large, after"));
  EXPECT_THAT(std::string(client.FindServer("alpha").status().message()),
              HasSubstr("no server is named \"alpha\"; live servers: none"));
}

// It ignores what requests say, and gives all.
class OlderScheduler : public v1::Status::Service {
 public:
  OlderScheduler() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~OlderScheduler() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status ListServers(grpc::ServerContext*, const v1::ListServersRequest*,
                           v1::ListServersResponse* answer) override {
    for (const char* name : {"alpha", "beta"}) answer->add_servers()->set_name(name);
    return grpc::Status::OK;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsResponse* answer) override {
    for (uint64_t id = 1; id <= 3; ++id) {
      v1::JobStatus* const job = answer->add_jobs();
      job->set_job_id(id);
      job->set_name(id == 3 ? "other" : "gpt");
    }
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(ClusterClientTest, AnOlderSchedulersWholeListIsSearched) {
  OlderScheduler scheduler;
  ClusterClient client(scheduler.address(), kTimeoutMs);
  const auto job = client.FindJob("gpt");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->job_id(), 2u) << "the newest of that name";
  const auto server = client.FindServer("beta");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(server->name(), "beta");
  const auto none = client.FindJob("bert");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("no job is named \"bert\"; `shoalctl jobs` lists those that there are"));
}

}  // namespace
}  // namespace shoal::cli
