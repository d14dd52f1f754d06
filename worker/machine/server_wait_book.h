// For how long this rank's ops waited for one reduction server after they had what the other servers reduce of them.
//
// Shards are dealt so that all servers are done with an op at the same time. A server that is done later than the
// median one kept the op waiting from there on; two chunks more or less are not counted, because an op's chunks do not
// divide evenly. Waits of several ops for a server that overlap count once. Ops of a few chunks for a server are left
// out, and so are those that another map dealt anew in between.
//
// It counts in windows that are as long as kShortestWindowNs, and as kFewestOps ops, and shows the last whole one. The
// scheduler compares what the ranks of a job say (scheduler/machine/slow_servers.h, docs/adr/0022). Pure; one thread.
#ifndef SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_
#define SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "core/shard_map.h"

namespace shoal {

// When the results of an op landed.
struct OpLandings {
  uint64_t first_ns = 0;               // on the monotonic clock; 0: none has
  std::vector<uint64_t> last_ns = {};  // by shard of the map; 0: it has no chunk of the op
};

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
  static constexpr uint32_t kFewestChunks = 6;  // of an op, for each shard in the mean
  static constexpr double kLeastShare = 0.02;
  static constexpr size_t kMostServersListed = 8;

  // An op of `chunk_count` chunks, all of which the map dealt, has its results.
  void OnOpDone(const ShardMap& map, uint32_t chunk_count, const OpLandings& landings);

  const ServerWaitWindow& last_window() const { return last_; }

 private:
  struct State {
    ServerWait window;
    uint64_t longest_op_ns = 0;    // in the window, for one op
    uint64_t waited_until_ns = 0;  // what is counted already

    uint64_t WithoutLongestOpNs() const { return window.waited_ns - longest_op_ns; }
  };
  struct End {
    ServerId server;
    uint64_t at_ns = 0;
  };

  // Into `ends_`: when each server of the map was done with its part.
  void FindEnds(const ShardMap& map, const OpLandings& landings);
  State& StateOf(ServerId server);
  void CloseWindowIfOver(uint64_t now_ns);

  std::vector<State> servers_;  // of the window's ops and the one before
  std::vector<End> ends_;       // scratch
  uint64_t window_start_ns_ = 0;
  uint32_t window_ops_ = 0;
  ServerWaitWindow last_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_SERVER_WAIT_BOOK_H_
