// The reduction among the ranks of a node through memory that they share, with the kernels of reduce/.
//
// Each rank writes to its own memory and reads the others': at most 1.25 MiB and two pages a group (of up to 64 ranks),
// whatever its tensors are like.
// A rank that is awake learns of the others' progress from that memory; one that sleeps is woken through a socket.
// A group costs a rank the descriptors of a socket and a process for each other rank and one more, and until all have
// met those of a listener and a spare one as well.
#ifndef SHOAL_WORKER_LOCAL_REDUCE_HOST_LOCAL_REDUCE_H_
#define SHOAL_WORKER_LOCAL_REDUCE_HOST_LOCAL_REDUCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "net/flight_recorder.h"
#include "worker/local_reduce/local_reduce.h"

namespace shoal {

// Takes one descriptor; memory only with the first group. ResourceExhausted: the process has no memory or descriptors
// left. Unimplemented: this kernel can't share memory safely, or does not let this process.
//
// LocalGroupFailed says: AlreadyExists, another process listens as this rank of the meeting; ResourceExhausted, the
// culprit, which may be this rank, has no memory or descriptors left; Unimplemented, this kernel can't share memory
// safely; FailedPrecondition, ranks of different releases; InvalidArgument, ranks that disagree; Unavailable, a rank
// died, or closed the group while others have ops that it did not start; and what another rank gave Fail.
//
// `recorder` outlives it and gets an entry for each op that has ended; of a group that fails, for those that were under
// way. nullptr: nothing is recorded, and no clock read.
absl::StatusOr<std::unique_ptr<LocalReduce>> MakeHostLocalReduce(FlightRecorder* recorder = nullptr);

}  // namespace shoal

#endif  // SHOAL_WORKER_LOCAL_REDUCE_HOST_LOCAL_REDUCE_H_
