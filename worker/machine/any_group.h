// A group in a worker, whichever way its tensors are reduced: what callers and the scheduler may ask of it.
//
// What happens to it beside that comes to its own class: WorkerGroup (through servers), NodeGroup (within a node).
// Owned by WorkerMachine, which drops it once it is closed(). One thread.
#ifndef SHOAL_WORKER_MACHINE_ANY_GROUP_H_
#define SHOAL_WORKER_MACHINE_ANY_GROUP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/now.h"
#include "worker/machine/group_info.h"
#include "worker/machine/worker_actions.h"
#include "worker/machine/worker_commands.h"

namespace shoal {

class AnyGroup {
 public:
  virtual ~AnyGroup() = default;

  virtual const GroupInfo& info() const = 0;
  virtual bool failed() const = 0;
  virtual bool closed() const = 0;

  // Begins to open it; GroupOpened follows.
  virtual void Open(Now now, WorkerActions* actions) = 0;
  // Not OK: the op was not taken. The reason of a failed group; InvalidArgument: its layout is not for this group.
  virtual absl::Status Submit(const SubmitCommand& command, Now now, WorkerActions* actions) = 0;
  // This rank gives the group up, and the others are to hear it: every op ends with that reason; GroupOpened tells it
  // where the group was not open. Nothing in a failed group.
  virtual void Fail(absl::Status why, Now now, WorkerActions* actions) = 0;
  // Likewise, where the others are told by somebody else.
  virtual void FailAsOthers(absl::Status why, Now now, WorkerActions* actions) = 0;
  // Likewise, on this rank alone if the group goes on without lost ranks: this one is lost, or about to be.
  virtual void GiveUp(absl::Status why, Now now, WorkerActions* actions) = 0;
  // Ends the group once its ops are done; GroupClosed follows.
  virtual void Close(Now now, WorkerActions* actions) = 0;
  // Ends the group, also its ops; it waits for the other ranks until the deadline at the latest.
  virtual void Shutdown(uint64_t deadline_ns, Now now, WorkerActions* actions) = 0;

  virtual void Tick(Now now, WorkerActions* actions) = 0;
  virtual uint64_t NextDeadlineNs() const = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_ANY_GROUP_H_
