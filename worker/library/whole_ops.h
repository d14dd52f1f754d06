// The ops of a group whose results are each made of one roster's contributions (shoal_group_options.whole_op).
//
// One op is under way at a time, and others wait here. Where ranks are lost while it is open, some of its chunks may
// have their contributions and others not; then the contributions are put back into the tensor and the op is done
// again. All ranks have the same contributors of an op, so they repeat the same ones and their ops stay in order. That
// takes a copy of each tensor, and ops that overlap no longer.
//
// Thread: any. Ownership: of its CallerGroup; ops are shared with their callers.
#ifndef SHOAL_WORKER_LIBRARY_WHOLE_OPS_H_
#define SHOAL_WORKER_LIBRARY_WHOLE_OPS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "process/mutex.h"
#include "worker/machine/worker_commands.h"
#include "worker/machine/worker_outcomes.h"

namespace shoal {

class CallerOp;

class WholeOps {
 public:
  struct Pass {
    SubmitCommand command;
    std::shared_ptr<CallerOp> op;
  };

  // Copies the contribution. True: it is to be submitted now; false: Next will return it. ResourceExhausted: there is
  // no memory for the copy. Other errors: what End was called with.
  absl::StatusOr<bool> Begin(const SubmitCommand& command, std::shared_ptr<CallerOp> op);
  // The pass under way has ended well. Returns it once more, with its tensor as it was, if chunks have different
  // contributors.
  std::optional<Pass> Again(Contributors contributors);
  // The op under way has ended well. Returns the one that is to be submitted now.
  std::optional<Pass> Next();
  // The group has failed: nothing begins any more. Returns all ops, those that waited and the one that was under way.
  std::vector<std::shared_ptr<CallerOp>> End(const absl::Status& why);

  // False: ops are open still by then.
  bool WaitUntilIdle(uint64_t deadline_ns);

 private:
  struct Waiting {
    Pass pass;
    std::unique_ptr<std::byte[]> contribution;
  };

  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> ops_ SHOAL_GUARDED_BY(mutex_);  // the first is under way
  absl::Status end_ SHOAL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_WHOLE_OPS_H_
