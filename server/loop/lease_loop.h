// How a server keeps its place in the cluster: Poll -> Step -> Execute around a RegistrationMachine and its link to the
// scheduler.
//
// Thread: one at a time calls RunOnce. RunOnce never blocks and reads no clock; between calls that thread may sleep
// until NextDeadlineNs(), a new command, or the link's wake.
#ifndef SHOAL_SERVER_LOOP_LEASE_LOOP_H_
#define SHOAL_SERVER_LOOP_LEASE_LOOP_H_

#include <cstdint>
#include <functional>
#include <span>

#include "core/now.h"
#include "server/lease/control_link.h"
#include "server/lease/registration_machine.h"

namespace shoal {

class LeaseLoop {
 public:
  // `link` outlives the loop. `load` gives the counters that go with each renewal.
  LeaseLoop(RegistrationOptions options, Now now, ControlLink* link, std::function<ServerCounters()> load);

  // Takes in commands and answers, does what follows, and appends what the process must know or do to `outcomes`.
  void RunOnce(Now now, std::span<const LeaseCommand> commands, LeaseOutcomes* outcomes);

  uint64_t NextDeadlineNs() const { return machine_.NextDeadlineNs(); }

 private:
  RegistrationMachine machine_;
  ControlLink* const link_;
  const std::function<ServerCounters()> load_;
  RegistrationActions actions_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LOOP_LEASE_LOOP_H_
