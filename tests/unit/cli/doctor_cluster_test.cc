// What the doctor says of the cluster that it sees: its schedulers, its state, and servers that are missing or
// misplaced.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/doctor.h"
#include "core/no_leader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/cli/healthy_examination.h"

namespace shoal::cli {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::Not;

TEST(DoctorClusterTest, AServerThatIsNotLetInIsAProblem) {
  Examination seen = Healthy();
  v1::RefusedServer* const refused = seen.cluster.add_refused_servers();
  refused->set_name("shoal-0");
  refused->set_node("rack2");
  refused->set_reason("a live server on node rack1 has the name shoal-0");
  refused->set_newest_age_ms(1200);
  EXPECT_THAT(Judge(seen),
              Contains(Is("server", Verdict::kProblem,
                          "server shoal-0 on rack2 was refused 1.2 s ago: a live server on node rack1 has the name",
                          "mend that on its node")));
}

TEST(DoctorClusterTest, ALostServerIsToldAsLongAsItIsListed) {
  Examination seen = Healthy();
  v1::ServerStatus* const lost = seen.servers.add_servers();
  lost->set_name("shoal-1");
  lost->set_node("rack2");
  lost->set_state("lost");
  lost->set_reason("no heartbeat for 5.2 s (lease 5.0 s)");
  lost->set_last_heartbeat_age_ms(60'000);
  const auto is_told =
      Contains(Is("server", Verdict::kWarning, "server shoal-1 on rack2 is lost: no heartbeat for 5.2 s",
                  "start it again under its name"));
  EXPECT_THAT(Judge(seen), is_told);
  lost->set_last_heartbeat_age_ms(2 * 3'600'000);
  EXPECT_THAT(Judge(seen), Not(is_told));
  lost->set_last_heartbeat_age_ms(60'000);
  lost->set_job_id(3);
  EXPECT_THAT(Judge(seen), Not(is_told)) << "it went with its rank";
}

TEST(DoctorClusterTest, AStateThatIsNotSavedIsAProblem) {
  Examination seen = Healthy();
  seen.cluster.set_store("file /var/lib/shoal/state");
  seen.cluster.set_save_failure("No space left on device");
  seen.cluster.set_saves_fail_since_unix_ms(seen.cluster.now_unix_ms() - 12'000);
  EXPECT_THAT(Judge(seen), Contains(Is("state", Verdict::kProblem,
                                       "not been able to save its state for 12.0 s (file /var/lib/shoal/state): No "
                                       "space left on device",
                                       "free space or mend the store")));
}

TEST(DoctorClusterTest, AnOpenNetworkIsAWarning) {
  Examination seen = Healthy();
  seen.cluster.set_open_to_network("everybody can end it");
  EXPECT_THAT(Judge(seen), Contains(Is("network", Verdict::kWarning, "everybody can end it (--insecure-network)",
                                       "give scheduler, servers and ranks certificates")));
}

TEST(DoctorClusterTest, AListWithSchedulersOfTwoClustersIsAProblem) {
  Examination seen = Healthy();
  seen.schedulers = {{"10.0.0.1:7070", absl::OkStatus(), "aaaa"},
                     {"10.0.0.2:7070", absl::UnavailableError("silent")},
                     {"10.0.0.3:7070", absl::OkStatus(), "aaaa"}};
  EXPECT_THAT(Judge(seen), Not(Contains(Field("verdict", &Finding::verdict, Verdict::kProblem))));
  seen.schedulers[2].cluster_id = "bbbb";
  EXPECT_THAT(Judge(seen),
              Contains(Is("scheduler", Verdict::kProblem,
                          "different clusters: 10.0.0.1:7070 is of cluster aaaa; 10.0.0.3:7070 is of cluster bbbb",
                          "name the schedulers of one cluster alone")));
}

TEST(DoctorClusterTest, ALeaderThatNobodyHasListedIsNamed) {
  Examination seen = Healthy();
  seen.cluster.set_leader("intruder:7070");
  seen.schedulers = {{"10.0.0.1:7070", absl::OkStatus(), "aaaa"}, {"10.0.0.2:7070", absl::OkStatus(), "aaaa"}};
  seen.leader = {"10.0.0.9:7070"};
  const auto is_told =
      Contains(Is("scheduler", Verdict::kWarning, "the scheduler at intruder:7070 leads, and is none of those listed",
                  "each cluster needs a /PREFIX of its own"));
  EXPECT_THAT(Judge(seen), is_told);
  seen.leader = {"10.0.0.9:7070", "10.0.0.2:7070"};
  EXPECT_THAT(Judge(seen), Not(is_told));
  seen.leader = {};
  EXPECT_THAT(Judge(seen), Not(is_told)) << "where there is one address, there is no list";
}

TEST(DoctorClusterTest, WhereNobodyLeadsThatIsTheOneFinding) {
  Examination seen = Healthy();
  const absl::Status nobody = absl::UnavailableError(absl::StrCat("the scheduler at 10.0.0.1:7070: ", kNobodyLeads));
  seen.scheduler = nobody;
  seen.schedulers = {{"10.0.0.1:7070", nobody}, {"10.0.0.2:7070", nobody}};
  size_t of_schedulers = 0;
  for (const Finding& finding : Judge(seen)) of_schedulers += finding.check == "scheduler" ? 1 : 0;
  EXPECT_EQ(of_schedulers, 1u);
  EXPECT_THAT(Judge(seen), Contains(Is("scheduler", Verdict::kProblem, kNobodyLeads, "most members of the etcd")));
}

TEST(DoctorClusterTest, AServersClockIsComparedWithTheSchedulers) {
  Examination seen = Healthy();
  seen.servers.mutable_servers(0)->set_clock_ahead_ms(-1500);
  const auto is_told =
      Contains(Is("clock", Verdict::kWarning, "the clock of rack1, where server shoal-0 runs, is", "NTP client"));
  EXPECT_THAT(Judge(seen), Not(is_told)) << "its heartbeat may have been under way";
  seen.servers.mutable_servers(0)->set_clock_ahead_ms(-90'000);
  EXPECT_THAT(Judge(seen), is_told);
  EXPECT_THAT(Judge(seen), Contains(Is("clock", Verdict::kWarning, "is 2 min behind the scheduler's")));
  seen.servers.mutable_servers(0)->set_clock_ahead_ms(3'000);
  EXPECT_THAT(Judge(seen), Contains(Is("clock", Verdict::kWarning, "is 3.0 s ahead of the scheduler's")));
}

TEST(DoctorClusterTest, ServersWithDifferentNumbersOfIoThreadsAreToldOf) {
  Examination seen = Healthy();
  *seen.servers.add_servers() = seen.servers.servers(0);
  seen.servers.mutable_servers(1)->set_name("shoal-1");
  seen.servers.mutable_servers(1)->mutable_addresses()->RemoveLast();
  seen.ways.push_back(GoodWay("10.0.0.12:4567"));
  EXPECT_THAT(Judge(seen), Contains(Is("shares", Verdict::kNote,
                                       "(1 I/O thread on shoal-1; 2 I/O threads on shoal-0); each I/O thread gets")));
}

TEST(DoctorClusterTest, AServerThatAdvertisesTheLoopbackIsToldWhatIsWrong) {
  Examination seen = Healthy();
  seen.ways[0] = {.address = "127.0.1.1:4567", .outcome = Way::Outcome::kRefused, .why = "Connection refused"};
  seen.ways[1] = seen.ways[0];
  seen.node_name = "rack1";
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem, "127.0.1.1:4567", "nothing listens there")))
      << "it is on this node";
  seen.node_name = "trainer";
  EXPECT_THAT(Judge(seen), Contains(Is("server", Verdict::kProblem, "can't be reached at 127.0.1.1:4567",
                                       "leads every node to itself")));
}

}  // namespace
}  // namespace shoal::cli
