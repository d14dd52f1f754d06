// What happens in a reduction among the ranks of one node (worker/local_reduce/local_reduce.h), as plain values: the
// worker's machine takes these in and never sees the port.
#ifndef SHOAL_WORKER_MACHINE_LOCAL_REDUCE_EVENT_H_
#define SHOAL_WORKER_MACHINE_LOCAL_REDUCE_EVENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "core/partial_op.h"
#include "worker/machine/local_op.h"

namespace shoal {

// All local ranks have met: ops may move.
struct LocalGroupMet {
  GroupHandle group;
  // What local rank 0 says of devices; nullopt: not all local ranks can reduce tensors there.
  std::optional<DeviceMeeting> devices = std::nullopt;
  std::shared_ptr<const NodeFailures> failures = nullptr;  // with `devices`
};

// The sum over this node of `element_count` elements of the own part, from `first_element` of the tensor on, lies in
// the tensor: the other nodes are next. Ranges of one op come in order and without a gap. Where ranks have each other's
// elements encoded, a range begins at a multiple of the codec's alignment_elements().
struct LocalPartReduced {
  GroupHandle group;
  uint64_t ticket = 0;
  uint64_t first_element = 0;
  uint64_t element_count = 0;
};

// The op is over, and its memory is the caller's again.
struct LocalOpEnded {
  GroupHandle group;
  uint64_t ticket = 0;
  absl::Status status;
  // Where it is over well, in a group that counts nodes: what all ranks have published of them, of the whole tensor,
  // from element 0 on without a gap.
  std::vector<ContributedRange> contributed = {};
};

// The local group can't go on. LocalOpEnded of each of its ops follows with the same status; then it wants Close alone.
struct LocalGroupFailed {
  GroupHandle group;
  absl::Status status;               // Unavailable with a culprit: that rank is gone
  std::optional<LocalRank> culprit;  // nullopt: no rank's fault, or it is not known whose
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_LOCAL_REDUCE_EVENT_H_
