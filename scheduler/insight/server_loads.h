// What reduction servers have told of their work, and the list of servers, page by page. Pure;
// one thread.
#ifndef SHOAL_SCHEDULER_INSIGHT_SERVER_LOADS_H_
#define SHOAL_SCHEDULER_INSIGHT_SERVER_LOADS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/statusor.h"
#include "core/ids.h"
#include "core/now.h"
#include "scheduler/insight/recent_growth.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

class ServerLoads {
 public:
  // Of a live server that the registry has, and of its process there.
  void OnHeartbeat(const HeartbeatServer& request, const ServerRegistry& servers, Now now);

  // What live servers have reserved for the open groups of each job, all together, as far as they have told.
  std::map<JobId, uint64_t> SlotMemoryByJob(const ServerRegistry& servers) const;
  // InvalidArgument: the page token is none. NotFound: no server has the name that is asked for.
  absl::StatusOr<ServersPage> Page(const ListServers& request, const ServerRegistry& servers, Now now) const;

 private:
  // Places of what grows.
  enum Place : size_t { kBytesIn, kBytesOut, kChunks, kOps, kRefusals, kReduceNs, kPlaces };
  using LoadGrowth = RecentGrowth<kPlaces>;

  // Of one process.
  struct Known {
    Incarnation incarnation;
    ServerLoad load;
    LoadGrowth growth;
    std::optional<int64_t> clock_ahead_ms;  // of the scheduler's, by its newest heartbeat
  };

  // nullptr: the server's process has told nothing to this scheduler.
  const Known* Find(const ServerState& server) const;
  // nullopt: not known yet.
  static std::optional<ServerRates> RatesOf(const Known& known);

  std::map<ServerId, Known> servers_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_SERVER_LOADS_H_
