// What one seed simulates: the cluster's shape, its tunables and which faults happen when. Everything is drawn from the
// seed.
//
// Swarm testing (Groce et al., ISSTA 2012): each seed switches each kind of fault on or off, so that kinds which hide
// each other also run alone. Tunables are drawn small (one slot's credit, tiny chunks), where the product code has its
// corners.
#ifndef SHOAL_SIM_PROFILE_H_
#define SHOAL_SIM_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/sim_transport.h"
#include "sim/world.h"

namespace shoal::sim {

// A benign fault may cost time and never a result; neither may a survivable one, which makes groups move to other
// servers. A destructive one may fail the ops of the jobs that it hits, of nobody else, and must leave nothing behind.
enum class FaultKind : uint8_t {
  // benign
  kClog,             // nothing gets through on some connections for a while
  kPause,            // a process stands still for a while, for less than a lease
  kSchedulerOutage,  // the scheduler is down for a while and comes back from its store
  kStoreFailures,    // saves fail for a while
  kRogueClient,      // somebody sends garbage and forged frames to a server
  // survivable
  kReset,          // a connection between a worker and a server breaks
  kServerCrash,    // not of the last one
  kServerRestart,  // it crashes, and a new process has its name after a while
  kServerStop,     // it stands still for longer than its lease, and then goes on
  kServerCut,      // likewise, and its connections break at the start
  kServerDrain,
  kServerAdd,
  // destructive
  kWorkerCrash,
  kDisagree,     // one rank calls an op of another size
  kAbort,        // one rank aborts its group
  kMissingRank,  // one rank stops calling, and stays alive
};

bool IsBenign(FaultKind kind);
bool IsSurvivable(FaultKind kind);
std::string FaultName(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kClog;
  uint64_t at_ns = 0;
  uint64_t duration_ns = 0;
  uint32_t target = 0;  // a server, job or worker, by kind; taken modulo how many there are
};

struct JobProfile {
  uint32_t ranks = 1;
  bool subgroup = false;  // also a group of every second rank
  uint32_t ops = 1;       // of each group
  uint32_t in_flight = 1;
};

// Deliberate bugs of the simulated parts, to prove that the checkers see what they are for.
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
  uint32_t io_threads = 1;
  uint64_t slot_memory_bytes = 1 << 20;
  uint32_t window_bytes = 4096;
  uint32_t max_chunk_bytes = 1024;
  uint64_t lease_ttl_ms = 1000;
  uint64_t op_timeout_ns = 3 * kNsPerS;
  uint64_t return_patience_ns = kNsPerS;  // of servers with ranks whose connection broke
  uint32_t min_servers = 1;
  uint64_t think_ns = 100'000;      // of a worker between ops, at most
  uint64_t reduce_ns = 50'000;      // of a sum, at most
  uint64_t wake_delay_ns = 20'000;  // between an event and the loop that takes it, at most
  bool survive_server_loss = true;  // of workers
  NetworkProfile network;
  std::vector<JobProfile> jobs;
  std::vector<Fault> faults;

  std::string Describe() const;
};

Profile DrawProfile(uint64_t seed);

}  // namespace shoal::sim

#endif  // SHOAL_SIM_PROFILE_H_
