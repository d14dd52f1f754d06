// The fixed seeds of `make test`, profiles made by hand, and proof that the checkers can fail.
#include "sim/simulation.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "sim/shrink.h"
#include "sim/tally.h"

namespace shoal::sim {
namespace {

std::string FirstFailure(const Report& report) {
  return report.failures.empty() ? "" : "seed " + std::to_string(report.seed) + ": " + report.failures.front();
}

TEST(Simulation, EverySeedHolds) {
  Tally tally;
  const auto run = [&](uint64_t seed) {
    const Report report = Simulate(DrawProfile(seed), 0);
    EXPECT_EQ(FirstFailure(report), "");
    tally.Add(report);
  };
  for (uint64_t seed = 1; seed <= kFixedSeeds; ++seed) run(seed);
  // A pair of faults that missed each other gets another run, and another.
  constexpr uint64_t kMoreRounds = 6;
  for (size_t first = 0; first < kFaultKindCount; ++first) {
    for (size_t second = 0; second < kFaultKindCount; ++second) {
      const auto kinds = std::pair(static_cast<FaultKind>(first), static_cast<FaultKind>(second));
      for (uint64_t round = 1; round <= kMoreRounds && tally.meetings.Of(kinds.first, kinds.second) == 0; ++round) {
        run(SeedOfDuet(kinds.first, kinds.second, round));
      }
    }
  }
  // The seeds are worth running only if much goes well, much fails, and much is refused, lent and handed over in them.
  EXPECT_GT(tally.ops_ok, 30'000u);
  EXPECT_GT(tally.ops_failed, 300u);
  EXPECT_GT(tally.refusals, 3'000u);
  EXPECT_GT(tally.loans, 30'000u);
  EXPECT_GT(tally.hand_overs, 300u);
  EXPECT_GT(tally.preemptions, 5u);
  EXPECT_GT(tally.changes_caught, 50u) << "payloads that were changed on their way";
  EXPECT_GT(tally.chunks_chosen, 500u) << "groups whose chunks the plan chose";
  EXPECT_GT(tally.device_copies, 100'000u) << "between tensors on devices and host memory";
  EXPECT_GT(tally.server_waits_told, 100u) << "windows that ranks told of";
  EXPECT_GT(tally.terms, 500u) << "of schedulers that were elected";
  EXPECT_GT(tally.hosted_schedulers_ended, 10u) << "with their rank, in the middle of its job";
  EXPECT_GT(tally.refused_saves, 20u) << "of schedulers whose term was over";
  EXPECT_GT(tally.saves_unheard, 50u) << "saves whose answer did not come";
  EXPECT_GT(tally.hellos_to_ended_groups, 0u);
  EXPECT_GT(tally.reports_without_move, 0u);
  EXPECT_GT(tally.deaths_while_gathering, 0u);
  EXPECT_GT(tally.large_jobs, 20u) << "runs of 16 ranks";
  EXPECT_GT(tally.uneven_memory, 50u) << "clusters whose servers have too little memory, or some have less";
  EXPECT_GT(tally.ended_for_memory, 0u) << "runs that their servers had too little memory for";
  EXPECT_GT(tally.arenas, 20u) << "clusters on one node";
  EXPECT_GT(tally.drains_asked, 50u) << "by an operator";
  EXPECT_GT(tally.open_runs, 500u) << "whose ranks come and go";
  EXPECT_GT(tally.meetings_held, 2'000u) << "of their ranks";
  EXPECT_GT(tally.ops_with_fewer, 300u) << "ranks than their group has";
  EXPECT_GT(tally.ops_with_mixed, 8u) << "numbers of ranks in their chunks";
  EXPECT_GT(tally.ops_without_nodes, 150u) << "that lost a rank, in groups with rails";
  EXPECT_GT(tally.ops_left_alone, 150u) << "that ended since a rank of their node was gone";
  for (size_t stage = 0; stage < kNodeStages; ++stage) {
    EXPECT_GT(tally.node_deaths[stage], 20u) << "ranks of a node died in the middle of too few ops, stage " << stage;
  }
  for (size_t i = 0; i < kFaultKindCount; ++i) {
    EXPECT_GT(tally.faults[i], 10u) << FaultName(static_cast<FaultKind>(i));
  }
  for (size_t first = 0; first < kFaultKindCount; ++first) {
    for (size_t second = 0; second < kFaultKindCount; ++second) {
      EXPECT_GT(tally.meetings.Of(static_cast<FaultKind>(first), static_cast<FaultKind>(second)), 0u)
          << "no " << FaultName(static_cast<FaultKind>(second)) << " began during a "
          << FaultName(static_cast<FaultKind>(first));
    }
  }
  // Also of a scheduler and of its store somebody notices that they are gone, before the next fault.
  for (const FaultKind first : {FaultKind::kSchedulerOutage, FaultKind::kStoreFailures, FaultKind::kLeaderChange}) {
    uint64_t noticed = 0;
    for (size_t second = 0; second < kFaultKindCount; ++second) {
      noticed += tally.meetings.Of(first, static_cast<FaultKind>(second), FaultPhase::kNoticed);
    }
    EXPECT_GT(noticed, 20u) << FaultName(first);
  }
  for (size_t check = 0; check < kExcusableChecks; ++check) {
    EXPECT_LT(tally.excuses[check] * 20, tally.runs) << ExcusableCheckName(static_cast<ExcusableCheck>(check));
  }
}

TEST(Simulation, TheSameSeedDoesTheSame) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Report first = Simulate(DrawProfile(seed), 0);
    const Report second = Simulate(DrawProfile(seed), 100);
    EXPECT_EQ(first.digest, second.digest) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
  }
}

TEST(Simulation, OtherSeedsDoOtherThings) {
  EXPECT_NE(Simulate(DrawProfile(1), 0).digest, Simulate(DrawProfile(2), 0).digest);
}

// A quiet cluster with one job, so that only the deliberate bug can break something.
Profile Quiet() {
  Profile profile;
  profile.seed = 7;
  profile.servers = 2;
  profile.min_servers = 2;
  profile.jobs.push_back({.ranks = 3, .ops = 30, .in_flight = 4});
  return profile;
}

testing::AssertionResult Finds(const Profile& profile, const std::string& check) {
  const Report report = Simulate(profile, 0);
  for (const std::string& failure : report.failures) {
    if (failure.find(check) != std::string::npos) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no failure mentions " << check << "; " << report.failures.size() << " others";
}

TEST(Checkers, FindNothingInAQuietCluster) {
  const Report report = Simulate(Quiet(), 0);
  EXPECT_EQ(FirstFailure(report), "");
  EXPECT_EQ(report.ops_ok, 90u);
}

TEST(Checkers, FindNothingWhereRanksShareNodes) {
  for (const uint32_t ranks_per_node : {2u, 3u, 4u, 6u}) {
    Profile profile = Quiet();
    profile.jobs[0].ranks = 6;
    profile.jobs[0].nodes.ranks_per_node = ranks_per_node;
    const Report report = Simulate(profile, 0);
    EXPECT_EQ(FirstFailure(report), "") << ranks_per_node;
    EXPECT_EQ(report.ops_ok, 180u) << ranks_per_node;
  }
}

// A group on one node works where no server has ever been heard of.
TEST(Simulation, RanksOfOneNodeNeedNoServer) {
  Profile profile = Quiet();
  profile.jobs[0].nodes.ranks_per_node = 3;
  profile.slot_memory_bytes = 0;
  const Report report = Simulate(profile, 0);
  EXPECT_EQ(FirstFailure(report), "");
  EXPECT_EQ(report.ops_ok, 90u);
}

// I8, on both nodes and in every stage of an op: its part is being summed, is with the other node, is being shared.
TEST(Invariant, I8ADeathOnANodeEndsAllRails) {
  NodeStageCounts deaths = {};
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Profile profile = Quiet();
    profile.seed = seed;
    profile.lease_ttl_ms = 5000;
    profile.op_timeout_ns = 40 * kNsPerS;  // nobody is to wait for that
    profile.think_ns = kNsPerMs;
    profile.node_delay_ns = kNsPerMs;
    profile.network.straggle_per_million = 200'000;
    profile.network.straggle_ns = 5 * kNsPerMs;
    profile.jobs[0] = {.ranks = 4, .ops = 200, .in_flight = 4, .nodes = {.ranks_per_node = 2}};
    profile.faults.push_back({.kind = FaultKind::kWorkerCrash,
                              .at_ns = kNsPerS + (180 + seed) * kNsPerMs,
                              .target = static_cast<uint32_t>(seed)});
    const Report report = Simulate(profile, 0);
    EXPECT_EQ(FirstFailure(report), "");
    EXPECT_GE(report.ops_failed, 3u) << "seed " << seed << ": on some rank no op failed";
    for (size_t stage = 0; stage < kNodeStages; ++stage) deaths[stage] += report.node_deaths[stage];
  }
  for (const uint64_t count : deaths) EXPECT_GT(count, 5u);
}

TEST(Checkers, FindALostContribution) {
  Profile profile = Quiet();
  profile.sabotage = Sabotage::kLoseContribution;
  EXPECT_TRUE(Finds(profile, "exactly-once"));
}

// Groups of whoever is there, one after the other.
Profile QuietAndOpen() {
  Profile profile = Quiet();
  profile.slot_memory_bytes = 64 << 20;
  profile.op_timeout_ns = 40 * kNsPerS;
  profile.jobs[0].meetings = 4;
  profile.jobs[0].ops = 30;
  profile.jobs[0].min_ranks = 1;
  return profile;
}

TEST(Checkers, FindNothingInAQuietOpenJob) {
  const Report report = Simulate(QuietAndOpen(), 0);
  EXPECT_EQ(FirstFailure(report), "");
  EXPECT_EQ(report.ops_ok, 4 * 90u);
  EXPECT_EQ(report.ops_failed, 0u);
  EXPECT_EQ(report.ops_with_fewer, 0u);
}

TEST(Checkers, FindALostContributionInAnOpenJob) {
  Profile profile = QuietAndOpen();
  profile.sabotage = Sabotage::kLoseContribution;
  EXPECT_TRUE(Finds(profile, "(contributors)"));
}

TEST(Checkers, FindAnOpThatFailsInAGroupThatGoesOn) {
  Profile profile = QuietAndOpen();
  profile.op_timeout_ns = 3 * kNsPerS;
  profile.sabotage = Sabotage::kLoseSum;
  EXPECT_TRUE(Finds(profile, "(goes on)"));
}

TEST(Simulation, OpsGoOnWithoutRanksThatDieLeaveOrAreTakenForLost) {
  for (const FaultKind kind : {FaultKind::kWorkerCrash, FaultKind::kWorkerSilent, FaultKind::kWorkerStop,
                               FaultKind::kWorkerNodeCut, FaultKind::kAbort}) {
    Profile profile = QuietAndOpen();
    profile.think_ns = 3 * kNsPerMs;
    profile.faults = {{.kind = kind, .at_ns = kNsPerS + 100 * kNsPerMs, .duration_ns = 3 * kNsPerS, .target = 1}};
    const Report report = Simulate(profile, 0);
    EXPECT_EQ(FirstFailure(report), "") << FaultName(kind);
    EXPECT_EQ(report.faults[static_cast<size_t>(kind)], 1u);
    EXPECT_GT(report.ops_with_fewer, 5u) << FaultName(kind);
  }
  Profile profile = QuietAndOpen();
  profile.jobs[0].leaves_per_million = 300'000;
  const Report report = Simulate(profile, 0);
  EXPECT_EQ(FirstFailure(report), "");
  EXPECT_GT(report.ops_with_fewer, 5u);
  EXPECT_EQ(report.ops_failed, 0u);
}

TEST(Simulation, OpsGoOnWithoutNodesThatLoseARank) {
  for (const FaultKind kind : {FaultKind::kWorkerCrash, FaultKind::kWorkerSilent, FaultKind::kWorkerStop,
                               FaultKind::kWorkerNodeCut, FaultKind::kAbort}) {
    Profile profile = QuietAndOpen();
    profile.think_ns = 3 * kNsPerMs;
    profile.jobs[0].ranks = 6;
    profile.jobs[0].nodes.ranks_per_node = 2;
    profile.faults = {{.kind = kind, .at_ns = kNsPerS + 100 * kNsPerMs, .duration_ns = 3 * kNsPerS, .target = 1}};
    const Report report = Simulate(profile, 0);
    EXPECT_EQ(FirstFailure(report), "") << FaultName(kind);
    EXPECT_EQ(report.faults[static_cast<size_t>(kind)], 1u);
    EXPECT_GT(report.ops_without_nodes, 5u) << FaultName(kind);
    // The others lose the whole node at once.
    const bool leaves_one_alone = kind == FaultKind::kWorkerCrash || kind == FaultKind::kAbort;
    EXPECT_EQ(report.ops_left_alone > 0, leaves_one_alone || kind == FaultKind::kWorkerStop) << FaultName(kind);
  }
}

TEST(Checkers, FindALostSum) {
  Profile profile = Quiet();
  profile.sabotage = Sabotage::kLoseSum;
  EXPECT_TRUE(Finds(profile, "isolation"));
}

TEST(Checkers, FindNothingWhereAllIsLent) {
  Profile profile = Quiet();
  profile.network.lend_per_million = 1'000'000;
  const Report report = Simulate(profile, 0);
  EXPECT_EQ(FirstFailure(report), "");
  EXPECT_EQ(report.ops_ok, 90u);
  EXPECT_GT(report.loans, 90u);
}

TEST(Checkers, FindAWriteToALoan) {
  Profile profile = Quiet();
  profile.network.lend_per_million = 1'000'000;
  profile.sabotage = Sabotage::kWriteInput;
  EXPECT_TRUE(Finds(profile, "loans"));
}

TEST(Checkers, FindALoanThatIsNotReturned) {
  Profile profile = Quiet();
  profile.network.lend_per_million = 1'000'000;
  profile.sabotage = Sabotage::kLoseSum;
  EXPECT_TRUE(Finds(profile, "loans are still open"));
}

TEST(Checkers, FindALateWrite) {
  Profile profile = Quiet();
  profile.network.writes_late = true;
  EXPECT_TRUE(Finds(profile, "ownership"));
}

// F18, proved from outside: where nobody checks, the sum is wrong, or a connection stays that brought a changed
// payload.
TEST(Checkers, FindNothingWherePayloadsChangeAndAreChecked) {
  uint64_t caught = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Profile profile = Quiet();
    profile.seed = seed;
    profile.lease_ttl_ms = 5000;
    profile.op_timeout_ns = 40 * kNsPerS;
    profile.network.lend_per_million = 500'000;
    profile.think_ns = 5 * kNsPerMs;
    profile.jobs[0].ops = 100;
    profile.jobs[0].checksums = true;
    profile.faults.push_back({.kind = FaultKind::kCorruption,
                              .at_ns = kNsPerS + 200 * kNsPerMs,
                              .duration_ns = kNsPerS,
                              .target = static_cast<uint32_t>(seed)});
    const Report report = Simulate(profile, 0);
    EXPECT_EQ(FirstFailure(report), "");
    EXPECT_EQ(report.ops_ok, 300u) << "seed " << seed;
    caught += report.changes_caught;
  }
  EXPECT_GT(caught, 20u);
}

// F16: the leader is cut off from the store for longer than its lease; another one leads, and no op notices.
TEST(Simulation, ALeaderThatLosesTheStoreIsReplaced) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Profile profile = Quiet();
    profile.seed = seed;
    profile.schedulers = 2 + seed % 2;
    profile.leader_lease_ms = 2000;
    profile.op_timeout_ns = 40 * kNsPerS;
    profile.think_ns = 100 * kNsPerMs;
    profile.jobs[0].ops = 200;
    profile.faults.push_back(
        {.kind = FaultKind::kLeaderCut, .at_ns = kNsPerS + 500 * kNsPerMs, .duration_ns = 20 * kNsPerS});
    const Report report = Simulate(profile, 0);
    EXPECT_EQ(FirstFailure(report), "");
    EXPECT_EQ(report.ops_ok, 600u) << "seed " << seed;
    EXPECT_GE(report.terms, 2u) << "seed " << seed;
  }
}

// F12: the scheduler comes back without its state, while a job runs and before another one starts.
TEST(Simulation, ARunningJobAndANewOneOutliveTheSchedulersState) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Profile profile = Quiet();
    profile.seed = seed;
    profile.think_ns = 20 * kNsPerMs;
    profile.jobs[0].ops = 100;
    profile.jobs.push_back({.ranks = 3, .ops = 10, .in_flight = 1, .start_ns = 400 * kNsPerMs});
    profile.faults.push_back(
        {.kind = FaultKind::kSchedulerAmnesia, .at_ns = kNsPerS + 350 * kNsPerMs, .duration_ns = 20 * kNsPerMs});
    const Report report = Simulate(profile, 0);
    EXPECT_EQ(FirstFailure(report), "");
    EXPECT_EQ(report.ops_ok, 330u) << "seed " << seed;
  }
}

// Each restart is a server at a new address.
TEST(Simulation, AWorkerIsNoSlowerForTheServersThatHaveGone) {
  constexpr uint64_t kRestarts = 8;
  Profile profile = Quiet();
  profile.jobs[0].until_ns = (2 + 3 * kRestarts) * kNsPerS;
  profile.think_ns = 100 * kNsPerMs;
  for (uint64_t i = 0; i < kRestarts; ++i) {
    profile.faults.push_back({.kind = FaultKind::kRollingRestart, .at_ns = (2 + 3 * i) * kNsPerS});
  }
  const Report report = Simulate(profile, 0);
  EXPECT_EQ(FirstFailure(report), "");
  EXPECT_EQ(report.faults[static_cast<size_t>(FaultKind::kRollingRestart)], kRestarts);
}

TEST(Shrink, LeavesWhatTheFailureNeeds) {
  Profile profile = DrawProfile(1);
  uint64_t seed = 1;
  while (profile.faults.size() < 8 || profile.jobs.size() < 3 || profile.jobs[0].is_open()) {
    profile = DrawProfile(++seed);
  }
  profile.sabotage = Sabotage::kLoseContribution;
  ASSERT_FALSE(Simulate(profile, 0).failures.empty());
  const Shrunk shrunk = Shrink(profile, 300);
  EXPECT_FALSE(Simulate(shrunk.profile, 0).failures.empty());
  EXPECT_TRUE(shrunk.profile.faults.empty()) << shrunk.profile.Describe();
  EXPECT_EQ(shrunk.profile.jobs.size(), 1u);
  EXPECT_EQ(shrunk.profile.jobs[0].ranks, 2u) << "of one rank nothing is summed";
  EXPECT_LE(shrunk.profile.jobs[0].ops, 5u);
  EXPECT_LE(shrunk.runs, 300u);
}

TEST(Shrink, StopsWhenTold) {
  Profile profile = DrawProfile(1);
  profile.sabotage = Sabotage::kLoseContribution;
  EXPECT_EQ(Shrink(profile, 3).runs, 3u);
}

}  // namespace
}  // namespace shoal::sim
