// How patient a worker machine is, and whether it survives the loss of servers.
#ifndef SHOAL_WORKER_MACHINE_WORKER_MACHINE_OPTIONS_H_
#define SHOAL_WORKER_MACHINE_WORKER_MACHINE_OPTIONS_H_

#include <cstdint>
#include <memory>

#include "core/failure_detection.h"
#include "core/now.h"
#include "worker/machine/staging_arena.h"

namespace shoal {

struct WorkerMachineOptions {
  uint64_t connect_retry_ns = 200 * kNsPerMs;
  // A server that was lost is reported as out of reach when an attempt to connect again has failed, or is not done by
  // then: over a cable that says nothing it would take minutes.
  uint64_t reach_patience_ns = kReachPatienceNs;
  uint64_t commit_note_delay_ns = 10 * kNsPerMs;  // a watermark that no push carried by then goes out alone
  uint64_t force_after_ns = kNsPerS;              // how long a failed op waits for the network to give its memory back
  // How long the orderly end of a group waits until every rank has its results.
  uint64_t leave_patience_ns = 30 * kNsPerS;
  // The loop has a port for reductions within the node. False: groups that are to be reduced there are refused.
  bool has_local_reduce = false;
  // Memory for chunks on their way that devices can reach. Null: ops on tensors on devices are refused.
  std::shared_ptr<StagingArena> staging_arena = nullptr;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_MACHINE_OPTIONS_H_
