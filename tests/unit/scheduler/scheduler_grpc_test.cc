// The whole scheduler behind a real port: what servers, workers and strangers get from it.
#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/colocation.h"
#include "core/node_reduce.h"
#include "core/token.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "shoal/v1/status.grpc.pb.h"
#include "tests/unit/loopback_socket.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kPatience{30};

class SchedulerGrpcTest : public ::testing::Test {
 protected:
  SchedulerGrpcTest() {
    config_.listen = "127.0.0.1:0";
    config_.lease_ttl_ms = 60'000;  // tests that want a loss shorten it
  }
  ~SchedulerGrpcTest() override {
    Stop();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  void Start() {
    auto scheduler = Scheduler::Start(config_);
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
    channel_ = grpc::CreateChannel(scheduler_->address(), grpc::InsecureChannelCredentials());
    stub_ = v1::Scheduler::NewStub(channel_);
    status_ = v1::Status::NewStub(channel_);
  }

  void Stop() { scheduler_.reset(); }

  void KeepStateInFile() {
    std::string pattern = ::testing::TempDir() + "/shoal-scheduler-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    config_.state_file = folder_ + "/state";
  }

  static std::unique_ptr<grpc::ClientContext> Context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + kPatience);
    return context;
  }

  v1::RegisterServerResponse RegisterServer(const std::string& name, int port) {
    v1::RegisterServerRequest request;
    request.set_control_version(kControlVersion);
    request.set_software_version(kSoftwareVersion);
    request.set_name(name);
    request.set_incarnation(11);
    request.set_node("node-" + name);
    request.add_addresses("127.0.0.1:" + std::to_string(port));
    v1::RegisterServerResponse response;
    const grpc::Status status = stub_->RegisterServer(Context().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  uint64_t JoinJob(const std::string& job, uint32_t world_size, uint32_t rank, uint32_t min_servers = 0) {
    v1::JoinJobRequest request;
    request.set_control_version(kControlVersion);
    request.set_job_name(job);
    request.set_world_size(world_size);
    request.set_rank(rank);
    request.set_incarnation(100 + rank);
    request.set_node("node" + std::to_string(rank));
    request.set_min_servers(min_servers);
    v1::JoinJobResponse response;
    const grpc::Status status = stub_->JoinJob(Context().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job_id();
  }

  v1::JoinGroupRequest GroupRequest(uint64_t job, uint32_t rank, uint32_t size) {
    v1::JoinGroupRequest request;
    request.set_job_id(job);
    request.set_rank(rank);
    request.set_incarnation(100 + rank);
    request.set_group_name("world");
    for (uint32_t i = 0; i < size; ++i) request.add_ranks(i);
    request.set_wait_ms(20'000);
    return request;
  }

  v1::Cluster GetCluster() {
    v1::Cluster cluster;
    const grpc::Status status = status_->GetCluster(Context().get(), v1::GetClusterRequest(), &cluster);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return cluster;
  }

  SchedulerConfig config_;
  std::string folder_;
  std::unique_ptr<Scheduler> scheduler_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Scheduler::Stub> stub_;
  std::unique_ptr<v1::Status::Stub> status_;
};

TEST_F(SchedulerGrpcTest, AJobOfFourFormsAGroupOverTwoServers) {
  Start();
  constexpr uint32_t kRanks = 4;
  std::vector<v1::JoinGroupResponse> joined(kRanks);
  std::vector<grpc::Status> statuses(kRanks);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      v1::JoinGroupRequest request = GroupRequest(JoinJob("gpt", kRanks, rank), rank, kRanks);
      request.set_min_servers(2);
      statuses[rank] = stub_->JoinGroup(Context().get(), request, &joined[rank]);
    });
  }
  const v1::RegisterServerResponse a = RegisterServer("a", 1001);
  RegisterServer("b", 1002);
  for (std::thread& rank : ranks) rank.join();

  TokenKey key;
  ASSERT_EQ(a.token_key().size(), key.size());
  std::memcpy(key.data(), a.token_key().data(), key.size());
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(statuses[rank].ok()) << statuses[rank].error_message();
    EXPECT_EQ(joined[rank].group_id(), joined[0].group_id());
    EXPECT_EQ(joined[rank].map().shards_size(), 2);
    EXPECT_EQ(joined[rank].nodes(3), "node3");
    const std::string& bytes = joined[rank].token();
    const auto token = DecodeToken(std::as_bytes(std::span(bytes.data(), bytes.size())));
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(token->rank, Rank(rank));
    EXPECT_TRUE(CheckToken(key, *token, static_cast<uint64_t>(std::time(nullptr))).ok());
  }
  const v1::Cluster cluster = GetCluster();
  EXPECT_EQ(cluster.servers_live(), 2u);
  EXPECT_EQ(cluster.workers(), kRanks);
  EXPECT_EQ(cluster.store(), "memory");
}

// Ranks 0 and 1 are on one node, 2 and 3 on another.
TEST_F(SchedulerGrpcTest, AGroupOfTwoNodesIsToldItsRailsAndTheyAreListed) {
  Start();
  RegisterServer("a", 1001);
  constexpr uint32_t kRanks = 4;
  std::vector<v1::JoinGroupResponse> joined(kRanks);
  std::vector<grpc::Status> statuses(kRanks);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      v1::JoinGroupRequest request = GroupRequest(JoinJob("gpt", kRanks, rank), rank, kRanks);
      request.mutable_node_reduce()->set_possible(true);
      request.mutable_node_reduce()->set_can_rails(true);
      request.mutable_node_reduce()->set_node_identity(rank < 2 ? "boot 1" : "boot 2");
      statuses[rank] = stub_->JoinGroup(Context().get(), request, &joined[rank]);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(statuses[rank].ok()) << statuses[rank].error_message();
    const v1::NodeReduce& node_reduce = joined[rank].node_reduce();
    EXPECT_EQ(node_reduce.mode(), static_cast<uint32_t>(NodeReduceMode::kRails));
    EXPECT_EQ(node_reduce.meeting_name(), joined[rank < 2 ? 0 : 2].node_reduce().meeting_name());
    EXPECT_THAT(node_reduce.local_ranks(), ::testing::ElementsAre(rank < 2 ? 0 : 2, rank < 2 ? 1 : 3));
    EXPECT_THAT(node_reduce.rail_ranks(), ::testing::ElementsAre(rank % 2, rank % 2 + 2));
    EXPECT_EQ(joined[rank].group_id(), joined[rank % 2].group_id());
  }
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(status_->ListJobs(Context().get(), v1::ListJobsRequest(), &jobs).ok());
  ASSERT_EQ(jobs.jobs(0).groups_size(), 2);
  for (uint32_t rail = 0; rail < 2; ++rail) {
    const v1::GroupStatus& group = jobs.jobs(0).groups(static_cast<int>(rail));
    EXPECT_EQ(group.node_reduce(), "rails");
    EXPECT_EQ(group.rail(), rail);
    EXPECT_EQ(group.rails(), 2u);
    EXPECT_THAT(group.ranks(), ::testing::ElementsAre(rail, rail + 2));
  }
}

TEST_F(SchedulerGrpcTest, AJobThatWaitsForServersIsListedWithThem) {
  Start();
  RegisterServer("a", 1001);
  JoinJob("gpt", 2, 0, /*min_servers=*/3);
  JoinJob("bert", 2, 0, /*min_servers=*/1);
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(status_->ListJobs(Context().get(), v1::ListJobsRequest(), &jobs).ok());
  ASSERT_EQ(jobs.jobs_size(), 2);
  EXPECT_EQ(jobs.jobs(0).missing_servers().registered(), 1u);
  EXPECT_EQ(jobs.jobs(0).missing_servers().wanted(), 3u);
  EXPECT_FALSE(jobs.jobs(1).has_missing_servers());
}

TEST_F(SchedulerGrpcTest, AWatcherSeesMapsAsTheyComeAndALossWithinTheLease) {
  config_.lease_ttl_ms = 500;
  Start();
  const auto context = Context();
  const auto reader = stub_->Watch(context.get(), v1::WatchRequest());
  v1::WatchResponse update;
  ASSERT_TRUE(reader->Read(&update));
  EXPECT_EQ(update.map().epoch(), 0u);
  EXPECT_EQ(update.map().shards_size(), 0);
  RegisterServer("a", 1001);
  ASSERT_TRUE(reader->Read(&update));
  EXPECT_EQ(update.map().epoch(), 1u);
  EXPECT_EQ(update.map().shards(0).server_name(), "a");
  ASSERT_TRUE(reader->Read(&update)) << "it never beats";
  EXPECT_EQ(update.map().epoch(), 2u);
  EXPECT_EQ(update.map().shards_size(), 0);
  context->TryCancel();
  reader->Finish();

  v1::ListServersResponse servers;
  ASSERT_TRUE(status_->ListServers(Context().get(), v1::ListServersRequest(), &servers).ok());
  EXPECT_EQ(servers.servers(0).state(), "lost");
  EXPECT_THAT(servers.servers(0).reason(), HasSubstr("no heartbeat"));
}

TEST_F(SchedulerGrpcTest, ListsComeInPagesAndByName) {
  Start();
  RegisterServer("a", 1001);
  const v1::RegisterServerResponse b = RegisterServer("b", 1002);
  v1::ListServersRequest one_server;
  one_server.set_name("b");
  v1::ListServersResponse servers;
  ASSERT_TRUE(status_->ListServers(Context().get(), one_server, &servers).ok());
  ASSERT_EQ(servers.servers_size(), 1);
  EXPECT_EQ(servers.servers(0).server_id(), b.server_id());

  for (const char* name : {"x", "y", "z"}) JoinJob(name, 1, 0);
  v1::ListJobsRequest request;
  request.set_page_size(2);
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(status_->ListJobs(Context().get(), request, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 2);
  request.set_page_token(jobs.next_page_token());
  ASSERT_TRUE(status_->ListJobs(Context().get(), request, &jobs).ok());
  ASSERT_EQ(jobs.jobs_size(), 1);
  EXPECT_EQ(jobs.jobs(0).name(), "z");
  EXPECT_EQ(jobs.next_page_token(), "");

  request.set_page_token("made up");
  const grpc::Status no_token = status_->ListJobs(Context().get(), request, &jobs);
  EXPECT_EQ(no_token.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(no_token.error_message(), HasSubstr("ask again without one"));
  request.set_name("gpt");
  EXPECT_EQ(status_->ListJobs(Context().get(), request, &jobs).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(SchedulerGrpcTest, ARankThatIsAskedForAServerIsCountedByItsNode) {
  Start();
  RegisterServer("a", 1001);
  RegisterServer("b", 1002);
  for (const uint32_t ranks_of_node : {4u, 0u}) {
    v1::JoinJobRequest request;
    request.set_control_version(kControlVersion);
    request.set_job_name("gpt-" + std::to_string(ranks_of_node));
    request.set_world_size(8);
    request.set_incarnation(100);
    request.set_node("node0");
    request.set_colocation(static_cast<uint32_t>(Colocation::kAuto));
    request.mutable_node_reduce()->set_possible(true);
    request.mutable_node_reduce()->set_can_rails(true);
    request.mutable_node_reduce()->set_node_identity("boot 1");
    request.set_local_world_size(ranks_of_node);
    v1::JoinJobResponse response;
    const grpc::Status status = stub_->JoinJob(Context().get(), request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.colocate_server(), ranks_of_node == 0) << ranks_of_node;
  }
}

TEST_F(SchedulerGrpcTest, RefusalsKeepTheirCodeAndText) {
  Start();
  v1::JoinJobRequest request;
  request.set_control_version(kControlVersion + 1);
  v1::JoinJobResponse response;
  const grpc::Status status = stub_->JoinJob(Context().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("control version 4"));
}

TEST_F(SchedulerGrpcTest, ACallerWhoHangsUpIsForgotten) {
  Start();
  RegisterServer("a", 1001);
  const uint64_t job = JoinJob("gpt", 2, 0);
  const auto context = Context();
  grpc::Status status;
  {
    std::thread caller([&] {
      v1::JoinGroupResponse response;
      status = stub_->JoinGroup(context.get(), GroupRequest(job, 0, 2), &response);
    });
    const auto waiting_groups = [&] {
      v1::ListJobsResponse jobs;
      EXPECT_TRUE(status_->ListJobs(Context().get(), v1::ListJobsRequest(), &jobs).ok());
      return jobs.jobs(0).groups_size();
    };
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (waiting_groups() == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    context->TryCancel();
    caller.join();
    while (waiting_groups() == 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(waiting_groups(), 0);
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SchedulerGrpcTest, EventsAreListedAndFollowed) {
  Start();
  RegisterServer("a", 1001);
  const auto read_kinds = [](grpc::ClientReader<v1::Event>* reader, size_t count) {
    std::vector<std::string> kinds;
    v1::Event event;
    while (kinds.size() < count && reader->Read(&event)) kinds.push_back(event.kind());
    return kinds;
  };
  const auto listing = Context();
  const auto list = status_->ListEvents(listing.get(), v1::ListEventsRequest());
  EXPECT_THAT(read_kinds(list.get(), 100),
              ::testing::ElementsAre("scheduler-started", "server-registered", "map-published", "call"));
  EXPECT_TRUE(list->Finish().ok());

  v1::ListEventsRequest request;
  request.set_follow(true);
  request.set_after_sequence(4);
  const auto following = Context();
  const auto follower = status_->ListEvents(following.get(), request);
  RegisterServer("b", 1002);
  EXPECT_THAT(read_kinds(follower.get(), 3), ::testing::ElementsAre("server-registered", "map-published", "call"));
  Stop();
  v1::Event event;
  EXPECT_FALSE(follower->Read(&event));
  EXPECT_EQ(follower->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SchedulerGrpcTest, StoppingEndsOpenCalls) {
  Start();
  const uint64_t job = JoinJob("gpt", 2, 0);
  const auto context = Context();
  v1::WatchRequest request;
  request.set_job_id(job);
  const auto reader = stub_->Watch(context.get(), request);
  v1::WatchResponse update;
  ASSERT_TRUE(reader->Read(&update));
  Stop();
  EXPECT_FALSE(reader->Read(&update));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("stopping"));
}

// The health service's request and answer are tiny: {1: "service"} and {1: SERVING = 1}.
TEST_F(SchedulerGrpcTest, TheHealthServiceSaysServing) {
  Start();
  for (const std::string service : {"", "shoal.v1.Scheduler", "shoal.v1.Status"}) {
    const std::string body = service.empty() ? "" : std::string("\x0a") + static_cast<char>(service.size()) + service;
    const grpc::Slice slice(body);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    const auto context = Context();
    const auto call = stub.PrepareUnaryCall(context.get(), "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
    ASSERT_TRUE(status.ok()) << service << ": " << status.error_message();
    grpc::Slice answer;
    ASSERT_TRUE(response.DumpToSingleSlice(&answer).ok());
    EXPECT_EQ(std::string(answer.begin(), answer.end()), std::string("\x08\x01", 2)) << service;
  }
}

TEST_F(SchedulerGrpcTest, GarbageOnThePortLeavesItServing) {
  Start();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string& where = scheduler_->address();
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(where.substr(where.rfind(':') + 1))));
  std::mt19937 random(1);
  std::vector<int> left_open;
  for (int i = 0; i < 40; ++i) {
    const int peer = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(peer, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    std::string bytes = i % 2 == 0 ? "" : "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";  // half of them begin as HTTP/2 does
    for (int j = 0; j < 2000; ++j) bytes.push_back(static_cast<char>(random()));
    (void)!send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    i % 4 == 0 ? left_open.push_back(peer) : static_cast<void>(close(peer));
  }
  EXPECT_EQ(RegisterServer("a", 1001).epoch(), 1u);
  EXPECT_EQ(GetCluster().servers_live(), 1u);
  for (const int peer : left_open) close(peer);
}

TEST_F(SchedulerGrpcTest, OneOfSeveralThatTakesConnectionsAndSaysNothingHoldsUpNobody) {
  Start();
  const LoopbackSocket silent(16);
  for (const std::string& order :
       {silent.address() + "," + scheduler_->address(), scheduler_->address() + "," + silent.address()}) {
    const auto status = v1::Status::NewStub(OpenSchedulerChannel(*SchedulerTarget(order)));
    for (int call = 0; call < 3; ++call) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));  // less than a try to connect
      v1::Cluster cluster;
      const grpc::Status answer = status->GetCluster(&context, v1::GetClusterRequest(), &cluster);
      EXPECT_TRUE(answer.ok()) << order << ": " << answer.error_message();
    }
  }
}

TEST_F(SchedulerGrpcTest, NobodyThereIsSaidInAFewWords) {
  const auto status = v1::Status::NewStub(OpenSchedulerChannel("127.0.0.1:1"));
  v1::Cluster cluster;
  const grpc::Status answer = status->GetCluster(Context().get(), v1::GetClusterRequest(), &cluster);
  EXPECT_EQ(answer.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ShortReason(answer.error_message()), "Connection refused") << answer.error_message();
}

TEST_F(SchedulerGrpcTest, ATakenPortIsAClearError) {
  Start();
  SchedulerConfig second = config_;
  second.listen = scheduler_->address();
  const absl::Status status = Scheduler::Start(second).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << "so that a program knows that this may pass";
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("can't listen on " + second.listen + ": Address already in use"));
  second.listen = "192.0.2.1:0";  // set aside for documentation: no machine has it
  second.insecure_network = true;
  EXPECT_THAT(std::string(Scheduler::Start(second).status().message()), HasSubstr("Cannot assign requested address"));
}

TEST_F(SchedulerGrpcTest, BadConfigurationsAreRefused) {
  for (const std::string listen : {"", "7070", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", ":7070"}) {
    config_.listen = listen;
    EXPECT_EQ(Scheduler::Start(config_).status().code(), absl::StatusCode::kInvalidArgument) << listen;
  }
  config_.listen = "127.0.0.1:0";
  config_.lease_ttl_ms = 1;
  EXPECT_EQ(Scheduler::Start(config_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(SchedulerGrpcTest, ARestartedSchedulerGoesOnFromItsFile) {
  KeepStateInFile();
  Start();
  const v1::RegisterServerResponse before = RegisterServer("a", 1001);
  const uint64_t job = JoinJob("gpt", 1, 0);
  const std::string cluster_id = GetCluster().cluster_id();
  const absl::Status second = Scheduler::Start(config_).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists) << second;
  Stop();

  Start();
  EXPECT_EQ(GetCluster().cluster_id(), cluster_id);
  EXPECT_EQ(GetCluster().epoch(), 1u);
  v1::HeartbeatServerRequest beat;
  beat.set_server_id(before.server_id());
  beat.set_incarnation(11);
  v1::HeartbeatServerResponse beaten;
  EXPECT_TRUE(stub_->HeartbeatServer(Context().get(), beat, &beaten).ok());
  EXPECT_EQ(RegisterServer("a", 1001).token_key(), before.token_key());
  EXPECT_EQ(JoinJob("gpt", 1, 0), job);
  EXPECT_EQ(GetCluster().epoch(), 1u) << "nothing changed";
}

}  // namespace
}  // namespace shoal
