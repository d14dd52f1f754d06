// Which reduction servers keep the ops of a job waiting, and for how much of the time. Part of the machine: pure, one
// thread.
//
// Each rank tells for how long its ops waited for one server after they had the parts of the others
// (worker/machine/server_wait_book.h). A server is slow if more than half of the ranks that tell anything say so of
// nearly all ops, in two windows in a row, for a share of the time that matters. All of a server's results are also
// late where it waits for the contributions of one rank alone, which come to other servers in time: then the way
// between the two is at fault (docs/adr/0022).
#ifndef SHOAL_SCHEDULER_MACHINE_SLOW_SERVERS_H_
#define SHOAL_SCHEDULER_MACHINE_SLOW_SERVERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "scheduler/machine/scheduler_requests.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

struct SlowServer {
  ServerId server;
  std::string name;
  std::string node;
  double waited_share = 0;  // of the time, in the newest windows, for the mean of the ranks that say so; 0 to 1
  std::optional<JobRank> late_rank = std::nullopt;  // the way from it to the server is slow
  uint64_t since_unix_ms = 0;

  // What it means and where to look.
  std::string Advice() const;
};

class SlowServers {
 public:
  static constexpr double kLeastShare = 0.1;
  static constexpr double kLeastLateOps = 0.8;
  static constexpr uint32_t kWindowsInRow = 2;
  // Half of the thresholds are enough for a server that was told, so that it is not told again and again.
  static constexpr double kOfThoseTold = 0.5;
  // A window counts until its own length has passed once more, at most kLongestLengthNs, and this time.
  static constexpr uint64_t kStaleNs = 5 * kNsPerS;
  static constexpr uint64_t kLongestLengthNs = 60 * kNsPerS;
  // Of a rank's window, as many as it lists (worker/machine/server_wait_book.h).
  static constexpr size_t kMostServersTaken = 8;

  struct Change {
    SlowServer server;
    bool is_over = false;  // most ranks do not say so any more, or it is not found any more; else it is slow now
  };
  // nullptr: it is not live, or can't be compared.
  using FindServer = std::function<const ServerState*(ServerId)>;
  // A rank for which that server alone waits; nullopt: there is none.
  using FindLateRank = std::function<std::optional<JobRank>(ServerId)>;

  // Of a rank's heartbeat. A report whose numbers can't be is not taken.
  void OnReport(JobRank rank, const ServerWaitsReport& report, Now now);
  // It left or was lost. With the last one nobody waits any more.
  void Forget(JobRank rank) {
    voices_.erase(rank);
    if (!voices_.empty()) return;
    found_ns_.clear();
    told_.clear();
  }

  // What has changed since the last call. A server is told when it was found for `settle_ns`: what is slow about it may
  // be told as a slow rank's of its node by then.
  std::vector<Change> Judge(const FindServer& find_server, const FindLateRank& find_late_rank, uint64_t settle_ns,
                            Now now);
  // In the order of servers.
  std::vector<SlowServer> slow() const;

 private:
  struct Seen {
    double waited_share = 0;
    double late_ops_share = 0;
    uint32_t late_in_row = 0;    // windows, of which some may not have been told
    uint64_t late_since_ns = 0;  // the first of them began
  };
  // The newest window of a rank.
  struct Voice {
    uint64_t window = 0;
    uint64_t length_ns = 0;
    uint64_t end_ns = 0;  // on this scheduler's clock
    std::map<ServerId, Seen> seen;
  };
  struct Finding {
    size_t ranks = 0;
    double waited_share_sum = 0;
    uint64_t since_ns = UINT64_MAX;
  };

  static bool IsLate(const Seen& seen, bool was_told);
  std::map<ServerId, Finding> FindLate() const;

  std::map<JobRank, Voice> voices_;
  std::map<ServerId, uint64_t> found_ns_;  // since when
  std::map<ServerId, SlowServer> told_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SLOW_SERVERS_H_
