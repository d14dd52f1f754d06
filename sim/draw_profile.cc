// What a seed draws: profile.h.
#include <algorithm>
#include <utility>

#include "sim/draw_run.h"

namespace shoal::sim {
namespace {

// From milliseconds to `longest_ns`; a fault of a tenth of a second is as likely as one of ten seconds.
uint64_t DrawAnyLength(Random& random, uint64_t longest_ns) {
  const uint64_t scale_ns = kNsPerMs << random.Below(16);
  return random.Between(kNsPerMs, std::clamp(2 * scale_ns, kNsPerMs, longest_ns));
}

void DrawCluster(Random& random, Profile* profile) {
  profile->servers = static_cast<uint32_t>(random.Between(1, 4));
  profile->schedulers = Pick<uint32_t>(random, {1, 1, 2, 3});
  profile->io_threads = static_cast<uint32_t>(random.Between(1, 2));
  profile->max_chunk_bytes = Pick<uint32_t>(random, {1024, 1024, 2048, 8192});
  profile->window_bytes = profile->max_chunk_bytes * Pick<uint32_t>(random, {1, 2, 4, 16});
  profile->slot_memory_bytes = Pick<uint64_t>(random, {256 << 10, 1 << 20, 4 << 20});
  profile->lease_ttl_ms = Pick<uint64_t>(random, {1000, 2000, 5000});
  profile->think_ns = Pick<uint64_t>(random, {1'000, 100'000, 3'000'000});
  profile->reduce_ns = Pick<uint64_t>(random, {1, 10'000, 500'000});
  profile->wake_delay_ns = Pick<uint64_t>(random, {1, 5'000, 200'000});
  profile->clock_drift_per_million = Pick<uint32_t>(random, {0, 100, 30'000});
}

void DrawNetwork(Random& random, NetworkProfile* network) {
  network->latency_ns = Pick<uint64_t>(random, {1'000, 20'000, 500'000});
  network->jitter_ns = Pick<uint64_t>(random, {0, 10'000, 1'000'000});
  network->ns_per_kib = Pick<uint64_t>(random, {10, 1'000, 20'000});
  network->eager_per_million = Pick<uint32_t>(random, {0, 500'000, 1'000'000});
  network->duplicate_per_million = Pick<uint32_t>(random, {0, 0, 50'000, 300'000});
  network->duplicate_delay_ns = Pick<uint64_t>(random, {100'000, 10'000'000, 500'000'000});
  network->lend_per_million = Pick<uint32_t>(random, {0, 500'000, 1'000'000});
  network->straggle_per_million = Pick<uint32_t>(random, {0, 0, 20'000, 200'000});
  network->straggle_ns = Pick<uint64_t>(random, {200'000, 2'000'000, 20'000'000});
}

// A rank of a node with rails dies while many of its ops are under way: some are being summed on the node, some are
// with the other nodes, some are on their way to the other ranks.
void DrawEndOnNode(Random& random, Profile* profile) {
  profile->window_bytes = 2 * profile->max_chunk_bytes;
  profile->think_ns = 2 * kNsPerMs;
  profile->node_delay_ns = Pick<uint64_t>(random, {50'000, 2'000'000});
  profile->network.straggle_per_million = 200'000;
  profile->network.straggle_ns = Pick<uint64_t>(random, {2'000'000, 20'000'000});
  profile->jobs.resize(1);
  JobProfile& job = profile->jobs[0];
  job.ops = 100;
  job.in_flight = Pick<uint32_t>(random, {4, 8});
  job.start_ns = 0;
  if (random.Chance(500'000)) profile->faults.clear();
  profile->op_timeout_ns = 40 * kNsPerS;
  profile->lease_ttl_ms = 5000;
  const FaultKind kind =
      Pick(random, {FaultKind::kWorkerCrash, FaultKind::kWorkerCrash, FaultKind::kWorkerCrash, FaultKind::kDisagree,
                    FaultKind::kDisagree, FaultKind::kWorkerSilent, FaultKind::kAbort});
  profile->faults.push_back({.kind = kind,
                             .at_ns = kNsPerS + random.Between(170, 260) * kNsPerMs,
                             .target = static_cast<uint32_t>(random.Below(1 << 16))});
}

// In a quarter of all runs jobs have nodes with several ranks: mostly as many on each, so that groups have rails; else
// all on one, or as many as there happen to be. Drawn last: a seed without has the meaning that it had before there
// were such nodes.
void DrawNodes(Random& random, Profile* profile) {
  if (profile->arena_bytes > 0 || !random.Chance(250'000)) return;
  profile->node_delay_ns = Pick<uint64_t>(random, {1'000, 50'000, 2'000'000});
  for (JobProfile& job : profile->jobs) {
    const uint64_t kind = random.Below(8);
    if (kind < 5) {
      job.nodes.ranks_per_node = Pick<uint32_t>(random, {2, 2, 2, 3, 4});
      const uint32_t nodes = job.nodes.ranks_per_node == 2 ? Pick<uint32_t>(random, {2, 2, 3}) : 2;
      job.ranks = nodes * job.nodes.ranks_per_node;
    } else if (kind < 6) {
      job.ranks = std::max(job.ranks, 2u);
      job.nodes.ranks_per_node = job.ranks;
    } else {
      job.nodes.ranks_per_node = Pick<uint32_t>(random, {2, 3});
    }
    job.nodes.dealt = random.Chance(300'000);
    job.nodes.choice = Pick(random, {NodeReduceChoice::kAuto, NodeReduceChoice::kAuto, NodeReduceChoice::kAuto,
                                     NodeReduceChoice::kAuto, NodeReduceChoice::kHost, NodeReduceChoice::kOff});
  }
  if (profile->seed % 2 == 1 && random.Chance(500'000)) DrawEndOnNode(random, profile);
}

// Where there are several schedulers, or one is to lose its way to the store, they are mostly elected, as those that
// share an etcd are. A leader that forgets, or goes on as one, is none that was elected. From a source of its own.
void DrawElections(Profile* profile) {
  Random random(profile->seed ^ 0xe1ec7);
  const auto has = [&](auto&& is) {
    return std::ranges::any_of(profile->faults, [&](const Fault& fault) { return is(fault.kind); });
  };
  const bool cut = has([](FaultKind kind) { return kind == FaultKind::kLeaderCut; });
  // While ranks join, a short lease runs out before they hear of it: such runs show nothing.
  if (cut && profile->jobs.front().until_ns == 0)
    profile->lease_ttl_ms = std::max<uint64_t>(profile->lease_ttl_ms, 2000);
  if (has(MakesForgetful) || (profile->schedulers < 2 && !cut) || !random.Chance(cut ? 850'000 : 400'000)) return;
  profile->schedulers = std::max(profile->schedulers, static_cast<uint32_t>(random.Between(2, 3)));
  profile->leader_lease_ms = Pick<uint64_t>(random, {2000, 2000, 5000});
  // A death may be told by the next leader.
  profile->op_timeout_ns = std::max(profile->op_timeout_ns, 40 * kNsPerS);
}

// Jobs whose payloads have checksums: a few, and most of those that a corruption is for. From a source of its own.
void DrawChecksums(Profile* profile) {
  Random random(profile->seed ^ 0xc4ec5);
  const bool corruption =
      std::ranges::any_of(profile->faults, [](const Fault& fault) { return fault.kind == FaultKind::kCorruption; });
  for (JobProfile& job : profile->jobs) job.checksums = random.Chance(corruption ? 800'000 : 100'000);
  if (corruption) profile->jobs.front().checksums = true;
}

// In some runs the product's plan chooses credit and mostly chunks, from links that ranks say they have measured. Its
// chunks are larger than those that are drawn, so that tensors are, too. From a source of its own.
void DrawPlan(Profile* profile) {
  Random random(profile->seed ^ 0xf109);
  // Where all share a node, or some servers are too small, chunks are drawn to meet what memory there is.
  if (profile->arena_bytes > 0 || profile->added_slot_memory_bytes > 0 || !random.Chance(120'000)) return;
  profile->plans_flow = true;
  for (JobProfile& job : profile->jobs) {
    job.link = {.bytes_per_s = Pick<uint64_t>(random, {3'000'000, 25'000'000, 125'000'000, 1'000'000'000}),
                .round_trip_ns = Pick<uint64_t>(random, {20'000, 100'000, 1'000'000}),
                .message_ns = Pick<uint64_t>(random, {0, 2'000, 10'000})};
    job.asks_for_chunk = random.Chance(250'000);
    job.most_elements = Pick<uint64_t>(random, {12'000, 30'000});
    job.ops = std::min(job.ops, 20u);
  }
  profile->port_buffer_bytes = Pick<uint64_t>(random, {0, 0, 24 << 10, 96 << 10, 512 << 10});
}

// In some runs jobs have tensors on devices, in the groups that go through servers as a whole. From a source of its
// own.
void DrawDevices(Profile* profile) {
  Random random(profile->seed ^ 0xdeb1ce);
  if (!random.Chance(200'000)) return;
  profile->device_delay_ns = Pick<uint64_t>(random, {1'000, 50'000, 2'000'000});
  for (JobProfile& job : profile->jobs) job.has_devices = random.Chance(700'000);
}

// In a few runs a rank is closed while it asks for a group. From a source of its own: all else is as it is without.
void DrawClosing(Profile* profile) {
  Random random(profile->seed ^ 0xc105e);
  for (JobProfile& job : profile->jobs) {
    if (job.ranks < 2 || job.options_differ || !random.Chance(40'000)) continue;
    job.closes_while_joining = true;
    profile->op_timeout_ns = 40 * kNsPerS;  // nobody may wait for it that long
  }
}

// A scheduler in a rank's process is not tried with what happens to schedulers of their own, nor with what takes one to
// survive, and it may be gone by then.
bool FitsHosting(FaultKind kind) {
  switch (kind) {
    case FaultKind::kPause:
    case FaultKind::kControlCut:
    case FaultKind::kLateMap:
    case FaultKind::kAnswersLost:
    case FaultKind::kRogueClient:
    case FaultKind::kWorkerCrash:
    case FaultKind::kWorkerSilent:
    case FaultKind::kDisagree:
    case FaultKind::kAbort:
    case FaultKind::kMissingRank:
      return true;
    default:
      return false;
  }
}

// In some short runs rank 0 of the only job has the scheduler in its process, and mostly dies. From a source of its
// own.
void DrawHosting(Profile* profile) {
  Random random(profile->seed ^ 0x4057);
  if (profile->seed % 2 == 0 || profile->arena_bytes > 0 || !random.Chance(40'000)) return;
  profile->is_hosted = true;
  profile->schedulers = 1;
  profile->leader_lease_ms = 0;
  profile->lease_ttl_ms = std::max<uint64_t>(profile->lease_ttl_ms, 2000);
  profile->op_timeout_ns = 40 * kNsPerS;
  profile->think_ns = 2 * kNsPerMs;
  std::erase_if(profile->faults, [](const Fault& fault) { return !FitsHosting(fault.kind); });
  profile->jobs.resize(1);
  JobProfile& job = profile->jobs.front();
  job.ranks = std::max(job.ranks, 2u);
  job.subgroup = false;  // so that an op which has ended shows that servers know all ranks
  job.ops = 100;
  job.start_ns = 0;
  if (random.Chance(200'000)) return;
  profile->faults.push_back({.kind = Pick(random, {FaultKind::kWorkerCrash, FaultKind::kWorkerSilent}),
                             .at_ns = kNsPerS + random.Between(170, 260) * kNsPerMs,
                             .target = 0});  // rank 0
}

// In a few short runs rank 0 of the first job comes much later than the others, or the job is started again before. All
// else is well then: the stream of a process that is killed is known, unless it asked followers that did not know yet
// who leads. Such a process keeps its place for a lease. From a source of its own.
void DrawLateRank(Profile* profile) {
  Random random(profile->seed ^ 0x1a7e);
  JobProfile& job = profile->jobs.front();
  if (profile->seed % 2 == 0 || profile->is_hosted || profile->arena_bytes > 0 || !random.Chance(40'000)) return;
  profile->op_timeout_ns = 40 * kNsPerS;
  profile->faults.clear();
  job.ranks = std::max(job.ranks, 3u);
  job.subgroup =
      false;  // a group of an earlier run is nobody's loss only when its processes have been gone for a while
  job.short_groups = 0;
  job.start_ns = 0;
  job.first_rank_late_ns = random.Between(100, 400) * kNsPerMs;
  if (random.Chance(300'000)) return;
  job.first_rank_late_ns = 5 * kNsPerS;
  const auto target = static_cast<uint32_t>(1 + random.Below(job.ranks - 1));
  profile->faults.push_back({.kind = FaultKind::kJobRestart,
                             .at_ns = kNsPerS + random.Between(300, 600) * kNsPerMs,
                             .duration_ns = random.Between(1, 1000) * kNsPerMs,
                             .target = target});
}

bool FitsOpenJobs(FaultKind kind) {
  return kind != FaultKind::kJobRestart && kind != FaultKind::kDisagree && kind != FaultKind::kMissingRank &&
         !MakesForgetful(kind);
}

// In some runs jobs are open: ranks die, leave, come, and are taken for lost, beside whatever else happens. From a
// source of its own.
void DrawOpenJobs(Profile* profile) {
  Random random(profile->seed ^ 0x0be47);
  const auto fits = [](const Fault& fault) { return FitsOpenJobs(fault.kind); };
  const auto is_usual = [](const JobProfile& job) {
    return !job.options_differ && !job.closes_while_joining && job.first_rank_late_ns == 0 &&
           !job.nodes.shares_nodes() && job.ranks < 16;
  };
  if (profile->arena_bytes > 0 || profile->is_hosted || profile->plans_flow || profile->lacks_memory() ||
      !std::ranges::all_of(profile->faults, fits) || !std::ranges::all_of(profile->jobs, is_usual) ||
      !random.Chance(400'000)) {
    return;
  }
  for (JobProfile& job : profile->jobs) {
    const bool is_long = job.until_ns > 0;
    job.subgroup = false;
    job.short_groups = 0;
    job.has_colocated_servers = false;
    job.colocates_without_servers = false;
    job.ranks = static_cast<uint32_t>(random.Between(2, 5));
    job.ops = static_cast<uint32_t>(random.Between(1, is_long ? 8 : 20));
    job.meetings = is_long ? 40 : static_cast<uint32_t>(random.Between(2, 8));
    job.newcomers = static_cast<uint32_t>(random.Below(5));
    job.min_ranks = Pick<uint32_t>(random, {0, 1, 1, 2});
    job.scales_sums = job.min_ranks > 0 && job.wire == WireFormat::kAsIs && random.Chance(300'000);
    job.leaves_per_million = Pick<uint32_t>(random, {0, 50'000, 200'000});
  }
  profile->op_timeout_ns = std::max(profile->op_timeout_ns, 40 * kNsPerS);
  if (profile->jobs.front().until_ns > 0) return;
  profile->think_ns = 3 * kNsPerMs;
  // Ranks are lost while others have results of some chunks.
  if (random.Chance(300'000)) {
    profile->network.straggle_per_million = 300'000;
    profile->network.straggle_ns = 10 * kNsPerMs;
    for (JobProfile& job : profile->jobs) job.most_elements = std::max<uint64_t>(job.most_elements, 12'000);
  }
  for (uint64_t i = Pick<uint64_t>(random, {0, 1, 2, 4}); i > 0; --i) {
    const FaultKind kind = Pick(random, {FaultKind::kWorkerCrash, FaultKind::kWorkerCrash, FaultKind::kWorkerCrash,
                                         FaultKind::kWorkerSilent, FaultKind::kWorkerStop, FaultKind::kAbort});
    profile->faults.push_back({.kind = kind,
                               .at_ns = kNsPerS + random.Between(50, 400) * kNsPerMs,
                               .duration_ns = DrawDuration(random, kind, profile->lease_ttl_ms * kNsPerMs,
                                                           2 * profile->lease_ttl_ms * kNsPerMs),
                               .target = static_cast<uint32_t>(random.Below(1 << 16))});
  }
}

// In some of these runs several ranks of a job share a node, mostly as many on each, so that groups that go on without
// lost ranks have rails. From a source of its own.
void DrawOpenNodes(Profile* profile) {
  Random random(profile->seed ^ 0x0bede);
  const auto goes_on = [](const JobProfile& job) { return job.is_open() && job.min_ranks > 0; };
  if (!std::ranges::all_of(profile->jobs, goes_on) || !random.Chance(450'000)) return;
  profile->node_delay_ns = Pick<uint64_t>(random, {1'000, 50'000, 2'000'000});
  for (JobProfile& job : profile->jobs) {
    job.nodes.ranks_per_node = Pick<uint32_t>(random, {2, 2, 2, 3});
    job.ranks = job.nodes.ranks_per_node * Pick<uint32_t>(random, {2, 2, 3});
    job.min_ranks = Pick<uint32_t>(random, {1, 1, 2, 3});
    job.nodes.dealt = random.Chance(200'000);
    if (random.Chance(100'000)) job.nodes.choice = NodeReduceChoice::kOff;
  }
}

// Some jobs with a narrower wire have 8 bits. From sources of their own. (Devices can't convert to them.)
void Draw8Bits(Profile* profile) {
  Random random(profile->seed ^ 0x1478);
  Random of_kinds(profile->seed ^ 0xf8);
  for (JobProfile& job : profile->jobs) {
    const bool is_narrow = job.wire != WireFormat::kAsIs && !job.has_devices;
    if (!is_narrow || !random.Chance(500'000)) continue;
    job.wire = of_kinds.Chance(500'000) ? WireFormat::kFloat8 : WireFormat::kInt8;
  }
}

// In a few runs every second server has less memory: some groups, or none, have room there. From a source of its own.
void DrawUnevenMemory(Profile* profile) {
  Random random(profile->seed ^ 0xe5e5);
  if (profile->jobs.front().is_open()) return;
  if (profile->servers < 2 || profile->arena_bytes > 0 || profile->lacks_memory() || !random.Chance(60'000)) return;
  profile->small_slot_memory_bytes = random.Between(profile->slot_memory_bytes / 30, profile->slot_memory_bytes / 2);
}

}  // namespace

uint64_t DrawDuration(Random& random, FaultKind kind, uint64_t lease_ns, uint64_t longest_ns) {
  switch (kind) {
    case FaultKind::kReset:
    case FaultKind::kServerCrash:
    case FaultKind::kServerSilent:
    case FaultKind::kServerDrain:
    case FaultKind::kRollingRestart:
    case FaultKind::kServerAdd:
    case FaultKind::kWorkerCrash:
    case FaultKind::kWorkerSilent:
    case FaultKind::kDisagree:
    case FaultKind::kAbort:
    case FaultKind::kMissingRank:
      return 0;
    case FaultKind::kPathCut:
    case FaultKind::kOneWay:
    case FaultKind::kRankDataCut:
    case FaultKind::kServerNodeCut:
    case FaultKind::kEveryServerCut:
    case FaultKind::kServerRestart:
      return DrawAnyLength(random, longest_ns);
    case FaultKind::kServerStop:
    case FaultKind::kServerCut:
    case FaultKind::kServerControlCut:
    case FaultKind::kFollowerStop:
    case FaultKind::kEveryServerCrash:
      return random.Between(lease_ns, std::max(2 * lease_ns, longest_ns / 2));
    case FaultKind::kWorkerStop:
    case FaultKind::kWorkerNodeCut:
      return random.Between(2 * lease_ns, 3 * lease_ns);
    case FaultKind::kLateMap:
      return random.Between(kNsPerMs, 2 * lease_ns);
    case FaultKind::kStoreSlow:
      return random.Between(kNsPerMs, lease_ns / 2);  // a rank that joins has to hear of its lease in time
    case FaultKind::kLeaderCut:
      return random.Between(kNsPerMs, std::max(lease_ns, longest_ns / 2));
    case FaultKind::kSchedulerOutage:
      return random.Between(kNsPerMs, std::max(lease_ns / 3, longest_ns / 4));
    default:
      return random.Between(kNsPerMs, lease_ns / 3);
  }
}

Profile DrawProfile(uint64_t seed) {
  Random random(seed ^ 0x50a1u);
  Profile profile;
  profile.seed = seed;
  DrawCluster(random, &profile);
  DrawNetwork(random, &profile.network);
  if (seed % 2 == 0) {
    DrawLongRun(random, &profile);
  } else {
    DrawShortRun(random, &profile);
  }
  DrawNodes(random, &profile);
  DrawClosing(&profile);
  DrawElections(&profile);
  DrawChecksums(&profile);
  DrawPlan(&profile);
  DrawDevices(&profile);
  DrawHosting(&profile);
  DrawLateRank(&profile);
  DrawOpenJobs(&profile);
  DrawOpenNodes(&profile);
  Draw8Bits(&profile);
  const uint64_t planned_bytes =
      profile.plans_flow
          ? SlotMemoryForPlans(profile.jobs, profile.servers, profile.max_chunk_bytes, profile.port_buffer_bytes)
          : 0;
  if (!profile.moves()) {
    profile.min_servers = profile.servers;
    profile.slot_memory_bytes = std::max(profile.slot_memory_bytes, planned_bytes);
    return profile;
  }
  // Room on the servers that are left, and also for a job that is started again while the servers still hold what it
  // had.
  const uint32_t credit = std::max(profile.window_bytes / profile.max_chunk_bytes, 2u);
  profile.slot_memory_bytes =
      3 * (profile.plans_flow ? planned_bytes : SlotMemoryFor(profile.jobs, profile.max_chunk_bytes, credit));
  DrawUnevenMemory(&profile);
  return profile;
}

}  // namespace shoal::sim
