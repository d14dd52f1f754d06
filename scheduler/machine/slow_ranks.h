// Which ranks of a job keep the others waiting, for how much of the time, and why. Part of the machine: pure, one
// thread.
//
// Servers tell for how long the ranks of a group waited for one of them in a window of some ops
// (server/machine/lateness_book.h). A rank is slow if more than half of the group's servers tell so of nearly all ops,
// for a share of the time that matters; chance makes a rank late in some ops at some servers. The cause follows from
// what the rank's heartbeats say of the time in which it had no op under way (it was away): docs/adr/0021.
#ifndef SHOAL_SCHEDULER_MACHINE_SLOW_RANKS_H_
#define SHOAL_SCHEDULER_MACHINE_SLOW_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/now.h"

namespace shoal::scheduler {

enum class SlowCause : uint8_t {
  kLateCompute,  // it calls its collectives later than others: it computes, reads data, or writes for longer
  kSlowReader,   // it was not away for longer, and its chunks come as close together as others': results reach it late
  kSlowLink      // its chunks come further apart than others'
};
// "late-compute", "slow-reader", "slow-link".
std::string_view SlowCauseName(SlowCause cause);
std::string_view SlowCauseText(SlowCause cause);

// What a server says of a rank in a window of a group.
struct LateWindow {
  GroupId group;
  ServerId server;
  size_t servers_of_group = 1;
  uint64_t number = 0;  // another one: another window
  uint64_t length_ns = 0;
  uint64_t end_ns = 0;  // on this scheduler's clock
  uint32_t ops = 0;
  uint32_t late_ops = 0;
  uint64_t waited_ns = 0;
  uint64_t began_late_ns = 0;
  uint64_t spacing_ns = 0;         // of its chunks, where it waited for no result; 0: not known
  uint64_t median_spacing_ns = 0;  // of all ranks' chunks
};

struct SlowRank {
  JobRank rank;
  double waited_share = 0;  // of the time, in the newest window
  SlowCause cause = SlowCause::kLateCompute;
  uint64_t since_unix_ms = 0;
};

class SlowRanks {
 public:
  static constexpr double kLeastShare = 0.05;
  static constexpr double kLeastLateOps = 0.8;
  // A window that leaves no doubt; otherwise it takes two in a row.
  static constexpr double kClearShare = 0.1;
  static constexpr double kClearLateOps = 0.95;
  // Chunks that come so much further apart than the median rank's are those of a slow link.
  static constexpr double kWideSpacing = 1.3;
  // A window that was not told again since counts for its own length again, and for so long.
  static constexpr uint64_t kStaleNs = 5 * kNsPerS;

  struct Change {
    SlowRank rank;
    bool is_over = false;  // it is slow no more; else it is now, or has another cause
  };

  void OnWindow(JobRank rank, const LateWindow& window);
  // Of a rank's heartbeats: the share of the time since the one before in which it had no op under way.
  void OnAwayShare(JobRank rank, double share) { away_share_[rank] = share; }
  // It left or was lost.
  void Forget(JobRank rank);

  // What has changed since the last call. A cause is told when it was found twice, `settle_ns` apart: at first the
  // heartbeats may be of the time before.
  std::vector<Change> Judge(uint64_t settle_ns, Now now);
  // In the order of ranks.
  std::vector<SlowRank> slow() const;
  // By how much the rank's share of time away is above the median of the other ranks; nullopt: not known.
  std::optional<double> AwayMoreThanOthers(JobRank rank) const;

 private:
  struct Seen {
    LateWindow window;
    bool late = false;
    uint32_t late_in_row = 0;  // windows, of which some may not have been told
  };
  struct Suspect {
    std::map<std::pair<GroupId, ServerId>, Seen> windows;
    std::optional<SlowCause> cause;  // as found
    uint64_t cause_since_ns = 0;
    std::optional<SlowRank> told;
  };
  struct Finding {
    double waited_share = 0;
    SlowCause cause = SlowCause::kLateCompute;
  };

  // nullopt: it is not slow, as far as is known.
  std::optional<Finding> Find(JobRank rank, const Suspect& suspect) const;

  std::map<JobRank, Suspect> suspects_;
  std::map<JobRank, double> away_share_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SLOW_RANKS_H_
