// Which reduction servers keep the ops of a job waiting, and for how much of the time. Pure, one thread.
//
// Each rank tells, for each group, for how long its ops waited for one server more than for the others of its weight
// (worker/machine/server_wait_book.h). A server is slow if more than half of a group's ranks that tell anything say so
// of nearly all stretches of ops, in two windows in a row, for a share of the time that matters. All of a server's
// results are also late where it waits for the contributions of one rank alone, for about as long, and they come to
// other servers in time: then the way between the two is at fault (docs/adr/0022).
#ifndef SHOAL_SCHEDULER_INSIGHT_SLOW_SERVERS_H_
#define SHOAL_SCHEDULER_INSIGHT_SLOW_SERVERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "scheduler/insight/told_windows.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_responses.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

// Of a server that ranks of a group compare with others.
struct ServerComparison {
  const ServerState* server = nullptr;  // nullptr: what ranks say of it does not count
  std::string why_not = {};             // of nullptr, if there is something to be told: "rank 3 on its node is slow"
  std::set<JobRank> biased = {};        // ranks that are nearer to the servers that it is compared with
};

class SlowServers {
 public:
  static constexpr double kLeastShare = 0.1;
  // A server that waits for one rank for so much of the time in which ranks wait for the server is slow because of that
  // rank. Where the server's own link is slow, one rank is the last to get through, but the server waits far less for
  // it.
  static constexpr double kExplains = 0.75;
  // Silence ends no verdict before: a job that writes a checkpoint says nothing.
  static constexpr uint64_t kForgottenNs = 600 * kNsPerS;

  struct Change {
    SlowServer server;
    std::string over = {};  // why it is not slow any more; empty: it is slow now, or has another cause
  };
  // What is known of groups and servers.
  struct View {
    std::function<const GroupState*(GroupId)> find_group;   // nullptr: not open
    std::function<const ServerState*(ServerId)> find_live;  // nullptr: not live
    std::function<ServerComparison(const GroupState&, ServerId)> compare;
    // For which that server alone waits, and for that share of the time at least.
    std::function<std::optional<JobRank>(ServerId, double least_share)> find_late_rank;
  };

  // Of a rank's heartbeat, which come every `heartbeat_ns`; the group is open in that epoch, and the rank's. A report
  // whose numbers can't be is not taken.
  void OnReport(JobRank rank, const ServerWaitReport& report, uint64_t heartbeat_ns, Now now);
  // It left or was lost.
  void Forget(JobRank rank);
  // The job's last rank is gone: nobody waits any more.
  void Clear();

  // What has changed since the last call. A server is told when it was found for `settle_ns`: what is slow about it may
  // be told as a slow rank's of its node by then.
  std::vector<Change> Judge(const View& view, uint64_t settle_ns, Now now);
  // In the order of servers.
  std::vector<SlowServer> slow() const;

 private:
  // The newest window of a rank in a group.
  struct Voice {
    Epoch epoch;
    uint64_t window = 0;
    WindowTimes times;
    std::map<ServerId, LateWindows> seen;
  };
  using Voices = std::map<std::pair<GroupId, JobRank>, Voice>;
  struct Finding {
    double waited_share = 0;
    uint64_t since_ns = 0;
    uint64_t newest_ns = 0;  // the end of the newest window that says so
  };
  struct Findings {
    std::map<ServerId, Finding> slow;
    std::map<ServerId, std::string> why_not;  // those that do not count, with something to be told
    std::set<ServerId> heard;                 // ranks compare them
  };
  struct Verdict {
    SlowServer server;
    uint64_t told_ns = 0;
    uint64_t confirmed_ns = 0;  // the end of the newest window that says so
  };

  void DropOld(const View& view, Now now);
  // The voices of one group, from `begin` to `end`.
  void AddFindings(Voices::const_iterator begin, Voices::const_iterator end, const View& view, Now now,
                   Findings* findings) const;
  // Why the verdict is over; empty: it is not.
  std::string WhyOver(const Verdict& verdict, const Findings& findings, const View& view, Now now) const;
  void Refresh(Verdict* verdict, const Finding& finding, const View& view, Now now, std::vector<Change>* changes);

  Voices voices_;
  std::map<ServerId, uint64_t> found_ns_;  // since when; those that are not told yet
  std::map<ServerId, Verdict> told_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_SLOW_SERVERS_H_
