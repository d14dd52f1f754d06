#include "sim/profile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/machine/server_group.h"
#include "sim/world.h"

namespace shoal::sim {
namespace {

template <typename T>
T Pick(Random& random, std::initializer_list<T> choices) {
  return *(choices.begin() + random.Below(choices.size()));
}

uint64_t DrawDuration(Random& random, FaultKind kind, uint64_t lease_ns) {
  switch (kind) {
    case FaultKind::kServerStop:
    case FaultKind::kServerCut:
    case FaultKind::kServerControlCut:
    case FaultKind::kWorkerStop:
    case FaultKind::kFollowerStop:
    case FaultKind::kEveryServerCrash:
      return random.Between(lease_ns, 2 * lease_ns);
    case FaultKind::kOneWay:
    case FaultKind::kLateMap:
      return random.Between(1'000'000, 2 * lease_ns);
    default:
      return random.Between(1'000'000, lease_ns / 3);
  }
}

// Those of the kinds from `first` to before `end`.
void DrawFaults(Random& random, uint64_t temper, size_t first, size_t end, Profile* profile) {
  const uint64_t lease_ns = profile->lease_ttl_ms * kNsPerMs;
  const uint32_t wanted_per_million = Pick<uint32_t>(random, {60'000, 200'000, 350'000});
  for (size_t i = first; i < end; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    const bool wanted = random.Chance(wanted_per_million);
    const bool repeats = IsBenign(kind) || IsSurvivable(kind);
    if (!wanted || temper == 0 || (temper == 1 && !IsBenign(kind)) || (temper < 6 && !repeats)) continue;
    const uint64_t times = repeats ? random.Between(1, 3) : 1;
    for (uint64_t time = 0; time < times; ++time) {
      profile->faults.push_back({.kind = kind,
                                 .at_ns = kNsPerS + random.Below(uint64_t{1} << random.Between(21, 28)),
                                 .duration_ns = DrawDuration(random, kind, lease_ns),
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

void DrawJobs(Random& random, uint64_t temper, Profile* profile) {
  const uint64_t jobs = random.Between(1, 3);
  for (uint64_t i = 0; i < jobs; ++i) {
    profile->jobs.push_back({.ranks = static_cast<uint32_t>(random.Between(1, 5)),
                             .subgroup = random.Chance(300'000),
                             .ops = static_cast<uint32_t>(random.Between(1, 30)),
                             .in_flight = Pick<uint32_t>(random, {1, 2, 8, 30}),
                             .start_ns = random.Chance(200'000) ? random.Below(300'000'000) : 0,
                             .has_colocated_servers = temper > 1 && random.Chance(150'000),
                             .wire = Pick<WireFormat>(random, {WireFormat::kAsIs, WireFormat::kAsIs, WireFormat::kAsIs,
                                                               WireFormat::kBfloat16, WireFormat::kFloat16})});
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

// What the simulator learned last has random numbers of its own, so that it gives no seed another meaning in the rest.
void DrawLaterAdditions(uint64_t temper, Profile* profile) {
  Random random(profile->seed ^ 0x57a661e);
  profile->network.straggle_per_million = Pick<uint32_t>(random, {0, 0, 20'000, 200'000});
  profile->network.straggle_ns = Pick<uint64_t>(random, {200'000, 2'000'000, 20'000'000});
  DrawFaults(random, temper, static_cast<size_t>(kFirstLaterKind), static_cast<size_t>(kFirstLatestKind), profile);
  if (temper > 1 && random.Chance(100'000)) DrawUnrest(random, profile);
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

// Groups that move again so soon that a rank still lacks a result with which the others have gone on several ops ago.
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
  profile->jobs.resize(1);
  JobProfile& job = profile->jobs.front();
  job.ranks = static_cast<uint32_t>(random.Between(2, 3));
  job.subgroup = false;
  job.ops = 150;
  job.in_flight = Pick<uint32_t>(random, {1, 2, 8});
  job.start_ns = 0;
  job.has_colocated_servers = false;
  profile->faults.clear();
  const uint64_t span_ms = Pick<uint64_t>(random, {200, 400});
  for (uint64_t i = Pick<uint64_t>(random, {60, 120}); i > 0; --i) {
    profile->faults.push_back(
        {.kind = FaultKind::kReset, .at_ns = kNsPerS + random.Between(40, 40 + span_ms) * kNsPerMs});
  }
}

// Likewise, what it learned after that.
void DrawLatestAdditions(uint64_t temper, Profile* profile) {
  Random random(profile->seed ^ 0xf0110e5);
  profile->schedulers = Pick<uint32_t>(random, {1, 1, 2, 3});
  for (JobProfile& job : profile->jobs) job.colocates_without_servers = temper > 1 && random.Chance(300'000);
  DrawFaults(random, temper, static_cast<size_t>(kFirstLatestKind), kFaultKindCount, profile);
  Random rare(profile->seed ^ 0xa3e51a);
  if (temper > 5 && rare.Chance(100'000)) return DrawForgetting(rare, profile);
  if (temper > 1 && rare.Chance(100'000)) DrawLag(rare, profile);
}

}  // namespace

uint64_t SlotMemoryFor(const std::vector<JobProfile>& jobs, uint32_t max_chunk_bytes, uint32_t credit_chunks) {
  uint64_t bytes = 0;
  for (const JobProfile& job : jobs) {
    const uint64_t groups = job.subgroup ? 2 : 1;
    bytes += groups * ServerGroup::RegionBytes(credit_chunks, job.ranks, max_chunk_bytes);
  }
  return bytes;
}

bool Profile::moves() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& fault) { return IsSurvivable(fault.kind); }) ||
         std::any_of(jobs.begin(), jobs.end(), [](const JobProfile& job) { return job.has_colocated_servers; });
}

std::string Profile::Describe() const {
  std::string text = absl::StrCat(
      "servers=", servers, "x", io_threads, " schedulers=", schedulers, " slot_memory=", slot_memory_bytes,
      " window=", window_bytes, " chunk=", max_chunk_bytes, " lease_ms=", lease_ttl_ms,
      " drift=", clock_drift_per_million, " latency_ns=", network.latency_ns, " jitter_ns=", network.jitter_ns,
      " duplicates=", network.duplicate_per_million, " lent=", network.lend_per_million,
      " stragglers=", network.straggle_per_million, "/", network.straggle_ns, " jobs=");
  for (const JobProfile& job : jobs) {
    absl::StrAppend(&text, "[", job.ranks, " ranks, ", job.ops, " ops, ", job.in_flight, " in flight",
                    job.subgroup ? ", subgroup" : "", job.has_colocated_servers ? ", runs colocated servers" : "",
                    job.colocates_without_servers ? ", would run them without others" : "");
    if (job.wire != WireFormat::kAsIs) absl::StrAppend(&text, ", wire ", std::string(WireFormatName(job.wire)));
    if (job.start_ns > 0) absl::StrAppend(&text, ", starts ", job.start_ns / 1000, "us later");
    absl::StrAppend(&text, "]");
  }
  for (const Fault& fault : faults) {
    absl::StrAppend(&text, " ", std::string(FaultName(fault.kind)), "@", fault.at_ns / 1000, "us/",
                    fault.duration_ns / 1000, "us/", fault.target);
  }
  return text;
}

Profile DrawProfile(uint64_t seed) {
  Random random(seed ^ 0x50a1u);
  Profile profile;
  profile.seed = seed;
  profile.servers = static_cast<uint32_t>(random.Between(1, 4));
  profile.io_threads = static_cast<uint32_t>(random.Between(1, 2));
  profile.max_chunk_bytes = Pick<uint32_t>(random, {1024, 1024, 2048, 8192});
  profile.window_bytes = profile.max_chunk_bytes * Pick<uint32_t>(random, {1, 2, 4, 16});
  profile.slot_memory_bytes = Pick<uint64_t>(random, {256 << 10, 1 << 20, 4 << 20});
  profile.lease_ttl_ms = Pick<uint64_t>(random, {500, 1000, 3000});
  profile.think_ns = Pick<uint64_t>(random, {1'000, 100'000, 3'000'000});
  profile.reduce_ns = Pick<uint64_t>(random, {1, 10'000, 500'000});
  profile.wake_delay_ns = Pick<uint64_t>(random, {1, 5'000, 200'000});
  profile.clock_drift_per_million = Pick<uint32_t>(random, {0, 100, 30'000});
  profile.network.latency_ns = Pick<uint64_t>(random, {1'000, 20'000, 500'000});
  profile.network.jitter_ns = Pick<uint64_t>(random, {0, 10'000, 1'000'000});
  profile.network.ns_per_kib = Pick<uint64_t>(random, {10, 1'000, 20'000});
  profile.network.eager_per_million = Pick<uint32_t>(random, {0, 500'000, 1'000'000});
  profile.network.duplicate_per_million = Pick<uint32_t>(random, {0, 0, 50'000, 300'000});
  profile.network.duplicate_delay_ns = Pick<uint64_t>(random, {100'000, 10'000'000, 500'000'000});
  profile.network.lend_per_million = Pick<uint32_t>(random, {0, 500'000, 1'000'000});
  // One seed in eight has no fault, one benign ones only, two have destructive ones as well.
  const uint64_t temper = random.Below(8);
  DrawJobs(random, temper, &profile);
  DrawFaults(random, temper, 0, static_cast<size_t>(kFirstLaterKind), &profile);
  if (temper > 1 && random.Chance(100'000)) DrawStorm(random, &profile);
  DrawLaterAdditions(temper, &profile);
  DrawLatestAdditions(temper, &profile);
  profile.op_timeout_ns = 6 * kNsPerS;
  if (!profile.moves()) {
    profile.min_servers = profile.servers;
    return profile;
  }
  // What is to be survived takes leases and outages in a row, and needs room on the servers that are left; also for a
  // job that is started again while the servers still hold what it had.
  profile.op_timeout_ns = 40 * kNsPerS;
  const uint32_t credit = std::max(profile.window_bytes / profile.max_chunk_bytes, 2u);
  profile.slot_memory_bytes = 3 * SlotMemoryFor(profile.jobs, profile.max_chunk_bytes, credit);
  return profile;
}

}  // namespace shoal::sim
