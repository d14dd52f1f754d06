// The worker's I/O loop: Poll -> Step -> Execute around a WorkerMachine, its transport, the reduction within its node
// and copies from and to devices. A run that starts an op within the node does it twice for that one
// (docs/adr/0016-callers-run-the-loop-for-small-ops.md).
//
// Thread: one thread at a time calls RunOnce. RunOnce never blocks and reads no clock; between calls that thread may
// sleep until NextDeadlineNs(), a new command, or a wake_fd of the transport or the reduction.
#ifndef SHOAL_WORKER_LOOP_WORKER_LOOP_H_
#define SHOAL_WORKER_LOOP_WORKER_LOOP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/now.h"
#include "net/transport.h"
#include "worker/device/stager.h"
#include "worker/local_reduce/local_reduce.h"
#include "worker/machine/worker_machine.h"

namespace shoal {

class WorkerLoop {
 public:
  // `transport` lives as long as RunOnce is called, and is to be destroyed before the loop: until then it may use
  // memory of the loop (StagingMemory). `local_reduce` lives as long as RunOnce is called; nullptr: groups that are to
  // be reduced within the node are refused. `stager` likewise; nullptr only if the options have no staging arena.
  WorkerLoop(const WorkerMachineOptions& options, Transport* transport, LocalReduce* local_reduce,
             Stager* stager = nullptr);

  // Takes in commands and what happened on the network and the node, does what follows and appends what callers must
  // know to `outcomes`. True if anything happened: call again before sleeping.
  bool RunOnce(Now now, std::span<const WorkerCommand> commands, WorkerOutcomes* outcomes);

  uint64_t NextDeadlineNs();
  WorkerCounters counters() const;

 private:
  void TakeIn(std::span<const LocalReduceEvent> local_events, Now now);
  // Until the machine asks for nothing more.
  void ExecuteAll(Now now, WorkerOutcomes* outcomes);
  // Carries out what the machine asked for, and gives callers what is for them.
  void Execute(WorkerOutcomes* outcomes);
  // Tells the machine what came of that, before the next events.
  void HandIn(Now now);

  WorkerMachine machine_;
  Transport* const transport_;
  LocalReduce* const local_reduce_;      // nullptr: there is none
  Stager* const stager_;                 // nullptr: there is none
  std::optional<uint64_t> deadline_ns_;  // of the machine; not set: something has happened since it was asked
  bool local_op_started_ = false;        // in this round
  WorkerActions actions_;
  WorkerActions executing_;
  // Results of actions that the machine has not heard of yet.
  std::vector<ConnectStarted> connects_started_;
  std::vector<AcceptStarted> accepts_started_;
  std::vector<LocalRanksMissing> missing_;
  std::vector<TransportEvent> not_taken_;  // operations that the transport did not take: they end here
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LOOP_WORKER_LOOP_H_
