// Who may call a scheduler that asks for certificates: every role and every call, over real connections.
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/call_pace.h"
#include "core/permissions.h"
#include "core/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/mutex.h"
#include "proto/cluster_keys.h"
#include "proto/credentials.h"
#include "proto/scheduler_channel.h"
#include "scheduler/leading/forwarding_host.h"
#include "scheduler/scheduler.h"
#include "shoal/v1/admin.grpc.pb.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "shoal/v1/status.grpc.pb.h"
#include "tests/unit/proto/made_certificates.h"

namespace shoal::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::seconds kPatience{20};
constexpr char kDomain[] = "spiffe://a.example/shoal/";

// Written down a second time, by call: whoever changes the table has to change this on purpose.
const std::map<std::string, std::vector<Role>>& Expected() {
  static const auto* const expected = new std::map<std::string, std::vector<Role>>{
      {"Scheduler/RegisterServer", {Role::kServer}},
      {"Scheduler/HeartbeatServer", {Role::kServer}},
      {"Scheduler/DeregisterServer", {Role::kServer}},
      {"Scheduler/JoinJob", {Role::kWorker}},
      {"Scheduler/JoinGroup", {Role::kWorker}},
      {"Scheduler/CloseGroups", {Role::kWorker}},
      {"Scheduler/HeartbeatWorker", {Role::kWorker}},
      {"Scheduler/LeaveJob", {Role::kWorker}},
      {"Scheduler/ReportServer", {Role::kWorker}},
      {"Scheduler/GetTicket", {Role::kOperator, Role::kWorker}},
      {"Scheduler/SendTrace", {Role::kServer, Role::kWorker}},
      {"Scheduler/SendFlightRecord", {Role::kServer, Role::kWorker}},
      {"Scheduler/Watch", {Role::kWorker}},
      {"Status/GetCluster", {Role::kViewer, Role::kOperator, Role::kScheduler}},
      {"Status/ListServers", {Role::kViewer, Role::kOperator, Role::kScheduler}},
      {"Status/ListJobs", {Role::kViewer, Role::kOperator, Role::kScheduler}},
      {"Status/GetShardMap", {Role::kViewer, Role::kOperator, Role::kScheduler}},
      {"Status/ListEvents", {Role::kViewer, Role::kOperator, Role::kScheduler}},
      {"Status/GetTrace", {Role::kViewer, Role::kOperator}},
      {"Status/GetFlightRecords", {Role::kViewer, Role::kOperator}},
      {"Admin/DrainServer", {Role::kOperator}},
      {"Admin/UndrainServer", {Role::kOperator}},
      {"Admin/EvictServer", {Role::kOperator}},
      {"Admin/AbortJob", {Role::kOperator}},
      {"Admin/TraceJob", {Role::kOperator}},
  };
  return *expected;
}

std::vector<std::string> AllCalls() {
  std::vector<std::string> calls;
  for (const char* const service : {"Scheduler", "Status", "Admin"}) {
    const auto* const found =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(std::string("shoal.v1.") + service);
    for (int i = 0; i < found->method_count(); ++i)
      calls.push_back(std::string(service) + "/" + found->method(i)->name());
  }
  return calls;
}

v1::JoinJobRequest Joining(const std::string& job, uint64_t incarnation) {
  v1::JoinJobRequest request;
  request.set_control_version(kControlVersion);
  request.set_software_version(kSoftwareVersion);
  request.set_job_name(job);
  request.set_world_size(2);
  request.set_incarnation(incarnation);
  request.set_node("n");
  request.set_colocation(2);
  return request;
}

class IdentitiesTest : public ::testing::Test {
 protected:
  IdentitiesTest() {
    config_.listen = "127.0.0.1:0";
    config_.lease_ttl_ms = 60'000;
    config_.credentials = authority_.Issue(std::string("URI:") + kDomain + "scheduler");
    config_.log_events = true;
  }

  void Start() {
    auto scheduler = Scheduler::Start(config_, [this](const LogEvent& event) {
      const MutexLock lock(mutex_);
      if (event.kind == EventKind::kCallRefused) refusals_.push_back(event.text);
      if (event.call != nullptr) calls_.push_back(*event.call);
    });
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
    address_ = scheduler_->address();
  }

  std::shared_ptr<grpc::Channel> ChannelOf(const CredentialFiles& files) const {
    const absl::StatusOr<Credentials> credentials = Credentials::Load(files, nullptr);
    EXPECT_TRUE(credentials.ok()) << credentials.status();
    return OpenSchedulerChannel(address_, *credentials);
  }
  // Of who has this path in the domain: "worker/a".
  std::shared_ptr<grpc::Channel> ChannelOf(const std::string& path) {
    return ChannelOf(authority_.Issue(std::string("URI:") + kDomain + path));
  }

  static std::unique_ptr<grpc::ClientContext> Context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + kPatience);
    return context;
  }

  // Of a call with an empty message; of a stream its beginning.
  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    const std::unique_ptr<grpc::ClientContext> context = Context();
    const grpc::Slice nothing;
    const auto call = stub.PrepareUnaryCall(context.get(), method, grpc::ByteBuffer(&nothing, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, &status);
    void* tag = nullptr;
    bool ok = false;
    if ((method.ends_with("/Watch") || method.ends_with("/ListEvents")) &&
        queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + std::chrono::milliseconds(500)) ==
            grpc::CompletionQueue::TIMEOUT) {
      context->TryCancel();  // it was let in
    }
    while (tag == nullptr && queue.Next(&tag, &ok)) {
    }
    return status;
  }

  // Those of this kind that were told of, once there are so many.
  std::vector<CallFacts> CallsOf(const std::string& call, size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      std::vector<CallFacts> found;
      {
        const MutexLock lock(mutex_);
        std::ranges::copy_if(calls_, std::back_inserter(found),
                             [&](const CallFacts& each) { return each.call == call; });
      }
      if (found.size() >= count || std::chrono::steady_clock::now() > deadline) return found;
      std::this_thread::yield();
    }
  }

  MadeAuthority authority_;
  SchedulerConfig config_;
  Mutex mutex_;
  std::vector<CallFacts> calls_;
  std::vector<std::string> refusals_;
  std::unique_ptr<Scheduler> scheduler_;
  std::string address_;
};

TEST_F(IdentitiesTest, EveryCallHasARow) {
  const std::vector<std::string> calls = AllCalls();
  EXPECT_EQ(calls.size(), Expected().size());
  for (const std::string& call : calls) EXPECT_TRUE(Expected().contains(call)) << call << " has no row in this test";
  for (const Permission& row : AllPermissions()) {
    const std::string method(row.method);
    if (!method.starts_with("/shoal.v1.")) continue;
    EXPECT_TRUE(Expected().contains(method.substr(sizeof("/shoal.v1.") - 1))) << method << " is no call";
  }
}

// A call is audited unless it is a question or a sign of life. A new one has to be put on one side on purpose.
TEST(CallTable, SaysWhichCallsAreAudited) {
  const std::set<std::string> left_out = {
      "Scheduler/HeartbeatServer", "Scheduler/HeartbeatWorker", "Scheduler/SendTrace", "Scheduler/SendFlightRecord",
      "Scheduler/Watch",           "Status/GetCluster",         "Status/ListServers",  "Status/ListJobs",
      "Status/GetShardMap",        "Status/ListEvents",         "Status/GetTrace",     "Status/GetFlightRecords"};
  for (const std::string& call : AllCalls()) {
    EXPECT_NE(FindPermission("/shoal.v1." + call)->is_audited, left_out.contains(call)) << call;
  }
}

TEST_F(IdentitiesTest, EveryRoleMakesItsCallsAndNoOther) {
  Start();
  for (const Role role : kRoles) {
    const std::string path = std::string(RoleName(role)) + (role == Role::kWorker ? "/a" : "");
    const std::shared_ptr<grpc::Channel> channel = ChannelOf(path);
    for (const std::string& call : AllCalls()) {
      const std::vector<Role>& may = Expected().at(call);
      const bool is_allowed = std::ranges::find(may, role) != may.end();
      const grpc::Status status = Call(channel, "/shoal.v1." + call);
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << call << ": " << status.error_message();
      EXPECT_EQ(status.error_code() == grpc::StatusCode::PERMISSION_DENIED, !is_allowed)
          << path << " calls " << call << ": " << status.error_code() << " " << status.error_message();
      if (is_allowed) continue;
      EXPECT_THAT(status.error_message(),
                  AllOf(HasSubstr(kDomain + path), HasSubstr(call), HasSubstr(std::string(RoleName(may.front())))));
    }
    EXPECT_TRUE(Call(channel, "/grpc.health.v1.Health/Check").ok()) << path;
    EXPECT_EQ(Call(channel, "/shoal.v1.Scheduler/NoSuchCall").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
  EXPECT_FALSE(refusals_.empty());
}

TEST_F(IdentitiesTest, StrangersGetNoAnswer) {
  Start();
  grpc::Status status = Call(ChannelOf(CredentialFiles()), "/shoal.v1.Status/GetCluster");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << "in plain text: " << status.error_message();

  MadeAuthority other;
  CredentialFiles files = other.Issue(std::string("URI:") + kDomain + "operator");
  status = Call(ChannelOf(files), "/shoal.v1.Status/GetCluster");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ShortReason(status.error_message()), HasSubstr("--tls-ca")) << status.error_message();

  files.authorities = authority_.file();  // knows the scheduler, and is not known there
  status = Call(ChannelOf(files), "/shoal.v1.Status/GetCluster");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ShortReason(status.error_message()), HasSubstr("--tls-cert")) << status.error_message();

  status = Call(ChannelOf(authority_.Issue("URI:spiffe://a.example/ns/x/sa/y,DNS:y.example")),
                "/shoal.v1.Status/GetCluster");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("spiffe://a.example/ns/x/sa/y, y.example has no role"), HasSubstr("--identities")));
}

TEST_F(IdentitiesTest, AWorkerCannotPoseAsTheScheduler) {
  config_.credentials = authority_.Issue(std::string("URI:") + kDomain + "worker/a,IP:127.0.0.1");
  Start();
  const grpc::Status status = Call(ChannelOf("server"), "/shoal.v1.Scheduler/RegisterServer");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ShortReason(status.error_message()), HasSubstr("worker of tenant a")) << status.error_message();
}

TEST_F(IdentitiesTest, ACertificateWithTheNameOfTheHostIsAScheduler) {
  config_.credentials = authority_.Issue("IP:127.0.0.1");
  Start();
  EXPECT_TRUE(Call(ChannelOf("viewer"), "/shoal.v1.Status/GetCluster").ok());
  scheduler_.reset();
  config_.credentials = authority_.Issue("IP:127.0.0.2");
  Start();
  const grpc::Status status = Call(ChannelOf("viewer"), "/shoal.v1.Status/GetCluster");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ShortReason(status.error_message()), HasSubstr("is not a scheduler's")) << status.error_message();
}

TEST_F(IdentitiesTest, DrawnKeysOpenTheirOwnClusterAlone) {
  const absl::StatusOr<ClusterKeys> keys = DrawClusterKeys();
  ASSERT_TRUE(keys.ok()) << keys.status();
  const auto texts = [&keys](const KeyPair& pair) {
    return CredentialFiles{pair.certificate, pair.key, keys->authorities, /*are_texts=*/true};
  };
  config_.credentials = texts(keys->scheduler);
  Start();
  EXPECT_TRUE(Call(ChannelOf(texts(keys->operators)), "/shoal.v1.Status/GetCluster").ok());
  const auto worker = ChannelOf(texts(keys->worker));
  v1::JoinJobResponse joined;
  EXPECT_TRUE(v1::Scheduler::NewStub(worker)->JoinJob(Context().get(), Joining("gpt", 7), &joined).ok());
  EXPECT_EQ(Call(worker, "/shoal.v1.Admin/AbortJob").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(Call(ChannelOf(texts(keys->server)), "/shoal.v1.Scheduler/RegisterServer").error_code(),
            grpc::StatusCode::PERMISSION_DENIED);

  const absl::StatusOr<ClusterKeys> others = DrawClusterKeys();
  ASSERT_TRUE(others.ok()) << others.status();
  const CredentialFiles forged = {others->operators.certificate, others->operators.key, keys->authorities, true};
  EXPECT_EQ(Call(ChannelOf(forged), "/shoal.v1.Status/GetCluster").error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call(ChannelOf("operator"), "/shoal.v1.Status/GetCluster").error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(IdentitiesTest, AWrongKeyAsATextIsInNoError) {
  const absl::StatusOr<ClusterKeys> keys = DrawClusterKeys();
  ASSERT_TRUE(keys.ok()) << keys.status();
  const absl::Status status =
      Credentials::Load({keys->server.certificate, keys->worker.key, keys->authorities, true}, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--tls-key"), Not(HasSubstr("PRIVATE KEY"))));
}

TEST_F(IdentitiesTest, OtherNodesReachNoSchedulerWithoutCertificatesUnlessToldSo) {
  config_.listen = "0.0.0.0:0";
  Start();
  const CredentialFiles files = std::exchange(config_.credentials, {});
  const absl::Status refused = Scheduler::Start(config_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("--listen 0.0.0.0:0"), HasSubstr("--tls-cert"), HasSubstr("--insecure-network")));
  config_.insecure_network = true;
  Start();
  v1::Cluster cluster;
  const auto open =
      grpc::CreateChannel("127.0.0.1" + address_.substr(address_.rfind(':')), grpc::InsecureChannelCredentials());
  ASSERT_TRUE(v1::Status::NewStub(open)->GetCluster(Context().get(), {}, &cluster).ok());
  EXPECT_THAT(cluster.open_to_network(), HasSubstr("end the cluster"));
  config_.credentials = files;
  EXPECT_EQ(OpenToNetwork(config_), "");
  config_.http = "0.0.0.0:0";
  EXPECT_THAT(OpenToNetwork(config_), HasSubstr("--http"));
  config_.credentials = {};
  for (const char* const own : {"localhost:0", "127.0.0.1:0", "[::1]:0"}) {
    config_.listen = config_.http = own;
    EXPECT_EQ(OpenToNetwork(config_), "") << own;
  }
}

// Whoever knows the incarnation of a process can speak for it where no certificates are asked for.
TEST_F(IdentitiesTest, WhoLooksOnLearnsNoIncarnation) {
  std::vector<const google::protobuf::Descriptor*> open;
  std::set<const google::protobuf::Descriptor*> seen;
  for (const char* const name : {"shoal.v1.Status", "shoal.v1.Admin"}) {
    const auto* const service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    for (int i = 0; i < service->method_count(); ++i) open.push_back(service->method(i)->output_type());
  }
  while (!open.empty()) {
    const auto* const message = open.back();
    open.pop_back();
    if (!seen.insert(message).second) continue;
    for (int i = 0; i < message->field_count(); ++i) {
      const auto* const field = message->field(i);
      if (field->message_type() != nullptr) open.push_back(field->message_type());
      if (field->name().find("incarnation") != std::string::npos) {
        EXPECT_EQ(field->full_name(), "shoal.v1.Shard.incarnation");
      }
    }
  }
  Start();
  v1::RegisterServerRequest request;
  request.set_control_version(kControlVersion);
  request.set_software_version(kSoftwareVersion);
  request.set_name("alpha");
  request.set_incarnation(11);
  request.add_addresses("127.0.0.1:4000");
  v1::RegisterServerResponse registered;
  ASSERT_TRUE(v1::Scheduler::NewStub(ChannelOf("server"))->RegisterServer(Context().get(), request, &registered).ok());
  v1::ShardMap map;
  ASSERT_TRUE(v1::Status::NewStub(ChannelOf("viewer"))->GetShardMap(Context().get(), {}, &map).ok());
  ASSERT_EQ(map.shards_size(), 1);
  EXPECT_EQ(map.shards(0).incarnation(), 0u);
}

TEST_F(IdentitiesTest, AFileSaysWhoIsWho) {
  config_.identities = ::testing::TempDir() + "/identities";
  std::ofstream(config_.identities) << "dashboard.example viewer\n";
  Start();
  const auto channel = ChannelOf(authority_.Issue("DNS:dashboard.example"));
  EXPECT_TRUE(Call(channel, "/shoal.v1.Status/GetCluster").ok());
  EXPECT_EQ(Call(channel, "/shoal.v1.Admin/AbortJob").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Call(ChannelOf("operator"), "/shoal.v1.Admin/AbortJob").error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(IdentitiesTest, AJobIsItsTenants) {
  std::string pattern = ::testing::TempDir() + "/shoal-identities-XXXXXX";
  config_.state_file = std::string(mkdtemp(pattern.data())) + "/state";
  Start();
  v1::JoinJobResponse joined;
  ASSERT_TRUE(v1::Scheduler::NewStub(ChannelOf("worker/a"))->JoinJob(Context().get(), Joining("gpt", 7), &joined).ok());
  EXPECT_FALSE(joined.colocate_server()) << "it would get the keys of servers";
  scheduler_.reset();
  Start();  // also the next scheduler knows whose it is

  const auto other = v1::Scheduler::NewStub(ChannelOf("worker/b"));
  v1::JoinJobResponse response;
  const grpc::Status status = other->JoinJob(Context().get(), Joining("gpt", 8), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("worker of tenant b"), HasSubstr("gpt")));
  v1::LeaveJobRequest leave;
  leave.set_job_id(joined.job_id());
  leave.set_incarnation(7);
  leave.set_failed(true);
  v1::LeaveJobResponse left;
  EXPECT_EQ(other->LeaveJob(Context().get(), leave, &left).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  v1::WatchRequest watch;
  watch.set_job_id(joined.job_id());
  const auto context = Context();
  const auto stream = other->Watch(context.get(), watch);
  v1::WatchResponse news;
  EXPECT_FALSE(stream->Read(&news));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);

  v1::HeartbeatWorkerRequest beat;
  beat.set_job_id(joined.job_id());
  beat.set_incarnation(7);
  v1::HeartbeatWorkerResponse renewed;
  EXPECT_TRUE(v1::Scheduler::NewStub(ChannelOf("worker/a"))->HeartbeatWorker(Context().get(), beat, &renewed).ok());
}

TEST_F(IdentitiesTest, AServerIsOfWhoRegisteredIt) {
  config_.identities = ::testing::TempDir() + "/identities-of-servers";
  std::ofstream(config_.identities) << "s1.example server\ns2.example server\n";
  Start();
  const auto first = v1::Scheduler::NewStub(ChannelOf(authority_.Issue("DNS:s1.example")));
  const auto second = v1::Scheduler::NewStub(ChannelOf(authority_.Issue("DNS:s2.example")));
  v1::RegisterServerRequest request;
  request.set_control_version(kControlVersion);
  request.set_software_version(kSoftwareVersion);
  request.set_name("alpha");
  request.set_incarnation(11);
  request.set_node("n");
  request.add_addresses("127.0.0.1:4000");
  v1::RegisterServerResponse registered;
  ASSERT_TRUE(first->RegisterServer(Context().get(), request, &registered).ok());

  request.set_incarnation(12);
  v1::RegisterServerResponse response;
  const grpc::Status status = second->RegisterServer(Context().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("s2.example (server)"), HasSubstr("server alpha")));
  v1::DeregisterServerRequest deregister;
  deregister.set_server_id(registered.server_id());
  deregister.set_incarnation(11);
  v1::DeregisterServerResponse gone;
  EXPECT_EQ(second->DeregisterServer(Context().get(), deregister, &gone).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(first->DeregisterServer(Context().get(), deregister, &gone).ok());
}

TEST_F(IdentitiesTest, EachChangeAndEachRefusalIsToldOnceWithItsCaller) {
  Start();
  v1::DrainServerRequest drain;
  drain.set_name("beta");
  v1::DrainServerResponse drained;
  const auto operators = v1::Admin::NewStub(ChannelOf("operator"));
  EXPECT_EQ(operators->DrainServer(Context().get(), drain, &drained).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::JoinJobResponse joined;
  ASSERT_TRUE(v1::Scheduler::NewStub(ChannelOf("worker/a"))->JoinJob(Context().get(), Joining("gpt", 7), &joined).ok());
  EXPECT_TRUE(Call(ChannelOf("viewer"), "/shoal.v1.Status/GetCluster").ok());
  EXPECT_FALSE(Call(ChannelOf("viewer"), "/shoal.v1.Admin/AbortJob").ok());
  EXPECT_FALSE(Call(ChannelOf(authority_.Issue("URI:spiffe://a.example/ns/x")), "/shoal.v1.Admin/EvictServer").ok());

  const std::vector<CallFacts> drains = CallsOf("DrainServer", 1);
  ASSERT_EQ(drains.size(), 1u);
  EXPECT_EQ(drains[0].who, std::string(kDomain) + "operator");
  EXPECT_EQ(drains[0].role, "operator");
  EXPECT_THAT(drains[0].from, AllOf(HasSubstr("127.0.0.1:"), Not(HasSubstr("way"))));
  EXPECT_EQ(drains[0].object, "server \"beta\"");
  EXPECT_THAT(drains[0].outcome, HasSubstr("NOT_FOUND: "));
  EXPECT_FALSE(drains[0].is_refused);
  const std::vector<CallFacts> joins = CallsOf("JoinJob", 1);
  ASSERT_EQ(joins.size(), 1u);
  EXPECT_EQ(joins[0].outcome, "ok");
  const std::vector<CallFacts> aborts = CallsOf("AbortJob", 1);
  ASSERT_EQ(aborts.size(), 1u);
  EXPECT_EQ(aborts[0].who, std::string(kDomain) + "viewer");
  EXPECT_THAT(aborts[0].from, HasSubstr("127.0.0.1:"));
  EXPECT_TRUE(aborts[0].is_refused);
  const std::vector<CallFacts> evictions = CallsOf("EvictServer", 1);
  ASSERT_EQ(evictions.size(), 1u);
  EXPECT_EQ(evictions[0].who, "spiffe://a.example/ns/x");
  EXPECT_EQ(evictions[0].role, "");
  EXPECT_THAT(evictions[0].from, HasSubstr("127.0.0.1:"));
  EXPECT_TRUE(CallsOf("GetCluster", 0).empty());

  // Refusals are events of the journal as well.
  v1::ListEventsRequest listing;
  const auto context = Context();
  const auto events = v1::Status::NewStub(ChannelOf("viewer"))->ListEvents(context.get(), listing);
  size_t refusals = 0;
  for (v1::Event event; events->Read(&event);) refusals += event.kind() == "call-refused" ? 1 : 0;
  EXPECT_EQ(refusals, 2u);
}

TEST_F(IdentitiesTest, AFloodOfRefusedCallsIsBoundedInLogAndAudit) {
  Start();
  const auto viewer = ChannelOf("viewer");
  for (uint32_t i = 0; i < 3 * kMostRefusedCallsAMinute; ++i) Call(viewer, "/shoal.v1.Admin/AbortJob");
  EXPECT_FALSE(Call(viewer, "/shoal.v1.Admin/DrainServer").ok());
  ASSERT_EQ(CallsOf("DrainServer", 1).size(), 1u);
  EXPECT_EQ(CallsOf("AbortJob", 0).size(), kMostRefusedCallsAMinute);
}

TEST_F(IdentitiesTest, AnIdentityWithOtherCharactersThanNamesHasNoRole) {
  Start();
  const grpc::Status status =
      Call(ChannelOf(authority_.Issue("URI:spiffe://a.example/shoal/worker/a%1b")), "/shoal.v1.Scheduler/JoinJob");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), AllOf(HasSubstr("has no role"), HasSubstr("has '%' after"), HasSubstr("ASCII")));
}

TEST_F(IdentitiesTest, AFollowerPassesTheIdentityOn) {
  Start();
  const absl::StatusOr<Credentials> credentials =
      Credentials::Load(authority_.Issue(std::string("URI:") + kDomain + "scheduler"), nullptr);
  const auto doorkeeper = std::make_shared<Doorkeeper>(*credentials, IdentityRules(), nullptr);
  const auto follower = *ForwardingHost::Listen("127.0.0.1:0", 60'000, doorkeeper);
  follower->SetLeader(address_);
  address_ = follower->address();

  v1::JoinJobResponse joined;
  ASSERT_TRUE(v1::Scheduler::NewStub(ChannelOf("worker/a"))->JoinJob(Context().get(), Joining("gpt", 7), &joined).ok());
  v1::JoinJobResponse response;
  const grpc::Status status =
      v1::Scheduler::NewStub(ChannelOf("worker/b"))->JoinJob(Context().get(), Joining("gpt", 8), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("worker of tenant b"));
  EXPECT_TRUE(Call(ChannelOf("viewer"), "/shoal.v1.Status/GetCluster").ok());
  EXPECT_EQ(Call(ChannelOf("viewer"), "/shoal.v1.Admin/AbortJob").error_code(), grpc::StatusCode::PERMISSION_DENIED);

  const std::vector<CallFacts> joins = CallsOf("JoinJob", 2);
  ASSERT_EQ(joins.size(), 2u);
  EXPECT_EQ(joins[0].who, std::string(kDomain) + "worker/a");
  EXPECT_EQ(joins[1].who, std::string(kDomain) + "worker/b");
  EXPECT_TRUE(joins[1].is_refused);
  for (const CallFacts& join : joins) EXPECT_THAT(join.from, ::testing::ContainsRegex("^127.*:[0-9]+ by way of 127"));
}

TEST_F(IdentitiesTest, OnlyASchedulerSaysWhereACallComesFrom) {
  Start();
  const auto context = Context();
  context->AddMetadata(Doorkeeper::kFromKey, "192.0.2.1:80");
  v1::JoinJobResponse joined;
  ASSERT_TRUE(v1::Scheduler::NewStub(ChannelOf("worker/a"))->JoinJob(context.get(), Joining("gpt", 7), &joined).ok());
  const std::vector<CallFacts> joins = CallsOf("JoinJob", 1);
  ASSERT_EQ(joins.size(), 1u);
  EXPECT_THAT(joins[0].from, AllOf(HasSubstr("127.0.0.1:"), Not(HasSubstr("192.0.2.1"))));
}

TEST_F(IdentitiesTest, OnlyASchedulerSpeaksForOthers) {
  Start();
  for (const char* const path : {"worker/b", "operator", "server"}) {
    const auto context = Context();
    context->AddMetadata(Doorkeeper::kCallerKey, std::string(kDomain) + "worker/a");
    v1::JoinJobResponse response;
    const grpc::Status status =
        v1::Scheduler::NewStub(ChannelOf(path))->JoinJob(context.get(), Joining("gpt", 7), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << path;
    EXPECT_THAT(status.error_message(), HasSubstr("may not speak for")) << path;
  }
}

}  // namespace
}  // namespace shoal::scheduler
