// What one seed simulates: the shape of the cluster, its tunables, and which faults happen when. Everything is drawn
// from the seed.
//
// Swarm testing (Groce et al., ISSTA 2012): each seed switches each kind of fault on or off, so that kinds which hide
// each other also run alone. Tunables are drawn small (one slot's credit, tiny chunks), where the product code has its
// corners.
#ifndef SHOAL_SIM_PROFILE_H_
#define SHOAL_SIM_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/flow_plan.h"
#include "core/now.h"
#include "core/wire_format.h"
#include "sim/fault.h"
#include "sim/node_layout.h"

namespace shoal::sim {

// The seeds that `make test` runs: 1 to this one. Every second one is about a pair of kinds of faults.
inline constexpr uint64_t kFixedSeeds = 3200;
static_assert(kFixedSeeds / 2 >= kFaultKindCount * kFaultKindCount, "there is a seed for each pair");

struct NetworkProfile {
  uint64_t latency_ns = 20'000;
  uint64_t jitter_ns = 30'000;            // added at random to each message
  uint64_t ns_per_kib = 1'000;            // of payload
  uint32_t eager_per_million = 500'000;   // payloads that leave their sender at once
  uint32_t lend_per_million = 0;          // offers that can be borrowed
  uint32_t duplicate_per_million = 0;     // pushes and results that arrive twice (as a faulty peer would send them)
  uint64_t duplicate_delay_ns = 400'000;  // of the second arrival, at most
  uint32_t straggle_per_million = 0;      // steps of a payload (arrival, landing, its sender's kSent) that take longer
  uint64_t straggle_ns = 1'000'000;       // than others: at most
  bool writes_late = false;               // a deliberate bug: what was taken at once is written again later (ownership)
};

struct JobProfile {
  uint32_t ranks = 1;
  bool subgroup = false;      // also a group of every second rank
  uint32_t short_groups = 0;  // also so many, one after the other, each closed after a few ops
  uint32_t ops = 1;           // of each group
  uint64_t until_ns = 0;      // not 0: groups go on until then instead
  uint64_t most_elements = 12'000;
  uint32_t in_flight = 1;
  uint64_t start_ns = 0;                   // after the others
  uint64_t first_rank_late_ns = 0;         // rank 0 starts so much later than the others
  bool has_colocated_servers = false;      // each rank's process runs a colocated server for the job
  bool colocates_without_servers = false;  // and would run one when no server is left (docs/adr/0015)
  WireFormat wire = WireFormat::kAsIs;
  bool checksums = false;
  LinkFacts link;  // as one rank of three measures it; the second finds a slower one, the third does not know
  bool asks_for_chunk = true;         // of the profile's size; else the plan chooses it (Profile::plans_flow)
  bool options_differ = false;        // the last rank asks for another behaviour of its groups, so none may open
  bool closes_while_joining = false;  // the last rank is closed while it asks for its last group
  bool has_devices = false;           // half of its ops are of tensors on devices
  NodeLayout nodes;

  // Above 0: an open job, of whose groups each has the ranks that are there then (sim/rendezvous.h), and `ops` ops; at
  // most so many groups, and none is made after `until_ns`.
  uint32_t meetings = 0;
  uint32_t min_ranks = 0;  // of its groups; 0: they end with a lost rank
  bool scales_sums = false;
  uint32_t newcomers = 0;           // processes that come later, or where others have ended
  uint32_t leaves_per_million = 0;  // ranks that leave the job in the middle of a group's ops

  bool is_open() const { return meetings > 0; }
};

// Deliberate bugs of the simulated parts, which prove that the checkers find what they are for.
enum class Sabotage : uint8_t {
  kNone,
  kLoseContribution,  // a sum leaves out its last input now and then (exactly-once)
  kLoseSum,           // a sum never ends now and then (liveness)
  kWriteInput,        // a sum writes to its last input, which may be borrowed (loans)
};

struct Profile {
  uint64_t seed = 0;
  Sabotage sabotage = Sabotage::kNone;
  uint32_t servers = 1;
  uint32_t schedulers = 1;       // one leads, the others pass calls on to it
  uint64_t leader_lease_ms = 0;  // not 0: they are elected, and the lead ends with this lease
  bool is_hosted = false;        // rank 0 of the only job has the scheduler in its process, which ends with it
  uint32_t io_threads = 1;
  uint64_t slot_memory_bytes = 1 << 20;  // of an I/O thread
  uint64_t added_slot_memory_bytes = 0;  // of servers that come later; 0: as the others
  uint64_t small_slot_memory_bytes = 0;  // of every second server; 0: as the others
  uint64_t arena_bytes = 0;              // not 0: all processes share a node, and have shared memory of this size
  uint32_t window_bytes = 4096;
  bool plans_flow = false;  // servers have no window of their own: the product's plan gives each group its credit
  uint64_t port_buffer_bytes = 0;  // as the scheduler is told, for its plans; 0: it is not
  uint32_t max_chunk_bytes = 1024;
  uint64_t lease_ttl_ms = 1000;
  uint64_t op_timeout_ns = 3 * kNsPerS;
  uint32_t min_servers = 1;
  uint64_t think_ns = 100'000;        // of a worker between ops, at most
  uint64_t reduce_ns = 50'000;        // of a sum, at most
  uint64_t wake_delay_ns = 20'000;    // between an event and the loop that takes it, at most
  uint64_t node_delay_ns = 50'000;    // of each step of a reduction within a node, at most
  uint64_t device_delay_ns = 50'000;  // until a tensor on a device is ready, and of each copy, at most
  uint32_t clock_drift_per_million = 0;
  NetworkProfile network;
  std::vector<JobProfile> jobs;
  std::vector<Fault> faults;

  // Servers may be left that have too little memory for all groups.
  bool lacks_memory() const { return added_slot_memory_bytes > 0 || small_slot_memory_bytes > 0; }
  // Groups may change their servers: faults ask for that, or servers come with the jobs.
  bool moves() const;
  std::string Describe() const;
};

// Room on one I/O thread for the slots of all jobs' groups, each with a credit of `credit_chunks`.
uint64_t SlotMemoryFor(const std::vector<JobProfile>& jobs, uint32_t max_chunk_bytes, uint32_t credit_chunks);

// What the rank measures, where the plan is the product's.
LinkFacts LinkOfRank(const JobProfile& job, uint32_t rank);

// Room for whatever chunks and credit the plan may give the jobs' groups on one server or several.
uint64_t SlotMemoryForPlans(const std::vector<JobProfile>& jobs, uint32_t servers, uint32_t asked_chunk_bytes,
                            uint64_t port_buffer_bytes);

// The seed of the long run in which a fault of the second kind is to begin in some phase of one of the first: one in
// each round of all pairs. Whether it does depends on what else is drawn.
uint64_t SeedOfDuet(FaultKind first, FaultKind second, uint64_t round);

Profile DrawProfile(uint64_t seed);

}  // namespace shoal::sim

#endif  // SHOAL_SIM_PROFILE_H_
