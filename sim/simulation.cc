#include "sim/simulation.h"

#include "sim/cluster.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kStartedNs = 400 * kNsPerMs;  // all that start first have started
constexpr uint64_t kLongestNs = 300 * kNsPerS;   // by then every process has ended, whatever happened
constexpr uint64_t kMostEvents = 20'000'000;

}  // namespace

Report Simulate(const Profile& profile, size_t trace_lines) {
  Cluster cluster(profile, trace_lines);
  World& world = cluster.world();
  cluster.Start();
  world.RunUntil(world.now_ns() + kStartedNs);
  const uint64_t latest_ns = world.now_ns() + kLongestNs;
  while (!cluster.AllWorkersEnded() && world.RunOne(latest_ns)) {
    if (world.events_run() < kMostEvents) continue;
    cluster.checkers().Fail("the processes keep each other busy for ever (liveness)");
    break;
  }
  world.RunUntil(cluster.SettledByNs());
  cluster.CheckEnd();
  const Checkers& checkers = cluster.checkers();
  return {.seed = profile.seed,
          .digest = world.digest(),
          .events = world.events_run(),
          .virtual_ns = world.now_ns(),
          .ops_ok = checkers.ops_ok(),
          .ops_failed = checkers.ops_failed(),
          .refusals = checkers.refusals(),
          .loans = cluster.network().loans_taken(),
          .changes_caught = cluster.network().changes_caught(),
          .chunks_chosen = checkers.chunks_chosen(),
          .device_copies = checkers.device_copies(),
          .server_waits_told = checkers.server_waits_told(),
          .terms = cluster.terms(),
          .hosted_schedulers_ended = cluster.hosted_schedulers_ended(),
          .refused_saves = cluster.disk().refused_saves(),
          .saves_unheard = cluster.disk().saves_unheard(),
          .hand_overs = cluster.hand_overs(),
          .preemptions = checkers.preemptions(),
          .hellos_to_ended_groups = cluster.hellos_to_ended_groups(),
          .reports_without_move = cluster.reports_without_move(),
          .deaths_while_gathering = cluster.deaths_while_gathering(),
          .large_jobs = cluster.large_jobs(),
          .uneven_memory = profile.lacks_memory() ? 1u : 0u,
          .ended_for_memory = cluster.ended_for_memory(),
          .arenas = profile.arena_bytes > 0 ? 1u : 0u,
          .drains_asked = cluster.drains_asked(),
          .node_deaths = cluster.node_deaths(),
          .faults = cluster.faults(),
          .runs = cluster.runs(),
          .open_runs = cluster.open_runs(),
          .meetings_held = cluster.meetings_held(),
          .ops_with_fewer = cluster.roster_checks().fewer(),
          .ops_with_mixed = cluster.roster_checks().mixed(),
          .ops_without_nodes = cluster.roster_checks().without_nodes(),
          .ops_left_alone = cluster.roster_checks().left_alone(),
          .ops_written_down = cluster.roster_checks().written_down(),
          .excuses = checkers.excuses(),
          .meetings = cluster.fault_log().meetings(),
          .failures = checkers.failures(),
          .trace = world.text()};
}

}  // namespace shoal::sim
