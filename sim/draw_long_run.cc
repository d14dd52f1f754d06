// Runs of some seconds to a minute, in which faults come while earlier ones are noticed, settled and healed.
//
// Each has a duet: a fault of one kind, and one of another kind that begins in some phase of the first. The seeds of
// `make test` go through all pairs of kinds. Others are drawn beside them.
#include <algorithm>

#include "server/machine/server_group.h"
#include "sim/draw_run.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kLongestFaultNs = 20 * kNsPerS;
constexpr uint64_t kLongestRunNs = 60 * kNsPerS;

// The pair of kinds that a seed is about. Seeds that follow each other differ in both.
struct Duet {
  FaultKind first;
  FaultKind second;
};

Duet DuetOf(uint64_t number) {
  const uint64_t first = number % kFaultKindCount;
  const uint64_t second = (number / kFaultKindCount + first) % kFaultKindCount;
  return {static_cast<FaultKind>(first), static_cast<FaultKind>(second)};
}

// When the second fault begins, counted from the first: while nobody has noticed that one, later in it, or after it.
uint64_t DrawOffset(Random& random, uint64_t first_lasts_ns, uint64_t lease_ns) {
  if (first_lasts_ns == 0) return random.Below(Pick<uint64_t>(random, {kNsPerMs, 100 * kNsPerMs, lease_ns}));
  switch (random.Below(4)) {
    case 0:
      return random.Below(std::min(first_lasts_ns, 50 * kNsPerMs));
    case 1:
      return first_lasts_ns + random.Below(lease_ns);
    default:
      return random.Below(first_lasts_ns);
  }
}

Fault DrawFault(Random& random, FaultKind kind, uint64_t at_ns, uint64_t lease_ns) {
  return {.kind = kind,
          .at_ns = at_ns,
          .duration_ns = DrawDuration(random, kind, lease_ns, kLongestFaultNs),
          .target = static_cast<uint32_t>(random.Below(1 << 16))};
}

void DrawFaults(Random& random, Duet duet, Profile* profile) {
  const uint64_t lease_ns = profile->lease_ttl_ms * kNsPerMs;
  const uint64_t begin_ns = kNsPerS + random.Between(300 * kNsPerMs, 3 * kNsPerS);
  profile->faults.push_back(DrawFault(random, duet.first, begin_ns, lease_ns));
  const uint64_t offset_ns = DrawOffset(random, profile->faults[0].duration_ns, lease_ns);
  profile->faults.push_back(DrawFault(random, duet.second, begin_ns + offset_ns, lease_ns));
  for (uint64_t i = Pick<uint64_t>(random, {0, 0, 1, 3, 6}); i > 0; --i) {
    const auto kind = static_cast<FaultKind>(random.Below(static_cast<uint64_t>(FaultKind::kWorkerCrash)));
    profile->faults.push_back(DrawFault(random, kind, kNsPerS + random.Below(10 * kNsPerS), lease_ns));
  }
}

void DrawJobsOfLongRun(Random& random, uint64_t jobs, Profile* profile) {
  for (uint64_t i = jobs; i > 0; --i) {
    profile->jobs.push_back({.ranks = static_cast<uint32_t>(random.Chance(30'000) ? 16 : random.Between(2, 4)),
                             .subgroup = random.Chance(300'000),
                             .short_groups = random.Chance(200'000) ? static_cast<uint32_t>(random.Between(5, 40)) : 0,
                             .most_elements = Pick<uint64_t>(random, {400, 2'000, 12'000}),
                             .in_flight = Pick<uint32_t>(random, {1, 2, 8}),
                             .start_ns = random.Chance(200'000) ? random.Below(3 * kNsPerS) : 0,
                             .has_colocated_servers = random.Chance(100'000),
                             .colocates_without_servers = random.Chance(200'000),
                             .wire = Pick<WireFormat>(random, {WireFormat::kAsIs, WireFormat::kAsIs, WireFormat::kAsIs,
                                                               WireFormat::kBfloat16, WireFormat::kFloat16}),
                             .options_differ = random.Chance(20'000)});
  }
}

// The servers that are left in the end came later, and have too little memory for some groups, or all.
void DrawSmallServers(Random& random, Profile* profile) {
  uint64_t smallest_bytes = UINT64_MAX;
  uint64_t largest_bytes = 0;
  for (const JobProfile& job : profile->jobs) {
    const uint64_t bytes = ServerGroup::RegionBytes(1, job.ranks, profile->max_chunk_bytes);
    smallest_bytes = std::min(smallest_bytes, bytes);
    largest_bytes = std::max(largest_bytes, bytes);
  }
  profile->added_slot_memory_bytes = random.Between(smallest_bytes / 2, largest_bytes);
  const auto add = [&](FaultKind kind, uint64_t at_ns) {
    profile->faults.push_back(DrawFault(random, kind, at_ns, profile->lease_ttl_ms * kNsPerMs));
  };
  add(FaultKind::kServerAdd, 1500 * kNsPerMs);
  add(FaultKind::kServerAdd, 1500 * kNsPerMs + random.Below(kNsPerS));
  for (uint32_t i = 0; i < profile->servers; ++i) add(FaultKind::kServerCrash, 3 * kNsPerS + random.Below(kNsPerS));
}

bool TakesAServer(FaultKind kind) {
  return kind == FaultKind::kServerCrash || kind == FaultKind::kServerSilent || kind == FaultKind::kServerDrain ||
         kind == FaultKind::kRollingRestart;
}

}  // namespace

uint64_t SeedOfDuet(FaultKind first, FaultKind second, uint64_t round) {
  const auto first_number = static_cast<uint64_t>(first);
  const uint64_t step = (static_cast<uint64_t>(second) + kFaultKindCount - first_number) % kFaultKindCount;
  return 2 * (first_number + kFaultKindCount * (step + kFaultKindCount * round));
}

void DrawLongRun(Random& random, Profile* profile) {
  const Duet duet = DuetOf(profile->seed / 2);
  const bool forgets = MakesForgetful(duet.first) || MakesForgetful(duet.second);
  // One job is enough for a scheduler that forgets, unless the other fault ends it.
  const bool ends_a_job = IsDestructive(duet.first) || IsDestructive(duet.second);
  DrawJobsOfLongRun(random, forgets ? 1 + (ends_a_job ? 1 : 0) : random.Between(2, 3), profile);
  DrawFaults(random, duet, profile);
  // So that both find what they hit.
  profile->servers =
      std::max(profile->servers, 1u + (TakesAServer(duet.first) ? 1 : 0) + (TakesAServer(duet.second) ? 1 : 0));
  if (duet.first == FaultKind::kFollowerStop || duet.second == FaultKind::kFollowerStop) {
    profile->schedulers = std::max(profile->schedulers, 2u);
  }
  if (random.Chance(30'000)) DrawSmallServers(random, profile);
  uint64_t end_ns = 0;
  for (const Fault& fault : profile->faults) end_ns = std::max(end_ns, fault.at_ns + fault.duration_ns);
  end_ns = std::min(end_ns + 2 * profile->lease_ttl_ms * kNsPerMs + random.Between(2, 4) * kNsPerS, kLongestRunNs);
  for (JobProfile& job : profile->jobs) job.until_ns = end_ns;
  profile->think_ns = std::max(profile->think_ns, end_ns / Pick<uint64_t>(random, {10, 20, 50}));
  profile->op_timeout_ns = 90 * kNsPerS;
}

}  // namespace shoal::sim
