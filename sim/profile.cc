#include "sim/profile.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal::sim {
namespace {

constexpr FaultKind kAllFaults[] = {
    FaultKind::kClog,        FaultKind::kPause,     FaultKind::kSchedulerOutage, FaultKind::kStoreFailures,
    FaultKind::kRogueClient, FaultKind::kReset,     FaultKind::kServerCrash,     FaultKind::kServerRestart,
    FaultKind::kServerStop,  FaultKind::kServerCut, FaultKind::kServerDrain,     FaultKind::kServerAdd,
    FaultKind::kWorkerCrash, FaultKind::kDisagree,  FaultKind::kAbort,           FaultKind::kMissingRank};

template <typename T>
T Pick(Random& random, std::initializer_list<T> choices) {
  return *(choices.begin() + random.Below(choices.size()));
}

void DrawFaults(Random& random, Profile* profile) {
  // One seed in eight has no fault, one benign ones only, two have destructive ones as well.
  const uint64_t temper = random.Below(8);
  const uint64_t lease_ns = profile->lease_ttl_ms * kNsPerMs;
  for (const FaultKind kind : kAllFaults) {
    const bool wanted = random.Chance(300'000);
    const bool destructive = !IsBenign(kind) && !IsSurvivable(kind);
    if (!wanted || temper == 0 || (temper == 1 && !IsBenign(kind)) || (temper < 6 && destructive)) continue;
    const bool outlasts_lease = kind == FaultKind::kServerStop || kind == FaultKind::kServerCut;
    const uint64_t times = destructive ? 1 : random.Between(1, 3);
    for (uint64_t i = 0; i < times; ++i) {
      profile->faults.push_back({.kind = kind,
                                 .at_ns = kNsPerS + random.Below(uint64_t{1} << random.Between(21, 28)),
                                 .duration_ns = outlasts_lease ? random.Between(lease_ns, 2 * lease_ns)
                                                               : random.Between(1'000'000, lease_ns / 3),
                                 .target = static_cast<uint32_t>(random.Below(1 << 16))});
    }
  }
  const bool moves = std::any_of(profile->faults.begin(), profile->faults.end(),
                                 [](const Fault& fault) { return IsSurvivable(fault.kind); });
  profile->min_servers = moves ? 1 : profile->servers;
  if (!moves) return;
  // What is to be survived takes leases and outages in a row, and needs room on the servers that are left.
  profile->op_timeout_ns = 40 * kNsPerS;
  profile->return_patience_ns = 20 * kNsPerS;
  profile->slot_memory_bytes = 32 << 20;
}

}  // namespace

bool IsBenign(FaultKind kind) { return kind < FaultKind::kReset; }
bool IsSurvivable(FaultKind kind) { return kind >= FaultKind::kReset && kind < FaultKind::kWorkerCrash; }

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
    case FaultKind::kServerRestart:
      return "server-restart";
    case FaultKind::kServerStop:
      return "server-stop";
    case FaultKind::kServerCut:
      return "server-cut";
    case FaultKind::kServerDrain:
      return "server-drain";
    case FaultKind::kServerAdd:
      return "server-add";
    case FaultKind::kDisagree:
      return "disagree";
    case FaultKind::kAbort:
      return "abort";
    case FaultKind::kMissingRank:
      return "missing-rank";
  }
  return "unknown";
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
