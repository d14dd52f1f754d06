// What a scheduler counts and measures, for its metrics and status. Plain values: the machine gives the cluster's part,
// the loop adds what passes through it, and a snapshot of both is published.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_NUMBERS_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_NUMBERS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/log_event.h"
#include "core/now.h"
#include "scheduler/machine/scheduler_requests.h"

namespace shoal::scheduler {

// Jobs beyond the largest ones are added up under this name, so that a cluster with many jobs has bounded metrics.
// Those that have ended are shown for a while, so that their last numbers are read.
inline constexpr size_t kMaxJobsInNumbers = 64;
inline constexpr char kOtherJobs[] = "other";
inline constexpr uint64_t kEndedJobShownNs = 120 * kNsPerS;

struct JobNumbers {
  std::string name;
  uint32_t live_ranks = 0;
  uint32_t slow_ranks = 0;
  uint32_t slow_servers = 0;
  double waited_share = 0;         // for the slowest of them
  uint64_t slot_memory_bytes = 0;  // on all live servers together
  WorkerLoad load = {};            // of all ranks together
  // False: a rank has not told its part yet, or the jobs that are added up change. A counter must not fall, nor jump
  // when a rank is heard.
  bool load_is_whole = true;
};

// How long saves took: counts[i] of them at most kSaveBoundsMs[i], the last one any time.
inline constexpr std::array<uint64_t, 9> kSaveBoundsMs = {1, 3, 10, 30, 100, 300, 1000, 3000, 10'000};
struct SaveNumbers {
  std::array<uint64_t, kSaveBoundsMs.size() + 1> counts{};
  uint64_t total_ns = 0;
  // Of the newest one that succeeded; 0: none has.
  uint64_t newest_ns = 0;
  uint64_t newest_unix_ms = 0;  // when it ended
  uint64_t newest_failure_unix_ms = 0;
  uint64_t succeeded = 0;
  uint64_t failed = 0;

  void Count(bool has_succeeded, uint64_t took_ns, Now now) {
    ++(has_succeeded ? succeeded : failed);
    total_ns += took_ns;
    const auto bound =
        std::lower_bound(kSaveBoundsMs.begin(), kSaveBoundsMs.end(), (took_ns + kNsPerMs - 1) / kNsPerMs);
    ++counts[static_cast<size_t>(bound - kSaveBoundsMs.begin())];
    if (!has_succeeded) newest_failure_unix_ms = now.unix_ms;
    if (!has_succeeded) return;
    newest_ns = took_ns;
    newest_unix_ms = now.unix_ms;
  }
};

// Why saves fail, since the last one that succeeded.
class SaveTrouble {
 public:
  // True: it is to be told, because it is the first one, or says something else, or was told long ago.
  bool Note(const std::string& reason, Now now) {
    constexpr uint64_t kToldAgainNs = 60 * kNsPerS;
    const bool is_told = failures_ > 0 && reason == reason_ && now.monotonic_ns - told_ns_ < kToldAgainNs;
    if (failures_++ == 0) since_unix_ms_ = now.unix_ms;
    if (!is_told) told_ns_ = now.monotonic_ns;
    reason_ = reason;
    return !is_told;
  }

  const std::string& reason() const { return reason_; }  // of the newest failure; empty: the newest save succeeded
  uint64_t since_unix_ms() const { return since_unix_ms_; }
  uint64_t failures() const { return failures_; }

 private:
  std::string reason_;
  uint64_t failures_ = 0;
  uint64_t since_unix_ms_ = 0;
  uint64_t told_ns_ = 0;
};

// Of groups, since this scheduler began to lead.
struct MoveNumbers {
  uint64_t servers_changed = 0;  // servers came, left or were lost
  uint64_t asked_by_rank = 0;    // a rank could not go on with a server of its group
};

// A process that was not let in lately.
struct RefusedServerView {
  std::string name;
  std::string node;
  std::string reason;
  uint64_t newest_age_ms = 0;  // since it asked last
};

// The cluster as it is now, for its status and its metrics.
struct ClusterView {
  std::string cluster_id;
  Epoch epoch;
  uint32_t servers_live = 0;  // dedicated ones, as servers_lost
  uint32_t servers_lost = 0;
  uint32_t servers_colocated = 0;  // live ones
  uint32_t jobs = 0;
  uint32_t workers = 0;
  uint64_t started_at_unix_ms = 0;
  uint64_t lease_ttl_ms = 0;
  std::string store;
  uint64_t now_unix_ms = 0;
  std::string leader = "";  // of several schedulers, as in SchedulerMachine::Settings
  MoveNumbers moves;
  SaveNumbers saves;
  uint64_t newest_forgotten_event_unix_ms = 0;  // as of EventJournal
  std::vector<RefusedServerView> refused_servers = {};
  std::string save_failure = "";  // why saves fail; empty: the newest one succeeded
  uint64_t saves_fail_since_unix_ms = 0;
  std::string open_to_network = "";  // as in SchedulerMachine::Settings
};

// The metrics.
struct SchedulerNumbers : ClusterView {
  std::vector<JobNumbers> largest_jobs = {};  // by bytes pushed; kMaxJobsInNumbers at most, then perhaps kOtherJobs
  std::array<uint64_t, kEventKindCount> events{};
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_NUMBERS_H_
