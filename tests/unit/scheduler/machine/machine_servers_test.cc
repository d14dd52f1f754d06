// Servers: registration, leases, the shard map, what is persisted before what, restarts.
#include <algorithm>
#include <string>
#include <vector>

#include "core/version.h"
#include "scheduler/insight/page_room.h"
#include "scheduler/rpc/control_messages.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

HeartbeatServer BeatServer(ServerId server, uint64_t incarnation) { return {server, Incarnation(incarnation), {}}; }

std::shared_ptr<const ShardMap> Map(MachineHarness& harness) {
  return harness.Ask<std::shared_ptr<const ShardMap>>(GetShardMap());
}

TEST(MachineServersTest, RegisteringGivesIdKeyAndANewMap) {
  MachineHarness harness;
  EXPECT_TRUE(Map(harness)->empty());
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  RegisterServer two_threads = Server("b", 12, 2);
  two_threads.addresses.push_back("10.0.0.1:3");
  two_threads.weight = 4;
  const auto b = harness.Ask<ServerRegistered>(two_threads);
  EXPECT_EQ(a.epoch, Epoch(1));
  EXPECT_EQ(b.epoch, Epoch(2));
  EXPECT_EQ(a.lease_ttl_ms, kTtlMs);
  EXPECT_EQ(a.token_key, NewState().token_key);
  EXPECT_NE(a.server, b.server);
  const auto map = Map(harness);
  EXPECT_EQ(map->epoch(), Epoch(2));
  ASSERT_EQ(map->shards().size(), 3u);
  EXPECT_EQ(map->shards()[1].server_name, "b");
  EXPECT_EQ(map->shards()[1].weight, 4u);
  EXPECT_EQ(map->shards()[0].weight, 1u) << "weight 0 means 1";
}

TEST(MachineServersTest, RegisteringAgainIsIdempotent) {
  MachineHarness harness;
  const auto first = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  const size_t events = harness.events().size();
  const auto second = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  EXPECT_EQ(first.server, second.server);
  EXPECT_EQ(first.epoch, second.epoch);
  EXPECT_EQ(harness.events().size(), events);
}

TEST(MachineServersTest, ANewerServerThatSpeaksThisVersionAsWellIsTaken) {
  MachineHarness harness;
  RegisterServer newer = Server("a", 11, 1);
  newer.control_version = kControlVersion + 1;
  newer.oldest_control_version = kControlVersion;
  harness.Ask<ServerRegistered>(newer);
}

TEST(MachineServersTest, AServerOfTheVersionBeforeThisOneIsTaken) {
  MachineHarness harness;
  RegisterServer older = Server("a", 11, 1);
  older.control_version = kControlVersion - 1;
  older.oldest_control_version = 0;
  harness.Ask<ServerRegistered>(older);
}

TEST(MachineServersTest, RequestsThatAMemberOfTheVersionBeforeGaveUpAreRead) {
  v1::CloseGroupsRequest older;
  older.add_given_up_request_numbers(7);
  const CloseGroups request = FromMessage(older);
  ASSERT_EQ(request.given_up_requests.size(), 1u);
  EXPECT_EQ(request.given_up_requests[0].number, 7u);
  EXPECT_EQ(request.given_up_requests[0].reason, "");
  v1::CloseGroupsRequest of_today = older;
  v1::GivenUpRequest* const given_up = of_today.add_given_up_requests();
  given_up->set_number(7);
  given_up->set_reason("it ends");
  ASSERT_EQ(FromMessage(of_today).given_up_requests.size(), 1u) << "it says the same twice";
  EXPECT_EQ(FromMessage(of_today).given_up_requests[0].reason, "it ends");
}

TEST(MachineServersTest, BadRegistrationsAreRefusedByValue) {
  struct Case {
    const char* what;
    void (*spoil)(RegisterServer*);
    absl::StatusCode code;
    const char* message;
  };
  const Case cases[] = {
      {"too new",
       [](RegisterServer* r) {
         r->control_version = 9;
         r->oldest_control_version = kControlVersion + 1;
       },
       absl::StatusCode::kFailedPrecondition, "update the scheduler"},
      {"version", [](RegisterServer* r) { r->control_version = 9; }, absl::StatusCode::kFailedPrecondition,
       "speaks control version 9"},
      {"old version", [](RegisterServer* r) { r->control_version = 0; }, absl::StatusCode::kFailedPrecondition,
       "this scheduler speaks 2 to 3"},
      {"no name", [](RegisterServer* r) { r->name.clear(); }, absl::StatusCode::kInvalidArgument, "server name"},
      {"long name", [](RegisterServer* r) { r->name.assign(201, 'x'); }, absl::StatusCode::kInvalidArgument, "201"},
      {"control characters", [](RegisterServer* r) { r->name = "a\nb"; }, absl::StatusCode::kInvalidArgument,
       "server name \"a\\x0ab\" has '\\x0a' after 1 bytes"},
      {"another script", [](RegisterServer* r) { r->name = "z\u00fcrich"; }, absl::StatusCode::kInvalidArgument,
       "has '\u00fc' after 1 bytes; give 1 to 200 ASCII letters, digits"},
      {"node", [](RegisterServer* r) { r->node = "rack 2"; }, absl::StatusCode::kInvalidArgument,
       "node name \"rack 2\" has a space after 4 bytes"},
      {"a terminal's command", [](RegisterServer* r) { r->name = "a\u009bb"; }, absl::StatusCode::kInvalidArgument,
       "a\\xc2\\x9bb"},
      {"text turned round", [](RegisterServer* r) { r->name = "a\u202eb"; }, absl::StatusCode::kInvalidArgument,
       "a\\xe2\\x80\\xaeb"},
      {"incarnation", [](RegisterServer* r) { r->incarnation = Incarnation(); }, absl::StatusCode::kInvalidArgument,
       "incarnation is 0"},
      {"no address", [](RegisterServer* r) { r->addresses.clear(); }, absl::StatusCode::kInvalidArgument,
       "gave 0 addresses"},
      {"port 0", [](RegisterServer* r) { r->addresses = {"10.0.0.1:0"}; }, absl::StatusCode::kInvalidArgument,
       "10.0.0.1:0"},
      {"no port", [](RegisterServer* r) { r->addresses = {"10.0.0.1"}; }, absl::StatusCode::kInvalidArgument,
       "ip:port"},
      {"same address twice",
       [](RegisterServer* r) {
         r->addresses = {"10.0.0.1:9", "10.0.0.1:9"};
       },
       absl::StatusCode::kInvalidArgument, "twice"},
      {"weight", [](RegisterServer* r) { r->weight = 65; }, absl::StatusCode::kInvalidArgument, "weight 65"},
      {"taken address", [](RegisterServer* r) { r->addresses = {"10.0.0.1:1"}; }, absl::StatusCode::kAlreadyExists,
       "live server a on node node-a"},
  };
  MachineHarness harness;
  harness.Ask<ServerRegistered>(Server("a", 11, 1));
  for (const Case& c : cases) {
    RegisterServer request = Server("b", 12, 2);
    c.spoil(&request);
    const absl::Status status = harness.Try(request);
    EXPECT_EQ(status.code(), c.code) << c.what << ": " << status;
    EXPECT_THAT(Text(status), HasSubstr(c.message));
  }
  EXPECT_EQ(Map(harness)->epoch(), Epoch(1)) << "a refusal changes nothing";
}

TEST(MachineServersTest, AServerThatBeatsStaysAndOneThatDoesNotIsLost) {
  MachineHarness harness;
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto b = harness.Ask<ServerRegistered>(Server("b", 12, 2));
  const WatcherId watcher = harness.Watch();
  for (int i = 0; i < 4; ++i) {
    harness.Advance(kTtlMs / 3);
    EXPECT_EQ(harness.Ask<ServerRenewed>(BeatServer(a.server, 11)).lease_ttl_ms, kTtlMs);
  }
  const auto map = Map(harness);
  EXPECT_EQ(map->epoch(), Epoch(3));
  ASSERT_EQ(map->shards().size(), 1u);
  EXPECT_EQ(map->shards()[0].server_name, "a");
  ASSERT_EQ(harness.watched(watcher).size(), 2u);
  EXPECT_EQ(harness.watched(watcher)[0].map->epoch(), Epoch(2));
  EXPECT_EQ(harness.watched(watcher)[1].map->epoch(), Epoch(3));
  const absl::Status status = harness.Try(BeatServer(b.server, 12));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Text(status), HasSubstr("no heartbeat for 5 s (lease 5 s)); register again"));
  const auto views = harness.Servers();
  EXPECT_EQ(views[1].state.phase, MemberPhase::kLost);
  EXPECT_THAT(harness.EventKinds(), Contains("server-lost"));

  const auto back = harness.Ask<ServerRegistered>(Server("b", 12, 2));
  EXPECT_EQ(back.server, b.server) << "a server keeps its id";
  EXPECT_EQ(back.epoch, Epoch(4));
  EXPECT_THAT(harness.EventKinds(), Contains("server-returned"));
}

TEST(MachineServersTest, LeaseRunsOutExactlyAtItsEnd) {
  MachineHarness harness;
  harness.Ask<ServerRegistered>(Server("a", 11, 1));
  EXPECT_EQ(harness.machine().NextDeadlineNs(), harness.now().monotonic_ns + kTtlMs * kMs);
  harness.Advance(kTtlMs - 1);
  EXPECT_EQ(Map(harness)->shards().size(), 1u);
  harness.Advance(1);
  EXPECT_EQ(Map(harness)->shards().size(), 0u);
  EXPECT_EQ(harness.machine().NextDeadlineNs(), kNoDeadline);
}

TEST(MachineServersTest, ServersLostTogetherGiveOneMap) {
  MachineHarness harness;
  const auto last = harness.Ask<ServerRegistered>(Server("s0", 9, 9)).server;
  for (uint32_t i = 1; i <= 5; ++i) harness.Ask<ServerRegistered>(Server("s" + std::to_string(i), i, i));
  for (int i = 0; i < 2; ++i) {
    harness.Advance(2 * kTtlMs / 5);
    harness.Ask<ServerRenewed>(BeatServer(last, 9));
  }
  harness.Advance(kTtlMs / 5);
  EXPECT_EQ(Map(harness)->epoch(), Epoch(7));
  EXPECT_EQ(Map(harness)->shards().size(), 1u);
}

TEST(MachineServersTest, F12MembersOnSeveralNodesThatFallSilentTogetherAreNotBlamed) {
  MachineHarness harness;
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto b = harness.Ask<ServerRegistered>(Server("b", 12, 2));
  const auto job = harness.Ask<JobJoined>(Join("j", 1, 0, 21)).job;
  harness.Advance(kTtlMs / 3);
  harness.Ask<ServerRenewed>(BeatServer(b.server, 12));
  harness.Advance(100 * kTtlMs + kTtlMs / 2);
  EXPECT_EQ(Map(harness)->shards().size(), 2u);
  EXPECT_EQ(std::ranges::count(harness.EventKinds(), "scheduler-cut-off"), 1) << "said once";
  harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
  EXPECT_THAT(harness.EventKinds(), Contains("scheduler-reached"));
  for (int beat = 0; beat < 2; ++beat) {
    harness.Advance(2 * kTtlMs / 5);
    harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
  }
  harness.Advance(kTtlMs / 5 - 1);
  EXPECT_TRUE(harness.Try(Beat(job, 0, 21)).ok()) << "one full lease since the first was heard again";
  harness.Advance(1);
  EXPECT_EQ(Map(harness)->shards().size(), 1u) << "but who does not come within it is lost";
}

// Names and routes may lead to a scheduler that was started again some seconds after it has begun, and not for all
// members at the same time.
TEST(MachineServersTest, F12WhoFindsTheSchedulerAgainLateIsNotLost) {
  MachineHarness before;
  const auto a = before.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto job = before.Ask<JobJoined>(Join("j", 1, 0, 21)).job;
  MachineHarness harness(before.last_saved());
  harness.Advance(3 * kTtlMs);
  EXPECT_EQ(Map(harness)->shards().size(), 1u);
  ASSERT_EQ(std::ranges::count(harness.EventKinds(), "scheduler-cut-off"), 1);
  EXPECT_THAT(harness.events().back().reason, HasSubstr("no member has been heard since this scheduler began"));
  harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
  harness.Advance(kTtlMs - 1);
  EXPECT_TRUE(harness.Try(Beat(job, 0, 21)).ok()) << "one full lease since the first was heard";

  harness = MachineHarness(before.last_saved());
  harness.Advance(9 * kTtlMs);
  EXPECT_EQ(Map(harness)->shards().size(), 1u);
  harness.Advance(3 * kTtlMs);
  EXPECT_EQ(Map(harness)->shards().size(), 0u) << "after ten leases they are not believed to look for it any more";

  harness = MachineHarness(before.last_saved());
  harness.Advance(kTtlMs - 1);
  harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
  harness.Advance(kTtlMs - 1);
  EXPECT_TRUE(harness.Try(Beat(job, 0, 21)).ok()) << "also if that was just within the first one";

  harness = MachineHarness(before.last_saved());
  for (int beat = 0; beat < 5; ++beat) {
    harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
    harness.Advance(kTtlMs / 5);
  }
  EXPECT_FALSE(harness.Try(Beat(job, 0, 21)).ok()) << "a member that is heard at once shows that the others could be";
}

// A cable that was silent for two thirds of a lease: one member's heartbeat came just before, another's was due then,
// and that one takes a moment longer to connect again.
TEST(MachineServersTest, F12WhoIsHeardLateAfterASilenceOfAllIsNotLost) {
  MachineHarness harness;
  const auto job = harness.Ask<JobJoined>(Join("j", 1, 0, 21)).job;
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  harness.Advance(kTtlMs / 3 - 20);
  harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
  harness.Advance(2 * kTtlMs / 3 - 40);
  harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
  harness.Advance(kTtlMs / 4);
  EXPECT_TRUE(harness.Try(Beat(job, 0, 21)).ok());
}

TEST(MachineServersTest, AHeartbeatThatComesAQuarterLateIsNoSilenceOfAll) {
  MachineHarness harness;
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  harness.Ask<ServerRegistered>(Server("b", 12, 2));
  for (int i = 0; i < 3; ++i) {
    harness.Advance(kTtlMs / 3 + kTtlMs / 13);
    harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
  }
  EXPECT_EQ(Map(harness)->shards().size(), 1u) << "the other one died";
}

// It looks like a short silence of all, again and again, or once in each lease.
TEST(MachineServersTest, OneWhoIsAlwaysLateDoesNotKeepADeadOneAlive) {
  for (const uint64_t usual_ms : {kTtlMs * 13 / 30, kTtlMs / 3}) {
    MachineHarness harness;
    const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
    harness.Ask<ServerRegistered>(Server("b", 12, 2));
    const uint64_t dead_since_ns = harness.now().monotonic_ns;
    for (int beat = 0; Map(harness)->shards().size() == 2; ++beat) {
      ASSERT_LE(harness.now().monotonic_ns, dead_since_ns + 2 * kTtlMs * kMs + kTtlMs * kMs / 2) << usual_ms;
      harness.Advance(beat % 3 == 0 ? kTtlMs * 13 / 30 : usual_ms);
      harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
    }
    EXPECT_EQ(Map(harness)->shards()[0].server_name, "a");
  }
}

TEST(MachineServersTest, MembersOfOneNodeThatFallSilentTogetherAreLost) {
  MachineHarness harness;
  RegisterServer second = Server("b", 12, 2);
  second.node = Server("a", 11, 1).node;
  harness.Ask<ServerRegistered>(Server("a", 11, 1));
  harness.Ask<ServerRegistered>(second);
  harness.Advance(kTtlMs);
  EXPECT_EQ(Map(harness)->shards().size(), 0u);
}

TEST(MachineServersTest, ASilenceShorterThanALeaseIsNobodysEnd) {
  MachineHarness harness;
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto b = harness.Ask<ServerRegistered>(Server("b", 12, 2));
  harness.Advance(kTtlMs - 1);
  harness.Ask<ServerRenewed>(BeatServer(a.server, 11));
  harness.Advance(kTtlMs / 2);  // the other one takes longer to connect again
  harness.Ask<ServerRenewed>(BeatServer(b.server, 12));
  EXPECT_EQ(Map(harness)->shards().size(), 2u);
}

TEST(MachineServersTest, AStalledSchedulerBlamesNobody) {
  MachineHarness harness;
  harness.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto job = harness.Ask<JobJoined>(Join("j", 1, 0, 21));
  harness.Stall(60'000);
  EXPECT_EQ(Map(harness)->shards().size(), 1u);
  EXPECT_TRUE(harness.Try(Beat(job.job, 0, 21)).ok());
  EXPECT_THAT(harness.EventKinds(), Contains("scheduler-stalled"));
  for (int beat = 0; beat < 2; ++beat) {
    harness.Advance(2 * kTtlMs / 5);
    EXPECT_TRUE(harness.Try(Beat(job.job, 0, 21)).ok());
  }
  harness.Advance(kTtlMs / 5);
  EXPECT_EQ(Map(harness)->shards().size(), 0u) << "but they have to come within one more lease";
}

TEST(MachineServersTest, ARestartedServerTakesItsPlaceOver) {
  MachineHarness harness;
  const auto old = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto fresh = harness.Ask<ServerRegistered>(Server("a", 12, 2));
  EXPECT_EQ(old.server, fresh.server);
  EXPECT_EQ(fresh.epoch, Epoch(2));
  ASSERT_EQ(Map(harness)->shards().size(), 1u);
  EXPECT_EQ(Map(harness)->shards()[0].incarnation, Incarnation(12));
  EXPECT_EQ(harness.Try(BeatServer(old.server, 11)).code(), absl::StatusCode::kAborted);
  const absl::Status status = harness.Try(Server("a", 11, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << "or the two would evict each other for ever";
  EXPECT_THAT(Text(status), HasSubstr("took the place of server a"));
}

TEST(MachineServersTest, DeregisteringRemovesWithTheReason) {
  MachineHarness harness;
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  EXPECT_EQ(harness.Try(DeregisterServer{a.server, Incarnation(99), ""}).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(harness.Try(DeregisterServer{a.server, Incarnation(11), "drained"}).ok());
  EXPECT_TRUE(harness.Try(DeregisterServer{a.server, Incarnation(11), "drained"}).ok()) << "idempotent";
  EXPECT_EQ(Map(harness)->epoch(), Epoch(2));
  const auto views = harness.Servers();
  EXPECT_EQ(views[0].state.phase, MemberPhase::kLeft);
  EXPECT_EQ(views[0].state.reason, "drained");
  EXPECT_EQ(harness.Try(BeatServer(a.server, 11)).code(), absl::StatusCode::kNotFound);
}

TEST(MachineServersTest, GoneServersAreForgottenInTheEnd) {
  MachineHarness harness;
  for (uint32_t i = 1; i <= kMaxGoneServers + 20; ++i) {
    const auto server = harness.Ask<ServerRegistered>(Server("s" + std::to_string(i), i, i));
    EXPECT_TRUE(harness.Try(DeregisterServer{server.server, Incarnation(i), ""}).ok());
  }
  EXPECT_EQ(harness.Servers().size(), kMaxGoneServers);
}

TEST(MachineServersTest, ManyServersComeOnceInSmallAnswersAlsoWhileTheyLeave) {
  MachineHarness harness;
  constexpr uint64_t kServers = 200;
  for (uint64_t i = 1; i <= kServers; ++i) {
    const auto server = harness.Ask<ServerRegistered>(Server("s" + std::to_string(i), i, static_cast<uint32_t>(i)));
    HeartbeatServer beat = BeatServer(server.server, i);
    for (int reason = 0; reason < 64; ++reason) {
      beat.load.refusals_by_reason[std::to_string(reason) + std::string(298, 'x')] = 1;
    }
    ASSERT_TRUE(harness.Try(beat).ok());
  }
  for (const uint32_t page_size : {0u, 30u}) {
    std::vector<ServerId> listed;
    size_t pages = 0;
    ListServers request{.page_size = page_size};
    do {
      const auto page = harness.Ask<ServersPage>(request);
      v1::ListServersResponse message;
      ToMessage(page, &message);
      EXPECT_LE(message.ByteSizeLong(), kMaxPageBytes);
      EXPECT_TRUE(page_size == 0 || page.servers.size() <= page_size) << page.servers.size();
      for (const ServerView& server : page.servers) listed.push_back(server.state.id);
      const Incarnation incarnation(listed.back().value());
      EXPECT_TRUE(harness.Try(DeregisterServer{listed.back(), incarnation, "drained"}).ok());
      request.page_token = page.next_page_token;
      ++pages;
    } while (!request.page_token.empty());
    EXPECT_GE(pages, 2u);
    ASSERT_EQ(listed.size(), kServers);
    for (uint64_t i = 0; i < kServers; ++i) EXPECT_EQ(listed[i], ServerId(i + 1));
  }
}

TEST(MachineServersTest, OneServerIsListedByItsName) {
  MachineHarness harness;
  harness.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto b = harness.Ask<ServerRegistered>(Server("b", 12, 2));
  const auto page = harness.Ask<ServersPage>(ListServers{.name = "b"});
  ASSERT_EQ(page.servers.size(), 1u);
  EXPECT_EQ(page.servers[0].state.id, b.server);
  EXPECT_EQ(page.next_page_token, "");
  const absl::Status unknown = harness.Try(ListServers{.name = "c"});
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Text(unknown), HasSubstr("no server is named \"c\"; live servers: a, b"));
  const absl::Status bad = harness.Try(ListServers{.page_token = "1/rank/2"});
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(bad), HasSubstr("page_token \"1/rank/2\" is none that a scheduler gives"));
}

// ---- persist, then persisted, then the consequences ----

TEST(MachinePersistTest, NothingIsAnsweredOrPublishedBeforeItIsSaved) {
  MachineHarness harness;
  const WatcherId watcher = harness.Watch();
  harness.watched(watcher).clear();
  harness.set_save_at_once(false);
  const RequestHandle handle = harness.Send(Server("a", 11, 1));
  EXPECT_TRUE(harness.save_under_way());
  EXPECT_FALSE(harness.HasReply(handle));
  EXPECT_THAT(harness.watched(watcher), IsEmpty());
  EXPECT_THAT(harness.EventKinds(), Not(Contains("map-published")));
  EXPECT_EQ(Map(harness)->epoch(), Epoch(0)) << "nor shown";
  harness.FinishSave();
  EXPECT_TRUE(harness.HasReply(handle));
  ASSERT_EQ(harness.watched(watcher).size(), 1u);
  EXPECT_EQ(harness.watched(watcher)[0].map->epoch(), Epoch(1));
  EXPECT_EQ(harness.last_saved()->epoch, Epoch(1));
  EXPECT_THAT(harness.EventKinds(), Contains("map-published"));
}

TEST(MachinePersistTest, ChangesDuringASaveGoIntoTheNextTogether) {
  MachineHarness harness;
  harness.set_save_at_once(false);
  const RequestHandle a = harness.Send(Server("a", 11, 1));
  const RequestHandle b = harness.Send(Server("b", 12, 2));
  const RequestHandle c = harness.Send(Server("c", 13, 3));
  const RequestHandle a_again = harness.Send(Server("a", 11, 1));
  harness.FinishSave();
  EXPECT_TRUE(harness.HasReply(a));
  EXPECT_FALSE(harness.HasReply(b));
  EXPECT_FALSE(harness.HasReply(a_again)) << "an idempotent answer tells of an epoch that isn't saved yet";
  EXPECT_TRUE(harness.save_under_way());
  harness.FinishSave();
  EXPECT_TRUE(harness.HasReply(b) && harness.HasReply(c) && harness.HasReply(a_again));
  EXPECT_FALSE(harness.save_under_way());
  EXPECT_EQ(harness.last_saved()->servers.size(), 3u);
}

TEST(MachinePersistTest, AFailedSaveIsToldAndTriedAgain) {
  MachineHarness harness;
  const WatcherId watcher = harness.Watch();
  harness.watched(watcher).clear();
  harness.set_save_at_once(false);
  const RequestHandle a = harness.Send(Server("a", 11, 1));
  harness.FinishSave(absl::ResourceExhaustedError("can't write /state: No space left on device"));
  EXPECT_EQ(harness.StatusOf(a).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(harness.StatusOf(a)), HasSubstr("No space left on device"));
  EXPECT_THAT(harness.watched(watcher), IsEmpty());
  EXPECT_THAT(harness.EventKinds(), Contains("save-failed"));
  EXPECT_FALSE(harness.save_under_way());
  harness.Advance(kSaveRetryNs / kMs);
  ASSERT_TRUE(harness.save_under_way());
  harness.FinishSave();
  ASSERT_EQ(harness.watched(watcher).size(), 1u);
  EXPECT_EQ(harness.watched(watcher)[0].map->epoch(), Epoch(1));
}

TEST(MachinePersistTest, ANewClusterIsSavedBeforeTheFirstAnswer) {
  MachineHarness harness;
  ASSERT_TRUE(harness.last_saved().has_value());
  EXPECT_EQ(harness.last_saved()->cluster_id, "test");
}

// ---- restart ----

TEST(MachineRestartTest, KnownServersKeepTheirPlaceWithoutANewMap) {
  MachineHarness before;
  const auto a = before.Ask<ServerRegistered>(Server("a", 11, 1));
  const auto b = before.Ask<ServerRegistered>(Server("b", 12, 2));
  MachineHarness after(before.last_saved());
  EXPECT_FALSE(after.save_under_way());
  EXPECT_EQ(Map(after)->epoch(), Epoch(2));
  EXPECT_EQ(Map(after)->Digest(), Map(before)->Digest());
  after.Advance(kTtlMs - 1);
  EXPECT_TRUE(after.Try(BeatServer(a.server, 11)).ok()) << "one full lease to show up again";
  EXPECT_EQ(after.Ask<ServerRegistered>(Server("b", 12, 2)).server, b.server);
  EXPECT_EQ(Map(after)->epoch(), Epoch(2)) << "coming again changes nothing";
  for (int beat = 0; beat < 3; ++beat) {
    after.Advance(kTtlMs / 3);
    EXPECT_TRUE(after.Try(BeatServer(b.server, 12)).ok());
  }
  after.Advance(kTtlMs / 100);
  EXPECT_EQ(Map(after)->epoch(), Epoch(3)) << "one lost at last";
  const auto c = after.Ask<ServerRegistered>(Server("c", 13, 3));
  EXPECT_GT(c.server, b.server) << "ids go on";
}

TEST(MachineRestartTest, AStateThatContradictsItselfIsRefused) {
  MachineHarness before;
  before.Ask<ServerRegistered>(Server("a", 11, 1));
  before.Ask<ServerRegistered>(Server("b", 12, 2));
  PersistedState state = *before.last_saved();
  state.servers[1].addresses = state.servers[0].addresses;
  const auto machine = SchedulerMachine::Make({.lease_ttl_ms = kTtlMs, .store = "test"}, state, false, Now());
  EXPECT_EQ(machine.status().code(), absl::StatusCode::kDataLoss);
}

// ---- events ----

TEST(MachineEventsTest, BacklogThenFollow) {
  MachineHarness harness;
  harness.Ask<ServerRegistered>(Server("a", 11, 1));
  harness.StepEvent(EventsOpened{WatcherId(900), false, 0});
  const auto& backlog = harness.followed().at(WatcherId(900));
  ASSERT_EQ(backlog.size(), 4u);
  EXPECT_EQ(backlog[0].kind, EventKind::kSchedulerStarted);
  EXPECT_EQ(backlog[1].kind, EventKind::kServerRegistered);
  EXPECT_EQ(backlog[2].kind, EventKind::kMapPublished);
  EXPECT_EQ(backlog[2].epoch, Epoch(1));
  EXPECT_EQ(backlog[2].sequence, 3u);
  EXPECT_EQ(backlog[3].kind, EventKind::kCallMade);
  EXPECT_TRUE(harness.closed().at(WatcherId(900)).ok());

  harness.StepEvent(EventsOpened{WatcherId(901), true, 2});
  harness.Ask<ServerRegistered>(Server("b", 12, 2));
  const auto& followed = harness.followed().at(WatcherId(901));
  ASSERT_EQ(followed.size(), 5u);
  EXPECT_EQ(followed[0].sequence, 3u);
  EXPECT_EQ(followed[4].sequence, 7u);
  harness.StepEvent(StreamClosed{WatcherId(901)});
  harness.Ask<ServerRegistered>(Server("c", 13, 3));
  EXPECT_EQ(followed.size(), 5u);
}

TEST(MachineEventsTest, ClosedWatchersGetNoMore) {
  MachineHarness harness;
  const WatcherId watcher = harness.Watch();
  harness.StepEvent(StreamClosed{watcher});
  harness.Ask<ServerRegistered>(Server("a", 11, 1));
  EXPECT_EQ(harness.watched(watcher).size(), 1u);
}

}  // namespace
}  // namespace shoal::scheduler
