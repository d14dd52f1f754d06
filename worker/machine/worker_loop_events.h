// What a worker's loop answers to actions (worker_actions.h): events for the machine, which it gets before the
// transport's next ones. Plain values.
#ifndef SHOAL_WORKER_MACHINE_WORKER_LOOP_EVENTS_H_
#define SHOAL_WORKER_MACHINE_WORKER_LOOP_EVENTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/transport_event.h"
#include "worker/machine/group_info.h"
#include "worker/machine/local_op.h"

namespace shoal {

// A WorkerConnectAction was carried out.
struct ConnectStarted {
  uint32_t connection = 0;
  absl::StatusOr<PeerId> peer;  // or why there is none
};

// A WorkerAcceptAction was carried out.
struct AcceptStarted {
  uint64_t token = 0;
  bool at_once = false;  // its `data_at_once` was written
};

// A LocalMissingAction was carried out.
struct LocalRanksMissing {
  GroupHandle group;
  std::vector<LocalRank> ranks;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_WORKER_LOOP_EVENTS_H_
