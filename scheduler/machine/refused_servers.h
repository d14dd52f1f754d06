// Servers that were not let in lately, so that operators hear of them from the scheduler too, and not only from the log
// of the process that keeps asking. Pure; one thread.
#ifndef SHOAL_SCHEDULER_MACHINE_REFUSED_SERVERS_H_
#define SHOAL_SCHEDULER_MACHINE_REFUSED_SERVERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/now.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"

namespace shoal::scheduler {

// Of these names and nodes the newest are kept: whoever asks under ever new names gets no more room.
inline constexpr size_t kMostRefusedServers = 16;
// A process asks about once a second, and whatever starts it again may wait for some minutes.
inline constexpr uint64_t kRefusedShownNs = 600 * kNsPerS;
inline constexpr uint64_t kRefusedToldAgainNs = 60 * kNsPerS;

class RefusedServers {
 public:
  // True: it is to be told, because it is new, or says something else than before, or was told long ago. Of all
  // servers together kMostRefusedServers times in kRefusedToldAgainNs.
  bool Note(const RegisterServer& request, const std::string& reason, Now now);
  // A server with that name on that node was let in.
  void Forget(const RegisterServer& request);
  // Those of the last kRefusedShownNs, the oldest first.
  std::vector<RefusedServerView> List(Now now) const;

 private:
  struct Refused {
    std::string name;
    std::string node;
    std::string reason;
    uint64_t last_ns = 0;
    uint64_t told_ns = 0;
  };

  std::vector<Refused>::iterator Find(const RegisterServer& request);

  std::vector<Refused> refused_;
  std::deque<uint64_t> told_ns_;  // when any was told, in the last kRefusedToldAgainNs
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_REFUSED_SERVERS_H_
