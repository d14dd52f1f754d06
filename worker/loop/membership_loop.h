// The worker's membership loop: Poll -> Step -> Execute around a MembershipMachine and its port.
//
// Thread: one thread at a time calls RunOnce. RunOnce never blocks and reads no clock; between calls that thread may
// sleep until NextDeadlineNs(), a new command, or until the port has something.
#ifndef SHOAL_WORKER_LOOP_MEMBERSHIP_LOOP_H_
#define SHOAL_WORKER_LOOP_MEMBERSHIP_LOOP_H_

#include <cstdint>
#include <span>

#include "core/now.h"
#include "worker/membership/membership_machine.h"
#include "worker/membership/scheduler_port.h"

namespace shoal {

class MembershipLoop {
 public:
  // `port` outlives the loop.
  MembershipLoop(MembershipOptions options, SchedulerPort* port) : machine_(std::move(options)), port_(port) {}

  // Takes in commands and what came from the scheduler, does what follows and appends what the program must know or do
  // to `outcomes`. True if anything happened: call again before sleeping.
  bool RunOnce(Now now, std::span<const MembershipCommand> commands, MembershipOutcomes* outcomes);

  uint64_t NextDeadlineNs() const { return machine_.NextDeadlineNs(); }

 private:
  MembershipMachine machine_;
  SchedulerPort* const port_;
  MembershipActions actions_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LOOP_MEMBERSHIP_LOOP_H_
