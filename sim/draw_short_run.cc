// Runs of a few hundred milliseconds: many faults fall together while jobs start, work and end.
#include <algorithm>

#include "sim/draw_run.h"

namespace shoal::sim {
namespace {

void DrawJobs(Random& random, uint64_t temper, Profile* profile) {
  const uint64_t jobs = random.Between(1, 3);
  for (uint64_t i = 0; i < jobs; ++i) {
    profile->jobs.push_back({.ranks = static_cast<uint32_t>(random.Between(1, 5)),
                             .subgroup = random.Chance(300'000),
                             .ops = static_cast<uint32_t>(random.Between(1, 30)),
                             .in_flight = Pick<uint32_t>(random, {1, 2, 8, 30}),
                             .start_ns = random.Chance(200'000) ? random.Below(300'000'000) : 0,
                             .has_colocated_servers = temper > 1 && random.Chance(150'000),
                             .colocates_without_servers = temper > 1 && random.Chance(300'000),
                             .wire = Pick<WireFormat>(random, {WireFormat::kAsIs, WireFormat::kAsIs, WireFormat::kAsIs,
                                                               WireFormat::kBfloat16, WireFormat::kFloat16})});
  }
}

void DrawFaults(Random& random, uint64_t temper, Profile* profile) {
  const uint64_t lease_ns = profile->lease_ttl_ms * kNsPerMs;
  const uint32_t wanted_per_million = Pick<uint32_t>(random, {60'000, 200'000, 350'000});
  for (size_t i = 0; i < kFaultKindCount; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    const bool wanted = random.Chance(wanted_per_million);
    const bool repeats = IsBenign(kind) || IsSurvivable(kind);
    if (MakesForgetful(kind)) continue;  // DrawForgetting
    if (!wanted || temper == 0 || (temper == 1 && !IsBenign(kind)) || (temper < 6 && !repeats)) continue;
    const uint64_t times = repeats ? random.Between(1, 3) : 1;
    for (uint64_t time = 0; time < times; ++time) {
      profile->faults.push_back({.kind = kind,
                                 .at_ns = kNsPerS + random.Below(uint64_t{1} << random.Between(21, 28)),
                                 .duration_ns = DrawDuration(random, kind, lease_ns, 2 * lease_ns),
                                 .target = static_cast<uint32_t>(random.Below(1 << 16))});
    }
  }
}

// Groups that move again and again, to ever fewer servers, while much is under way in few slots: ranks are in different
// places of their order, and chunks of many servers meet on few.
void DrawStorm(Random& random, Profile* profile) {
  profile->servers = 4;
  profile->io_threads = 2;
  profile->window_bytes = 2 * profile->max_chunk_bytes;
  profile->think_ns = 1'000;
  profile->network.jitter_ns = 1'000'000;
  for (JobProfile& job : profile->jobs) {
    job.ranks = static_cast<uint32_t>(random.Between(3, 5));
    job.ops = 60;
    job.in_flight = 30;
  }
  const uint64_t begin_ns = kNsPerS + random.Between(80, 180) * kNsPerMs;
  for (uint64_t i = random.Between(3, 12); i > 0; --i) {
    const FaultKind kind = Pick(random, {FaultKind::kReset, FaultKind::kServerCrash, FaultKind::kServerCrash});
    profile->faults.push_back({.kind = kind,
                               .at_ns = begin_ns + random.Below(30 * kNsPerMs),
                               .target = static_cast<uint32_t>(random.Below(1 << 16))});
  }
}

// Groups that move every few milliseconds among few servers, while results take as long: at each move some ranks have
// what others lack, and at the next one some have been given it and are done with the op.
void DrawUnrest(Random& random, Profile* profile) {
  profile->servers = static_cast<uint32_t>(random.Between(1, 2));
  profile->io_threads = 1;
  profile->window_bytes = 2 * profile->max_chunk_bytes;
  profile->think_ns = 1'000;
  profile->network.straggle_per_million = 300'000;
  profile->network.straggle_ns = Pick<uint64_t>(random, {2'000'000, 5'000'000, 10'000'000});
  for (JobProfile& job : profile->jobs) {
    job.ranks = static_cast<uint32_t>(random.Between(2, 3));
    job.ops = 40;
    job.in_flight = Pick<uint32_t>(random, {1, 4});
  }
  for (uint64_t i = random.Between(10, 40); i > 0; --i) {
    profile->faults.push_back({.kind = FaultKind::kReset, .at_ns = kNsPerS + random.Between(40, 260) * kNsPerMs});
  }
}

// A scheduler that comes back without its state while one job runs, and before another one starts: two schedulers have
// each made a first group, and both groups are on the same servers.
void DrawForgetting(Random& random, Profile* profile) {
  if (profile->jobs.size() == 1) profile->jobs.push_back(profile->jobs.front());
  profile->think_ns = 20 * kNsPerMs;
  for (JobProfile& job : profile->jobs) {
    job.ranks = static_cast<uint32_t>(random.Between(2, 3));
    job.ops = 60;
    job.in_flight = 1;
    job.start_ns = 0;
  }
  const uint64_t forgets_ns = random.Between(100, 300) * kNsPerMs;
  const uint64_t away_ns = random.Between(5, 30) * kNsPerMs;
  profile->jobs.back().ops = 10;
  profile->jobs.back().start_ns = forgets_ns + away_ns + random.Below(100 * kNsPerMs);
  profile->faults.push_back(
      {.kind = FaultKind::kSchedulerAmnesia, .at_ns = kNsPerS + forgets_ns, .duration_ns = away_ns});
}

// Groups that move again so soon that a rank still lacks a result with which the others have gone on several ops ago. A
// group may move four times at once, so there are many groups, one after the other.
void DrawLag(Random& random, Profile* profile) {
  profile->servers = 2;
  profile->schedulers = 1;
  profile->io_threads = 1;
  profile->max_chunk_bytes = Pick<uint32_t>(random, {2048, 8192});
  profile->window_bytes = Pick<uint32_t>(random, {1, 2}) * profile->max_chunk_bytes;
  profile->think_ns = 1'000;
  profile->reduce_ns = 1;
  profile->wake_delay_ns = 1;
  profile->network.latency_ns = 1'000;
  profile->network.jitter_ns = 10'000;
  profile->network.ns_per_kib = 10;
  profile->network.straggle_per_million = Pick<uint32_t>(random, {50'000, 100'000, 150'000});
  profile->network.straggle_ns = Pick<uint64_t>(random, {5, 20, 50}) * kNsPerMs;
  profile->jobs.clear();
  constexpr uint64_t kJobs = 6;
  constexpr uint64_t kJobEveryNs = 40 * kNsPerMs;
  for (uint64_t i = 0; i < kJobs; ++i) {
    profile->jobs.push_back({.ranks = static_cast<uint32_t>(random.Between(2, 3)),
                             .ops = 50,
                             .in_flight = Pick<uint32_t>(random, {1, 2, 8}),
                             .start_ns = i * kJobEveryNs});
  }
  profile->faults.clear();
  for (uint64_t i = 120; i > 0; --i) {
    profile->faults.push_back(
        {.kind = FaultKind::kReset, .at_ns = kNsPerS + random.Between(40 * kNsPerMs, (kJobs + 3) * kJobEveryNs)});
  }
}

// Everybody on one node, with more and larger chunks under way than the shared memory of a rank has room for, while a
// rank or a server is late.
void DrawSameNode(Random& random, Profile* profile) {
  profile->arena_bytes = Pick<uint64_t>(random, {16 << 10, 64 << 10, 256 << 10});
  profile->servers = static_cast<uint32_t>(random.Between(1, 4));
  profile->io_threads = 1;
  profile->max_chunk_bytes = Pick<uint32_t>(random, {16 << 10, 32 << 10});
  profile->window_bytes = Pick<uint32_t>(random, {2, 8}) * profile->max_chunk_bytes;
  profile->think_ns = 1'000;
  profile->jobs.resize(1);
  profile->jobs[0] = {.ranks = static_cast<uint32_t>(random.Between(2, 4)),
                      .subgroup = true,
                      .ops = 8,
                      .most_elements = 60'000,
                      .in_flight = Pick<uint32_t>(random, {2, 8})};
  profile->faults.clear();
  const uint64_t lease_ns = profile->lease_ttl_ms * kNsPerMs;
  for (uint64_t i = random.Between(1, 6); i > 0; --i) {
    const FaultKind kind = Pick(random, {FaultKind::kPause, FaultKind::kPause, FaultKind::kServerStop,
                                         FaultKind::kServerCrash, FaultKind::kServerRestart});
    profile->faults.push_back({.kind = kind,
                               .at_ns = kNsPerS + random.Between(20, 60) * kNsPerMs,
                               .duration_ns = DrawDuration(random, kind, lease_ns, 2 * lease_ns),
                               .target = static_cast<uint32_t>(random.Below(1 << 16))});
  }
}

}  // namespace

void DrawShortRun(Random& random, Profile* profile) {
  // One in eight has no fault, one benign ones only, two have destructive ones as well.
  const uint64_t temper = random.Below(8);
  DrawJobs(random, temper, profile);
  DrawFaults(random, temper, profile);
  const uint64_t special = temper < 2 ? 20 : random.Below(20);
  if (special < 2) DrawStorm(random, profile);
  if (special == 2 && random.Chance(500'000)) DrawForgetting(random, profile);
  if (special > 2 && special < 5) DrawUnrest(random, profile);
  if (special > 4 && special < 7) DrawLag(random, profile);
  if (special == 7) DrawSameNode(random, profile);
  // What is to be survived takes leases and outages in a row; a map or an answer that comes late, up to two leases.
  const bool news_are_late = std::ranges::any_of(profile->faults, [](const Fault& fault) {
    return fault.kind == FaultKind::kLateMap || fault.kind == FaultKind::kFollowerStop;
  });
  profile->op_timeout_ns = (profile->moves() || news_are_late ? 40 : 6) * kNsPerS;
}

}  // namespace shoal::sim
