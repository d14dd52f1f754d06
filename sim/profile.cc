#include "sim/profile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal::sim {
namespace {

constexpr FaultKind kAllFaults[] = {FaultKind::kClog,          FaultKind::kPause,       FaultKind::kSchedulerOutage,
                                    FaultKind::kStoreFailures, FaultKind::kRogueClient, FaultKind::kReset,
                                    FaultKind::kWorkerCrash,   FaultKind::kServerCrash, FaultKind::kDisagree,
                                    FaultKind::kAbort,         FaultKind::kMissingRank};

template <typename T>
T Pick(Random& random, std::initializer_list<T> choices) {
  return *(choices.begin() + random.Below(choices.size()));
}

void DrawFaults(Random& random, Profile* profile) {
  // A third of the seeds has no fault, a third benign ones only.
  const uint64_t temper = random.Below(3);
  for (const FaultKind kind : kAllFaults) {
    const bool wanted = random.Chance(300'000);
    if (!wanted || temper == 0 || (temper == 1 && !IsBenign(kind))) continue;
    const uint64_t times = IsBenign(kind) ? random.Between(1, 3) : 1;
    for (uint64_t i = 0; i < times; ++i) {
      profile->faults.push_back({.kind = kind,
                                 .at_ns = kNsPerS + random.Below(uint64_t{1} << random.Between(21, 28)),
                                 .duration_ns = random.Between(1'000'000, profile->lease_ttl_ms * kNsPerMs / 3),
                                 .target = static_cast<uint32_t>(random.Below(1 << 16))});
    }
  }
}

}  // namespace

bool IsBenign(FaultKind kind) { return kind < FaultKind::kReset; }

std::string FaultName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kClog:
      return "clog";
    case FaultKind::kPause:
      return "pause";
    case FaultKind::kSchedulerOutage:
      return "scheduler-outage";
    case FaultKind::kStoreFailures:
      return "store-failures";
    case FaultKind::kRogueClient:
      return "rogue-client";
    case FaultKind::kReset:
      return "reset";
    case FaultKind::kWorkerCrash:
      return "worker-crash";
    case FaultKind::kServerCrash:
      return "server-crash";
    case FaultKind::kDisagree:
      return "disagree";
    case FaultKind::kAbort:
      return "abort";
    case FaultKind::kMissingRank:
      return "missing-rank";
  }
  return "unknown";
}

bool Profile::AnyDestructive() const {
  return std::any_of(faults.begin(), faults.end(), [](const Fault& fault) { return !IsBenign(fault.kind); });
}

std::string Profile::Describe() const {
  std::string text =
      absl::StrCat("servers=", servers, "x", io_threads, " slot_memory=", slot_memory_bytes, " window=", window_bytes,
                   " chunk=", max_chunk_bytes, " lease_ms=", lease_ttl_ms, " latency_ns=", network.latency_ns,
                   " jitter_ns=", network.jitter_ns, " duplicates=", network.duplicate_per_million,
                   " lent=", network.lend_per_million, " jobs=");
  for (const JobProfile& job : jobs) {
    absl::StrAppend(&text, "[", job.ranks, " ranks, ", job.ops, " ops, ", job.in_flight, " in flight",
                    job.subgroup ? ", subgroup" : "", "]");
  }
  for (const Fault& fault : faults) {
    absl::StrAppend(&text, " ", FaultName(fault.kind), "@", fault.at_ns / 1000, "us/", fault.duration_ns / 1000, "us");
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
  profile.network.latency_ns = Pick<uint64_t>(random, {1'000, 20'000, 500'000});
  profile.network.jitter_ns = Pick<uint64_t>(random, {0, 10'000, 1'000'000});
  profile.network.ns_per_kib = Pick<uint64_t>(random, {10, 1'000, 20'000});
  profile.network.eager_per_million = Pick<uint32_t>(random, {0, 500'000, 1'000'000});
  profile.network.duplicate_per_million = Pick<uint32_t>(random, {0, 0, 50'000, 300'000});
  const uint64_t jobs = random.Between(1, 3);
  for (uint64_t i = 0; i < jobs; ++i) {
    profile.jobs.push_back({.ranks = static_cast<uint32_t>(random.Between(1, 5)),
                            .subgroup = random.Chance(300'000),
                            .ops = static_cast<uint32_t>(random.Between(1, 30)),
                            .in_flight = static_cast<uint32_t>(Pick<uint64_t>(random, {1, 2, 8, 30}))});
  }
  DrawFaults(random, &profile);
  profile.network.lend_per_million = Pick<uint32_t>(random, {0, 500'000, 1'000'000});
  return profile;
}

}  // namespace shoal::sim
