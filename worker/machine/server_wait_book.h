// For how long this rank's ops waited for one reduction server more than for the others like it.
//
// A server is busy, as this rank sees it, while a chunk that went there has no result yet. Shares are planned so that
// all servers are busy alike while an op is under way. Where one is slow, the others are done earlier, or are kept
// waiting by the bound on how far chunks may run ahead (core/flow_plan.h): they are busy for less of the op. How much
// longer a server is busy than the median one is what an op would gain if it were like that one. Only servers of equal
// weight are compared: a smaller share is done earlier.
//
// It adds up between the ends of ops, so that ops of several groups at the same time count once, and leaves two chunks
// each out, because an op's chunks do not divide evenly. Ops of a few chunks for a server do not count, nor do those
// that were under way when the map changed.
//
// It counts in windows that are as long as kShortestWindowNs, and as kFewestOps ops, and shows the last whole one. The
// scheduler compares what the ranks of a job say (scheduler/machine/slow_servers.h, docs/adr/0022). Pure; one thread;
// no allocation for a chunk.
#ifndef SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_
#define SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "core/shard_map.h"

namespace shoal {

struct ServerWait {
  ServerId server;
  uint64_t waited_ns = 0;
  uint32_t late_ops = 0;  // in which it was waited for

  friend bool operator==(const ServerWait&, const ServerWait&) = default;
};

struct ServerWaitWindow {
  uint64_t number = 0;  // 1, 2, ...; 0: none is over yet
  uint64_t end_ns = 0;  // on the monotonic clock
  uint64_t length_ns = 0;
  uint32_t ops = 0;  // that could be compared
  // Those that were waited for the longest, the longest first, for kLeastShare of the window or more without the op
  // that waited the longest.
  std::vector<ServerWait> servers = {};
};

class ServerWaitBook {
 public:
  static constexpr uint64_t kShortestWindowNs = kNsPerS;
  static constexpr uint32_t kFewestOps = 5;
  static constexpr uint64_t kFewestChunks = 6;  // of an op, for a server that is compared
  static constexpr double kLeastShare = 0.02;
  static constexpr size_t kMostServersListed = 8;

  const ServerWaitWindow& last_window() const { return last_; }

 private:
  friend class GroupServerWaits;

  struct Server {
    ServerId id;          // 0: the place is free
    uint32_t users = 0;   // shards of groups' maps
    uint32_t weight = 0;  // of all its shards in the newest map
    uint32_t chunks_under_way = 0;
    uint64_t busy_since_ns = 0;
    uint64_t busy_ns = 0;    // in all, until busy_since_ns
    uint64_t marked_ns = 0;  // of that, at the end of the last op that counts
    uint64_t waited_ns = 0;  // in the window
    uint64_t longest_op_ns = 0;
    uint32_t late_ops = 0;
    uint64_t newest_op = 0;  // of ops_, that looked at it

    uint64_t BusyNs(uint64_t now_ns) const { return busy_ns + (chunks_under_way > 0 ? now_ns - busy_since_ns : 0); }
  };
  struct Part {
    uint32_t weight = 0;
    uint64_t busy_ns = 0;
    uint32_t place = 0;
  };

  // By shard of the map: the place of its server.
  std::vector<uint32_t> Join(const ShardMap& map);
  void Leave(const std::vector<uint32_t>& places, const std::vector<uint32_t>& chunks_under_way);
  void OnPushed(uint32_t place, uint64_t now_ns);
  void OnLanded(uint32_t place, uint64_t now_ns);
  // True: the op is large enough, and what follows is compared from its end on. `counts`: so was what came before it.
  bool OnOpDone(const std::vector<uint32_t>& places, uint32_t chunk_count, bool counts, uint64_t now_ns);

  uint32_t PlaceOf(ServerId id);
  // Servers of one weight, the one that was busy for the shortest time first.
  void Compare(const Part* begin, const Part* end, uint64_t chunks_of_each);
  void CloseWindowIfOver(uint64_t now_ns);

  std::vector<Server> servers_;
  std::vector<Part> parts_;  // scratch
  uint64_t now_ns_ = 0;      // of the last call
  uint64_t ops_ = 0;
  uint64_t window_start_ns_ = 0;  // 0: no op yet
  uint32_t window_ops_ = 0;
  ServerWaitWindow last_;
};

// What one group tells the book. The book outlives it.
class GroupServerWaits {
 public:
  GroupServerWaits(ServerWaitBook* book, const ShardMap& map);
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
  ServerWaitBook& book_;
  std::vector<uint32_t> places_;            // by shard; empty: it has ended
  std::vector<uint32_t> chunks_under_way_;  // by shard
  bool first_op_ = true;                    // that is large enough, of the map; it may have begun before
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_
