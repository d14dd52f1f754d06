// For how long this rank's ops waited for one reduction server more than for the others like it.
//
// A server is busy, as this rank sees it, while a chunk of the group that went there has no result yet. Shares are
// planned so that all servers are busy alike while ops are under way. Where one is slow, the others are done earlier,
// or are kept waiting by the bound on how far chunks may run ahead (core/flow_plan.h): they are busy for less of the
// time. How much longer a server is busy than the median one is what ops would gain if it were like that one. Only
// servers of equal weight in the group's map are compared: a smaller share is done earlier.
//
// It is added up over bursts. A burst ends with an op after which nothing of the group is under way: while ops are
// queued, fast servers run on into the next ones, and the difference shows at the end. Where that never comes, nothing
// is said: one server is always behind then, also where the rank's own link is what all wait for. Two chunks of each
// burst are left out, because chunks do not divide evenly; bursts of a few chunks for a server do not count, nor does
// the first one of a map, some of whose chunks went to other servers before.
//
// Servers are compared over stretches of bursts of kShortestStretchNs, with the pauses between them; where a job pauses
// for longer, each burst is one. A server that gets processor time in turns with others, as under a CPU limit, makes
// only those bursts late that meet a turn in which it gets none. Where bursts are shorter than its turns those are few,
// however long they take. What chance makes late in one burst and early in another cancels out.
//
// It counts in windows that are as long as kShortestWindowNs, and as kFewestStretches stretches, and shows the last
// whole one. The scheduler compares what the ranks of the group say (scheduler/insight/slow_servers.h, docs/adr/0022).
// Pure; one thread; no allocation for a chunk.
#ifndef SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_
#define SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "core/server_wait.h"
#include "core/shard_map.h"

namespace shoal {

struct ServerWaitWindow {
  GroupId group;
  Epoch epoch;
  uint64_t number = 0;     // 1, 2, ... of the group's epoch; 0: none is over yet
  uint64_t end_ns = 0;     // on the monotonic clock
  uint64_t length_ns = 0;  // without the longest time in which nothing was under way, as for a checkpoint
  uint32_t bursts = 0;     // stretches of those that could be compared
  // Those that were waited for the longest, the longest first, for kLeastShare of the window or more without the
  // stretch that waited the longest.
  std::vector<ServerWait> servers = {};
};

// The last windows of all groups of a worker.
class ServerWaitBook {
 public:
  void Put(const ServerWaitWindow& window) { windows_[window.group] = window; }
  void Drop(GroupId group) { windows_.erase(group); }
  // The newest ones first, kMostServerWaitWindows at most.
  std::vector<ServerWaitWindow> Newest() const;

 private:
  std::map<GroupId, ServerWaitWindow> windows_;
};

// Of one group. The book outlives it.
class GroupServerWaits {
 public:
  static constexpr uint64_t kShortestWindowNs = kNsPerS;
  static constexpr uint32_t kFewestStretches = 5;
  // Two periods of the kernel's CPU limits.
  static constexpr uint64_t kShortestStretchNs = kShortestWindowNs / kFewestStretches;
  static constexpr uint64_t kFewestChunks = 6;  // of a burst, for a server that is compared
  static constexpr double kLeastShare = 0.02;

  GroupServerWaits(ServerWaitBook* book, GroupId group, const ShardMap& map);
  ~GroupServerWaits() { End(); }
  GroupServerWaits(const GroupServerWaits&) = delete;
  GroupServerWaits& operator=(const GroupServerWaits&) = delete;

  // Another map deals the chunks from now on.
  void MoveTo(const ShardMap& map);
  // Nothing is waited for any more.
  void End();
  // A chunk goes to a shard of the map; its result is in the tensor.
  void OnPushed(uint32_t shard, Now now);
  void OnLanded(uint32_t shard, Now now);
  // An op of so many chunks has its results.
  void OnOpDone(uint32_t chunk_count, Now now);

 private:
  struct Server {
    ServerId id;
    uint64_t weight = 0;  // of all its shards
    uint32_t chunks_under_way = 0;
    uint64_t busy_since_ns = 0;
    uint64_t busy_ns = 0;           // in the burst, until busy_since_ns
    uint64_t stretch_busy_ns = 0;   // in the stretch's bursts that can be compared
    uint64_t stretch_spare_ns = 0;  // two chunks of each of them
    uint64_t waited_ns = 0;         // in the window
    uint64_t longest_stretch_ns = 0;
    uint32_t late_stretches = 0;
  };
  using ServerTime = uint64_t Server::*;

  void EndBurst(uint64_t now_ns);
  void EndStretch();
  // The servers of each weight, as a range of `by_time_`, the one with the shortest time first.
  template <typename Visitor>
  void ForEachWeight(ServerTime time, const Visitor& visit);
  // Servers of one weight. False: they can't be compared in this burst.
  bool AddToStretch(std::span<Server* const> alike);
  void CloseWindowIfOver(uint64_t now_ns);
  void BeginWindow(uint64_t now_ns);

  ServerWaitBook& book_;
  std::vector<Server> servers_;      // of the map; empty: it has ended
  std::vector<uint32_t> server_of_;  // by shard: an index of `servers_`
  std::vector<Server*> by_time_;     // scratch
  uint64_t weights_ = 0;             // of all servers
  uint64_t chunks_under_way_ = 0;
  uint64_t chunks_of_burst_ = 0;   // of ops that are done
  bool first_burst_ = true;        // of the map
  uint64_t idle_since_ns_ = 0;     // if nothing is under way; 0: nothing ever was
  uint64_t longest_pause_ns_ = 0;  // in the window
  uint64_t window_start_ns_ = 0;   // the end of the first burst, or of the last window
  uint64_t stretch_start_ns_ = 0;  // the same, or the end of the last stretch
  uint32_t window_stretches_ = 0;
  ServerWaitWindow last_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_
