// A scheduler, servers and ranks in the test's own process, all through the C ABI.
#ifndef SHOAL_TESTS_UNIT_WORKER_LIBRARY_WORKER_CLUSTER_H_
#define SHOAL_TESTS_UNIT_WORKER_LIBRARY_WORKER_CLUSTER_H_

#include <gtest/gtest.h>

#include <barrier>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shoal/worker.h"

namespace shoal {

class Cluster {
 public:
  // Its ranks are all on one node, and most tests are about servers: they ask for those unless a test does not.
  explicit Cluster(int server_count, shoal_node_reduce node_reduce = SHOAL_NODE_REDUCE_OFF,
                   shoal_devices devices = SHOAL_DEVICES_NONE);
  ~Cluster();

  const std::string& scheduler() const { return scheduler_address_; }
  shoal_node_reduce node_reduce() const { return node_reduce_; }
  shoal_devices devices() const { return devices_; }
  // Of ranks that connect from now on.
  void CheckFinite() { check_finite_ = true; }
  bool checks_finite() const { return check_finite_; }
  // Likewise. A region of a size that no earlier worker of the process had is locked anew.
  void SetDeviceMemory(uint64_t bytes) { device_memory_bytes_ = bytes; }
  uint64_t device_memory_bytes() const { return device_memory_bytes_; }
  // "ip:port" of the server's only I/O thread.
  std::string server_address(size_t server) const { return shoal_service_address(servers_[server]); }
  void StopServer(size_t server);
  void StopScheduler();

 private:
  const shoal_node_reduce node_reduce_;
  const shoal_devices devices_;
  bool check_finite_ = false;
  uint64_t device_memory_bytes_ = 32 << 20;
  shoal_service* scheduler_ = nullptr;
  std::string scheduler_address_;
  std::vector<shoal_service*> servers_;
};

shoal_worker_options WorkerOptions(const Cluster& cluster, const char* job, uint32_t rank, uint32_t world_size);

// How a call or an op ended.
struct Outcome {
  shoal_code code = SHOAL_UNKNOWN;
  std::string message;
};

// One rank with a group of all ranks. Everything is released at the end.
class TestRank {
 public:
  // `meeting`: of RunRanks.
  TestRank(const Cluster& cluster, const std::string& job, uint32_t rank, uint32_t world_size,
           std::barrier<>* meeting = nullptr);
  ~TestRank();
  TestRank(const TestRank&) = delete;
  TestRank& operator=(const TestRank&) = delete;

  // To be called on all ranks at the same time.
  void OpenGroup();
  void Close();  // the worker, before the group
  // Another group. nullptr, and the test has failed: it could not be made.
  shoal_group* MakeGroup(const shoal_group_options& options);
  // Waits until all ranks of RunRanks have come here. (An all-reduce would not do: that one rank has its result does
  // not say that the others have it.)
  void AwaitAll() { meeting_->arrive_and_wait(); }

  // Starts an all-reduce of float32 sums; nullptr if it was refused, with why in `refusal`.
  shoal_op* Start(std::vector<float>* data, uint64_t timeout_ms, Outcome* refusal = nullptr) {
    return StartIn(group_, SHOAL_SUM, data, timeout_ms, refusal);
  }
  static shoal_op* StartIn(shoal_group* group, shoal_reduce_op reduce_op, std::vector<float>* data, uint64_t timeout_ms,
                           Outcome* refusal = nullptr);
  // Waits until the op's deadline at most and releases it.
  static Outcome Finish(shoal_op* op);
  Outcome AllReduce(std::vector<float>* data, uint64_t timeout_ms) { return Finish(Start(data, timeout_ms)); }

  uint32_t rank() const { return rank_; }
  shoal_worker* worker() const { return worker_; }
  shoal_group* group() const { return group_; }

 private:
  const uint32_t rank_;
  std::barrier<>* const meeting_;
  shoal_worker* worker_ = nullptr;
  shoal_group* group_ = nullptr;
};

// The tests of a file share a cluster.
template <int kServers, shoal_node_reduce kNodeReduce = SHOAL_NODE_REDUCE_OFF>
class ClusterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { cluster = new Cluster(kServers, kNodeReduce); }
  static void TearDownTestSuite() { delete std::exchange(cluster, nullptr); }

  static inline Cluster* cluster = nullptr;
};

// Runs `body` for ranks 0 .. world_size-1 of a new job, each on a thread of its own with its group open.
void RunRanks(const Cluster& cluster, const std::string& job, uint32_t world_size,
              const std::function<void(TestRank&)>& body);

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_WORKER_LIBRARY_WORKER_CLUSTER_H_
