// What a server machine counts, and what it says of ranks that are absent or late. Plain values.
#ifndef SHOAL_SERVER_MACHINE_SERVER_COUNTERS_H_
#define SHOAL_SERVER_MACHINE_SERVER_COUNTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/frame.h"
#include "core/ids.h"
#include "core/now.h"
#include "server/machine/lateness_book.h"

namespace shoal {

// A rank of a group whose connection broke, and for which other ranks of the group wait.
struct AbsentRank {
  JobId job;
  GroupId group;
  Epoch epoch;
  Rank rank;
  uint64_t since_ns = 0;  // on the monotonic clock
  std::string because;

  friend bool operator==(const AbsentRank&, const AbsentRank&) = default;
};
inline constexpr size_t kMaxAbsentRanksListed = 256;

// A rank for which the others of its group waited, in the group's last whole window on an I/O thread.
struct LateRankOfGroup {
  JobId job;
  GroupId group;
  Epoch epoch;
  uint32_t io_thread = 0;      // of the server; the thread itself does not know
  uint64_t window = 0;         // its number: grows with each window of the group on the thread
  uint64_t window_end_ns = 0;  // on the monotonic clock
  uint64_t window_ns = 0;
  uint32_t ops = 0;                // that began in the window
  uint64_t median_spacing_ns = 0;  // as in LatenessWindow
  LateRank late;

  // Nobody need be told any more: the group has begun no op for long.
  bool IsOld(uint64_t now_ns) const { return now_ns > window_end_ns + window_ns + 5 * kNsPerS; }

  friend bool operator==(const LateRankOfGroup&, const LateRankOfGroup&) = default;
};
inline constexpr size_t kMaxLateRanksOfServer = 256;

// Counters since the start, gauges as they are now.
struct ServerCounters {
  uint64_t bytes_in = 0;   // payload landed
  uint64_t bytes_out = 0;  // payload of results sent
  uint64_t contributions_landed = 0;
  uint64_t chunks_reduced = 0;
  uint64_t ops_begun = 0;  // their first chunk was summed: over all servers each op counts once
  uint64_t groups_failed = 0;
  uint32_t groups_open = 0;
  uint32_t peers = 0;
  uint32_t shared_memory_peers = 0;  // of them
  std::string transports;            // what the connections use now, human-readable
  uint64_t corrupted_payloads = 0;   // contributions whose checksum was wrong on arrival, where that is checked
  uint64_t strangers = 0;            // connections that were closed since they did not begin with a greeting of ours
  std::string last_stranger;         // where the newest came from, and what was wrong
  uint64_t slot_memory_used_bytes = 0;
  uint32_t slots = 0;  // of the open groups
  uint32_t slots_in_use = 0;
  uint32_t pending_pushes = 0;                     // that wait for a slot
  std::map<JobId, uint64_t> memory_by_job;         // bytes of slot_memory_used_bytes, of those with open groups
  uint64_t reduce_ns_total = 0;                    // for which it was summing; ServerThread adds it
  std::array<uint64_t, kRefusalCount> refusals{};  // by number of Refusal
  std::vector<AbsentRank> absent_ranks;            // kMaxAbsentRanksListed at most
  std::vector<LateRankOfGroup> late_ranks;         // kMaxLateRanksOfServer at most, of each I/O thread

  uint64_t RefusalTotal() const;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_SERVER_COUNTERS_H_
