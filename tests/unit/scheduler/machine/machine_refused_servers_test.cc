// Servers that are not let in, what operators are told of servers, and what becomes of both while the state is not
// saved.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/machine/refused_servers.h"
#include "scheduler/machine/save_queue.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ReasonOf(const absl::Status& status) { return std::string(status.message()); }

HeartbeatServer HeartbeatOf(ServerId server, uint64_t incarnation) { return {server, Incarnation(incarnation), {}}; }

std::shared_ptr<const ShardMap> MapOf(MachineHarness& harness) {
  return harness.Ask<std::shared_ptr<const ShardMap>>(GetShardMap());
}

RegisterServer ServerOn(const std::string& node, const std::string& boot_id, uint64_t incarnation) {
  RegisterServer request = Server("a", incarnation, static_cast<uint32_t>(incarnation));
  request.node = node;
  request.boot_id = boot_id;
  return request;
}

size_t EventCount(const MachineHarness& harness, const std::string& kind) {
  const std::vector<std::string> kinds = harness.EventKinds();
  return static_cast<size_t>(std::count(kinds.begin(), kinds.end(), kind));
}

TEST(MachineRefusedServersTest, ALiveServersNameIsNotTakenOverByAnotherNode) {
  MachineHarness harness;
  const auto live = harness.Ask<ServerRegistered>(ServerOn("rack1", "boot-1", 11));
  const absl::Status refused = harness.Try(ServerOn("rack2", "boot-2", 12));
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists) << "so that it asks again: the other one's lease may end";
  EXPECT_THAT(ReasonOf(refused),
              HasSubstr("a live server on node rack1 (10.0.0.1:11) has the name a, and this one is on "
                        "node rack2 (10.0.0.1:12); give this one another --name"));
  EXPECT_TRUE(harness.Try(HeartbeatOf(live.server, 11)).ok()) << "the live one goes on";
  EXPECT_EQ(MapOf(harness)->epoch(), Epoch(1));
  EXPECT_EQ(harness.Try(ServerOn("rack1", "boot-2", 12)).code(), absl::StatusCode::kAlreadyExists)
      << "cloned nodes have one name";
  harness.Ask<ServerRegistered>(ServerOn("renamed", "boot-1", 13));  // as a container is that is started again
}

TEST(MachineRefusedServersTest, AServerOfAnotherNodeTakesTheNameOnceItIsFree) {
  for (const bool drained : {false, true}) {
    MachineHarness harness;
    const auto live = harness.Ask<ServerRegistered>(ServerOn("rack1", "boot-1", 11));
    if (drained) {
      EXPECT_TRUE(harness.Try(DeregisterServer{live.server, Incarnation(11), "drained"}).ok());
    } else {
      harness.Advance(kTtlMs);
    }
    const auto next = harness.Ask<ServerRegistered>(ServerOn("rack2", "boot-2", 12));
    EXPECT_EQ(next.server, live.server);
  }
}

TEST(MachineRefusedServersTest, OperatorsAreToldOfAServerThatIsRefusedUntilItIsIn) {
  MachineHarness harness;
  const auto live = harness.Ask<ServerRegistered>(ServerOn("rack1", "boot-1", 11));
  for (int second = 0; second < 90; ++second) {
    EXPECT_FALSE(harness.Try(ServerOn("rack2", "boot-2", 12)).ok());
    harness.Advance(1000);
    EXPECT_TRUE(harness.Try(HeartbeatOf(live.server, 11)).ok());
  }
  EXPECT_EQ(EventCount(harness, "server-refused"), 2u) << "once a minute";
  EXPECT_EQ(harness.events().back().subject, "server a");
  EXPECT_THAT(harness.events().back().reason, HasSubstr("node rack2: a live server on node rack1"));
  const auto refused = harness.Ask<ClusterView>(GetCluster()).refused_servers;
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].node, "rack2");
  EXPECT_EQ(refused[0].newest_age_ms, 1000u);
  EXPECT_EQ(harness.machine().Numbers(harness.now()).refused_servers.size(), 1u);
  EXPECT_TRUE(harness.Try(DeregisterServer{live.server, Incarnation(11), "drained"}).ok());
  harness.Ask<ServerRegistered>(ServerOn("rack2", "boot-2", 12));
  EXPECT_THAT(harness.Ask<ClusterView>(GetCluster()).refused_servers, IsEmpty());
}

TEST(MachineRefusedServersTest, RefusedServersTakeNoMoreRoomHoweverManyAsk) {
  MachineHarness harness;
  for (uint64_t round = 0; round < 5; ++round) {
    for (uint64_t i = 1; i < 100; ++i) {
      RegisterServer request = Server("s" + std::to_string(i), i, 1);
      request.control_version = 0;
      EXPECT_FALSE(harness.Try(request).ok());
    }
  }
  EXPECT_EQ(harness.Ask<ClusterView>(GetCluster()).refused_servers.size(), kMostRefusedServers);
  EXPECT_EQ(EventCount(harness, "server-refused"), kMostRefusedServers) << "within a minute";
  harness.Advance(kRefusedShownNs / kMs + 1);
  EXPECT_THAT(harness.Ask<ClusterView>(GetCluster()).refused_servers, IsEmpty());
}

TEST(MachineRefusedServersTest, AServerThatOnlyItsOwnNodeReachesIsRefusedWhereThereAreOthers) {
  MachineHarness harness;
  RegisterServer loopback = ServerOn("rack1", "boot-1", 11);
  loopback.addresses = {"127.0.1.1:4567"};
  harness.Ask<ServerRegistered>(loopback);  // alone, as on a laptop
  RegisterServer second = ServerOn("rack2", "boot-2", 12);
  second.name = "b";
  second.addresses = {"127.0.0.1:4567"};
  const absl::Status refused = harness.Try(second);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(ReasonOf(refused),
              HasSubstr("advertises 127.0.0.1:4567, which leads every node to itself, and the cluster "
                        "has members on other nodes, such as rack1"));
  second.addresses = {"10.0.0.12:4567"};
  harness.Ask<ServerRegistered>(second);
}

TEST(MachineServerFactsTest, AServersClockIsComparedWithTheSchedulers) {
  MachineHarness harness;
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  HeartbeatServer beat = HeartbeatOf(a.server, 11);
  EXPECT_TRUE(harness.Try(beat).ok());
  EXPECT_EQ(harness.Servers()[0].clock_ahead_ms, std::nullopt) << "it is older than the field";
  beat.now_unix_ms = harness.now().unix_ms - 90'000;
  EXPECT_TRUE(harness.Try(beat).ok());
  EXPECT_EQ(harness.Servers()[0].clock_ahead_ms, -90'000);
}

TEST(MachineServerFactsTest, WhenAServerWentIsKnownAfterARestart) {
  MachineHarness harness;
  const auto a = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  harness.Ask<ServerRegistered>(Server("b", 12, 2));
  harness.Advance(1000);
  EXPECT_TRUE(harness.Try(DeregisterServer{a.server, Incarnation(11), "drained"}).ok());
  EXPECT_TRUE(harness.Try(EvictServer{"b"}).ok());
  PersistedState state = *harness.last_saved();
  for (ServerState& server : state.servers) {
    EXPECT_EQ(server.gone_at_unix_ms, harness.now().unix_ms) << server.name;
    server.gone_at_unix_ms -= 600'000;  // the scheduler was away for ten minutes
  }
  MachineHarness after(state);
  const uint64_t clock_ms = harness.now().unix_ms - after.now().unix_ms;  // each harness begins at the same time
  for (const ServerView& server : after.Servers()) {
    EXPECT_EQ(server.last_heartbeat_age_ms + clock_ms, 600'000u) << server.state.name;
  }
  after.Ask<ServerRegistered>(Server("a", 13, 1));
  EXPECT_EQ(after.Servers()[0].state.gone_at_unix_ms, 0u);
}

// The saves of so many seconds fail, one in each.
void FailSaves(MachineHarness& harness, int seconds, const std::string& why) {
  for (int i = 0; i < seconds; ++i) {
    ASSERT_TRUE(harness.save_under_way());
    harness.FinishSave(absl::ResourceExhaustedError(why));
    harness.Advance(kSaveRetryNs / kMs);
  }
}

TEST(MachineFailedSavesTest, WhySavesFailIsShownWhileTheyDoAndToldOnceAMinute) {
  MachineHarness harness;
  harness.set_save_at_once(false);
  harness.Send(Server("a", 11, 1));
  FailSaves(harness, 65, "No space left on device");
  EXPECT_EQ(EventCount(harness, "save-failed"), 2u);
  FailSaves(harness, 1, "Read-only file system");
  EXPECT_EQ(EventCount(harness, "save-failed"), 3u) << "it says something else";
  auto cluster = harness.Ask<ClusterView>(GetCluster());
  EXPECT_EQ(cluster.save_failure, "Read-only file system");
  EXPECT_EQ(cluster.now_unix_ms - cluster.saves_fail_since_unix_ms, 66'000u);
  harness.set_save_at_once(true);
  harness.FinishSave();
  cluster = harness.Ask<ClusterView>(GetCluster());
  EXPECT_EQ(cluster.save_failure, "");
  EXPECT_EQ(cluster.now_unix_ms - cluster.saves.newest_failure_unix_ms, 1000u);
  EXPECT_THAT(harness.EventKinds(), Contains("saved-again"));
}

TEST(MachineFailedSavesTest, AServerWhoseComingIsNotSavedIsNoMoreLiveThanItsProcess) {
  MachineHarness harness;
  const auto known = harness.Ask<ServerRegistered>(Server("a", 11, 1));
  harness.set_save_at_once(false);
  harness.Send(Server("b", 12, 2));
  for (int i = 0; i < 5; ++i) {
    FailSaves(harness, 3, "No space left on device");
    harness.Send(Server("b", 12, 2));
  }
  EXPECT_EQ(harness.Servers()[1].state.phase, MemberPhase::kLive) << "it asks again and again";
  FailSaves(harness, static_cast<int>(kUnsavedServerPatienceNs / kSaveRetryNs), "No space left on device");
  const ServerState gone = harness.Servers()[1].state;
  EXPECT_EQ(gone.phase, MemberPhase::kLost);
  EXPECT_THAT(gone.reason, HasSubstr("no sign of its process for 10 s, and that it had come was not saved yet"));
  EXPECT_EQ(harness.Servers()[0].state.phase, MemberPhase::kLive) << "nobody can renew while the store fails";
  harness.set_save_at_once(true);
  harness.FinishSave();
  EXPECT_EQ(MapOf(harness)->shards().size(), 1u);
  EXPECT_TRUE(harness.Try(HeartbeatOf(known.server, 11)).ok());
}

TEST(MachineFailedSavesTest, ASaveThatTakesLongIsNoEndOfTheServerThatWaitsForIt) {
  MachineHarness harness;
  harness.set_save_at_once(false);
  const RequestHandle first = harness.Send(Server("a", 11, 1));
  for (int i = 0; i < 10; ++i) {
    harness.Advance(3000);
    harness.Send(Server("a", 11, 1));
  }
  harness.set_save_at_once(true);
  harness.FinishSave();
  EXPECT_TRUE(harness.HasReply(first));
  harness.Advance(kTtlMs - 1);
  EXPECT_EQ(harness.Servers()[0].state.phase, MemberPhase::kLive) << "its lease counts from the answer";
  harness.Advance(1);
  EXPECT_EQ(harness.Servers()[0].state.phase, MemberPhase::kLost);
}

}  // namespace
}  // namespace shoal::scheduler
