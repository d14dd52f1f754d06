// Which ranks of a job keep the others waiting, for how much of the time, and why. Pure, one thread.
//
// Servers tell for how long the ranks of a group waited for one of them in a window of some ops
// (server/machine/lateness_book.h). A rank is slow if more than half of the group's servers tell so of nearly all ops,
// in two windows in a row, for a share of the time that matters; chance makes a rank late in some ops at some servers.
// The cause follows from what the rank's heartbeats say of the time in which it had no op under way (it was away):
// docs/adr/0021. That time alone tells who is late in a group that is on one node and uses no servers.
#ifndef SHOAL_SCHEDULER_INSIGHT_SLOW_RANKS_H_
#define SHOAL_SCHEDULER_INSIGHT_SLOW_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "scheduler/insight/away_shares.h"
#include "scheduler/insight/told_windows.h"
#include "scheduler/machine/scheduler_responses.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

// What an I/O thread of a server says of a rank of a group in a window. Checked: times and counts are possible.
struct LateWindow {
  GroupId group;
  Epoch epoch;
  Rank rank;  // of the group, or of the rail
  ServerId server;
  uint32_t io_thread = 0;
  uint64_t number = 0;  // another one: another window
  WindowTimes times;
  uint32_t ops = 0;
  uint32_t late_ops = 0;
  uint64_t waited_ns = 0;
  uint64_t spacing_ns = 0;         // of its chunks, where it waited for no result; 0: not known
  uint64_t median_spacing_ns = 0;  // of all ranks' chunks
  uint64_t began_late_ns = 0;
  // No other rank of the group comes to the server by the network as it does, so only its calls can be compared.
  bool alone_by_network = false;
};

class SlowRanks {
 public:
  static constexpr double kLeastShare = 0.05;
  // Chunks that come so much further apart than the median rank's are those of a slow link.
  static constexpr double kWideSpacing = 1.3;
  // Within a node: over so much time, twice in a row, a rank has to be away for longer than the others, and for so much
  // longer per op. Less is how threads happen to be scheduled.
  static constexpr uint64_t kSpanOnNodeNs = 2 * kNsPerS;
  static constexpr uint64_t kLeastLateOnNodeNs = 100 * kNsPerUs;
  // A rank that was called slow within this time before stays so for longer each time when nothing shows it any more.
  static constexpr uint64_t kOftenNs = 60 * kNsPerS;
  static constexpr uint64_t kFirstHoldNs = 10 * kNsPerS;
  static constexpr uint64_t kLongestHoldNs = 80 * kNsPerS;

  struct Change {
    SlowRank rank;
    bool is_over = false;  // nobody says any more that it is slow; else it is now, or has another cause
  };
  // nullptr: no such group is open.
  using FindGroup = std::function<const GroupState*(GroupId)>;

  void OnWindow(const LateWindow& window);
  AwayShares& away() { return away_; }
  // It left or was lost.
  void Forget(JobRank rank);

  // What has changed since the last call. A cause is told when it was found for `settle_ns`: at first the heartbeats
  // may be of the time before. It is at least the time between two heartbeats. `on_one_node`: the ranks of each group
  // without servers whose times away can be compared, since they take part in the same groups.
  std::vector<Change> Judge(const FindGroup& find_group, const std::set<std::vector<JobRank>>& on_one_node,
                            uint64_t settle_ns, Now now);
  // In the order of ranks.
  std::vector<SlowRank> slow() const;
  // A rank for which the server waits for that share of the time at least, in windows in a row, and no other server
  // does at all; nullopt: there is none.
  std::optional<JobRank> FindLateAtOne(ServerId server, double least_share, const FindGroup& find_group) const;

 private:
  struct Seen {
    LateWindow window;
    LateWindows late;
  };
  using Suspect = std::map<std::pair<ServerId, uint32_t>, Seen>;  // by server and I/O thread
  struct Finding {
    double waited_share = 0;
    uint64_t waited_ns_per_op = 0;
    SlowCause cause = SlowCause::kLateCompute;
    uint64_t since_ns = 0;
  };
  struct Verdict {
    SlowCause cause = SlowCause::kLateCompute;  // as found
    uint64_t cause_since_ns = 0;
    uint64_t told_ns = 0;
    uint64_t found_ns = 0;                  // when it was found last
    uint64_t hold_ns = 0;                   // it is over when it was not found for so long
    uint64_t next_cause_ns = kNextCauseNs;  // after which another cause is told
    std::optional<SlowRank> told;
  };

  // Drops windows that say nothing any more. False: none is left.
  bool DropStale(Suspect* suspect, const GroupState& group, Now now) const;
  // The window that the finding is made of; nullptr: the rank is not slow, as far as is known.
  const Seen* FindSlowest(const Suspect& suspect, const GroupState& group, JobRank rank) const;
  void AddFinding(const Suspect& suspect, const Seen& slowest, const GroupState& group, Now now,
                  std::map<JobRank, Finding>* findings) const;
  bool WasTold(JobRank rank) const;
  void AddFindingsOnNode(const std::vector<JobRank>& ranks, uint64_t heartbeat_ns, Now now,
                         std::map<JobRank, Finding>* findings) const;
  // Of the ranks' shares of time away; nullopt: those of two ranks are not known.
  std::optional<double> MedianAway(const std::vector<JobRank>& ranks, uint64_t span_ns, Now now) const;

  std::map<std::pair<GroupId, Rank>, Suspect> suspects_;
  std::map<JobRank, Verdict> verdicts_;
  // Of ranks whose verdicts are over: a rank that is now slow and now not is told less and less often.
  struct Over {
    uint64_t at_ns = 0;
    uint64_t next_hold_ns = 0;
  };
  std::map<JobRank, Over> over_;
  std::set<JobRank> gone_;  // since the last call of Judge
  AwayShares away_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_SLOW_RANKS_H_
