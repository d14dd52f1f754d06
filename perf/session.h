// This process's rank in the job, over the public C interface of the worker library.
//
// Thread: one. Ownership: a tensor passed to Start is the library's until its op was waited for or destroyed.
#ifndef SHOAL_PERF_SESSION_H_
#define SHOAL_PERF_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/colocation.h"
#include "core/dtype.h"
#include "core/node_reduce.h"
#include "core/wire_format.h"
#include "perf/rank_split.h"
#include "process/credential_files.h"
#include "shoal/worker.h"

namespace shoal {

// The code of a shoal_error is that of absl::StatusCode.
absl::Status StatusFromShoal(shoal_code code, const shoal_error& error);

struct SessionOptions {
  std::string scheduler;
  CredentialFiles credentials;
  std::string job;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  uint32_t min_servers = 1;
  uint32_t max_chunk_bytes = 0;  // 0: the cluster's default
  uint64_t timeout_ms = 0;
  std::string net_device;
  std::string flight_recorder = "auto";
  uint32_t local_rank = 0;
  uint32_t local_world_size = 0;
  std::string transports;
  bool network_only = false;
  bool checksums = false;
  RankSplit split;
  WireFormat wire = WireFormat::kAsIs;
  NodeReduceChoice node_reduce = NodeReduceChoice::kAuto;
  Colocation colocation = Colocation::kOff;
};

struct ServerTraffic {
  std::string name;
  std::string address;
  uint64_t bytes_pushed = 0;  // by this rank
  uint64_t bytes_pulled = 0;
  std::string transport;  // "tcp/eth0"; "": not connected
};

struct ClusterFacts {
  uint32_t server_count = 0;
  uint64_t map_epoch = 0;
  std::vector<ServerTraffic> shards;
};

class Session {
 public:
  // Waits first until the op has ended (at its deadline at the latest), because until then its tensor may be written.
  struct ReleaseOp {
    void operator()(shoal_op* op) const;
  };
  using Op = std::unique_ptr<shoal_op, ReleaseOp>;

  // Joins the job and opens this rank's group, and one of all ranks. Errors: see shoal_worker_connect and
  // shoal_group_create.
  static absl::StatusOr<std::unique_ptr<Session>> Join(const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Starts an all-reduce in place, among the ranks of this one's group. Errors: see shoal_all_reduce.
  absl::StatusOr<Op> Start(void* data, uint64_t element_count, DataType dtype, ReduceOp op);
  // Waits until the op has ended. Errors: how it ended.
  absl::Status Wait(const Op& op);
  absl::Status AllReduce(void* data, uint64_t element_count, DataType dtype, ReduceOp op);
  // The same among all ranks of the job.
  absl::Status AllReduceOverAll(void* data, uint64_t element_count, DataType dtype, ReduceOp op);

  // Says how an all-reduce of that size would be done. Errors: see shoal_group_plan.
  absl::StatusOr<shoal_plan> Plan(uint64_t element_count, DataType dtype) const;

  uint32_t group_rank() const { return shoal_group_rank(group_); }
  uint32_t group_size() const { return shoal_group_size(group_); }
  ClusterFacts Facts() const;

 private:
  Session() = default;

  absl::Status AllReduceIn(shoal_group* group, void* data, uint64_t element_count, DataType dtype, ReduceOp op);

  shoal_worker* worker_ = nullptr;
  shoal_group* group_ = nullptr;
  shoal_group* all_ranks_ = nullptr;  // none if the group has them all
};

}  // namespace shoal

#endif  // SHOAL_PERF_SESSION_H_
