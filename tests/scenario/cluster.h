// Real server and worker loops on the loopback network, in one thread, under time that the test moves.
//
// Not thread safe. Which loop runs next is drawn from a seeded generator, so that messages arrive in many orders; or
// they run in turn, servers first, so that every run is the same.
#ifndef SHOAL_TESTS_SCENARIO_CLUSTER_H_
#define SHOAL_TESTS_SCENARIO_CLUSTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "net/loopback/loopback_transport.h"
#include "server/loop/inline_reducer.h"
#include "server/loop/server_loop.h"
#include "worker/local_reduce/local_reduce.h"
#include "worker/loop/worker_loop.h"

namespace shoal {

struct ClusterOptions {
  uint32_t workers = 2;
  uint32_t servers = 1;
  uint32_t max_chunk_bytes = 1024;
  WireFormat wire = WireFormat::kAsIs;
  std::vector<uint32_t> weights;  // of the servers; empty: equal
  uint32_t look_ahead_chunks = 0;
  uint32_t credit_chunks = 0;  // 0: as the servers like
  uint32_t min_ranks = 0;      // GroupInfo's, as is the next one
  bool scales_sums = false;
  uint64_t slot_memory_bytes = 48 << 20;
  std::optional<uint64_t> slot_memory_of_last_server_bytes;  // nullopt: as the others
  // So many workers in a row are on one node, and groups have rails; 0: each worker is on a node of its own. Every
  // worker has one of these then.
  uint32_t workers_per_node = 0;
  std::function<std::unique_ptr<LocalReduce>()> make_local_reduce;
  uint64_t seed = 1;
  bool in_turn = false;  // instead of drawn
  // Wraps every transport, if set: those of the servers first, then the workers'.
  std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)> wrap;
  EventSink server_log;  // of all servers, if set
  // Called each time that a loop has run, if set.
  std::function<void()> after_each_turn;
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options);

  // Opens group `id` of these workers (all, if empty) under handle `handle` everywhere. It is open after Run. With
  // rails, members of all nodes have the same places there.
  void OpenGroup(uint64_t id, uint16_t handle, std::vector<uint32_t> members = {});
  // A map of the servers that are alive and have not left, of the next epoch, as the scheduler would make it. Epochs
  // count from 2.
  std::shared_ptr<const ShardMap> NextMap();
  // Gives the workers the next map; a group that goes on without lost ranks, that has all, goes on without those that
  // were killed, and with rails without their nodes.
  void MoveGroup(uint64_t id);
  // The same, but without that worker.
  void MoveGroupWithout(uint64_t id, uint32_t worker);
  void Submit(uint32_t worker, uint16_t handle, uint64_t ticket, std::span<std::byte> data, DataType dtype, ReduceOp op,
              double premul_factor = 1.0, uint64_t timeout_ns = kNoDeadline);
  void Command(uint32_t worker, WorkerCommand command);

  // Runs loops until `done` or until nothing happens any more; true if done. Does not move time.
  bool RunUntil(const std::function<bool()>& done);
  void RunUntilQuiet() {
    RunUntil([] { return false; });
  }
  // Moves time to the next thing that is due, and runs.
  void AdvanceBy(uint64_t ns);

  // The process ends: every connection of it is closed.
  void KillServer(uint32_t server);
  void KillWorker(uint32_t worker);
  void DrainServer(uint32_t server) { servers_[server].loop->SetDraining(true); }
  // The server is in no map from now on, as if it had left the cluster.
  void TakeOutOfMaps(uint32_t server) { servers_[server].has_left = true; }
  void PutIntoMaps(uint32_t server) { servers_[server].has_left = false; }

  // The outcome of an op or group; nullptr while there is none.
  const OpDone* Done(uint32_t worker, uint64_t ticket) const;
  const GroupOpened* Opened(uint32_t worker, uint16_t handle) const;
  bool Closed(uint32_t worker, uint16_t handle) const;
  bool ShutDown(uint32_t worker) const;
  // All workers have the outcome of these tickets.
  bool AllDone(uint64_t first_ticket, uint64_t last_ticket) const;

  ServerCounters server_counters(uint32_t server) const { return servers_[server].loop->counters(); }
  WorkerCounters worker_counters(uint32_t worker) const { return workers_[worker].loop->counters(); }
  std::string server_address(uint32_t server) const { return servers_[server].address; }
  uint32_t worker_count() const { return static_cast<uint32_t>(workers_.size()); }
  uint32_t server_count() const { return static_cast<uint32_t>(servers_.size()); }
  // All that a worker has told its callers so far, oldest first.
  const WorkerOutcomes& outcomes(uint32_t worker) const { return workers_[worker].outcomes; }
  uint64_t now_ns() const { return now_.monotonic_ns; }

 private:
  struct Server {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<InlineReducer> reducer;
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<ServerLoop> loop;  // null: killed
    std::string address;
    bool has_left = false;
  };
  struct Worker {
    std::unique_ptr<LocalReduce> local_reduce;  // null: killed, or there are no rails
    std::unique_ptr<WorkerLoop> loop;           // null: killed
    std::unique_ptr<Transport> transport;       // goes before the loop, whose memory it may be using
    std::vector<WorkerCommand> commands;
    std::map<uint16_t, std::shared_ptr<const GroupInfo>> groups;  // by handle
    WorkerOutcomes outcomes;
  };

  std::unique_ptr<Transport> MakeTransport(bool listen);
  uint32_t rails() const { return std::max(1u, options_.workers_per_node); }
  // What servers and the scheduler know the group by: each rail is one.
  GroupId IdOf(uint64_t group, uint32_t rail) const { return GroupId(group * rails() + rail); }
  std::shared_ptr<GroupInfo> MakeInfo(uint64_t id, const std::vector<uint32_t>& members, uint32_t rank) const;
  bool RunOne(size_t index);
  bool AnyCanGoOn();
  bool RunInTurnUntil(const std::function<bool()>& done);
  std::shared_ptr<const ShardMap> Map(Epoch epoch) const;  // of the servers that are alive
  void MoveGroup(uint64_t id, std::vector<Rank> lost);

  ClusterOptions options_;
  std::mt19937_64 random_;
  LoopbackNetwork network_;
  TokenKey key_{};
  uint64_t meeting_ = 0;  // no other cluster's of this process
  uint64_t epoch_ = 1;
  Now now_{.monotonic_ns = kNsPerS, .unix_ms = 1'800'000'000'000};
  std::vector<Server> servers_;
  std::vector<Worker> workers_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SCENARIO_CLUSTER_H_
