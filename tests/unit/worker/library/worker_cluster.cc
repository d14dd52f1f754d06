#include "tests/unit/worker/library/worker_cluster.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

namespace shoal {

Cluster::Cluster(int server_count, shoal_node_reduce node_reduce, shoal_devices devices)
    : node_reduce_(node_reduce), devices_(devices) {
  shoal_error error = {};
  shoal_scheduler_options scheduler_options = {.listen = "127.0.0.1:0"};
  EXPECT_EQ(shoal_start_scheduler(&scheduler_options, &scheduler_, &error), SHOAL_OK) << error.message;
  scheduler_address_ = shoal_service_address(scheduler_);
  for (int i = 0; i < server_count; ++i) {
    shoal_server_options options = {
        .scheduler = scheduler_address_.c_str(), .advertise = "127.0.0.1", .flight_recorder = "off"};
    shoal_service* server = nullptr;
    EXPECT_EQ(shoal_start_server(&options, &server, &error), SHOAL_OK) << error.message;
    servers_.push_back(server);
  }
}

Cluster::~Cluster() {
  for (shoal_service* server : servers_) shoal_service_stop(server);
  StopScheduler();
}

void Cluster::StopScheduler() { shoal_service_stop(std::exchange(scheduler_, nullptr)); }

void Cluster::StopServer(size_t server) { shoal_service_stop(std::exchange(servers_[server], nullptr)); }

shoal_worker_options WorkerOptions(const Cluster& cluster, const char* job, uint32_t rank, uint32_t world_size) {
  shoal_worker_options options = {.scheduler = cluster.scheduler().c_str(), .job_name = job};
  options.flight_recorder = "off";  // groups fail on purpose
  options.rank = rank;
  options.world_size = world_size;
  options.node_reduce = cluster.node_reduce();
  options.devices = cluster.devices();
  options.device_memory_bytes = cluster.device_memory_bytes();
  options.check_finite = cluster.checks_finite() ? 1 : 0;
  return options;
}

TestRank::TestRank(const Cluster& cluster, const std::string& job, uint32_t rank, uint32_t world_size,
                   std::barrier<>* meeting)
    : rank_(rank), meeting_(meeting) {
  const std::string node = "node-" + std::to_string(rank);
  shoal_worker_options options = WorkerOptions(cluster, job.c_str(), rank, world_size);
  options.node_name = node.c_str();
  options.min_servers = 2;
  shoal_error error = {};
  EXPECT_EQ(shoal_worker_connect(&options, &worker_, &error), SHOAL_OK) << error.message;
}

TestRank::~TestRank() {
  shoal_group_close(group_);
  shoal_worker_close(worker_);
}

void TestRank::OpenGroup() { group_ = MakeGroup({.name = "all"}); }

shoal_group* TestRank::MakeGroup(const shoal_group_options& options) {
  shoal_group* group = nullptr;
  shoal_error error = {};
  EXPECT_EQ(shoal_group_create(worker_, &options, &group, &error), SHOAL_OK) << error.message;
  return group;
}

void TestRank::Close() { shoal_worker_close(std::exchange(worker_, nullptr)); }

shoal_op* TestRank::StartIn(shoal_group* group, shoal_reduce_op reduce_op, std::vector<float>* data,
                            uint64_t timeout_ms, Outcome* refusal) {
  const shoal_all_reduce_options options = {.dtype = SHOAL_FLOAT32, .op = reduce_op, .timeout_ms = timeout_ms};
  shoal_op* op = nullptr;
  shoal_error error = {};
  const shoal_code code = shoal_all_reduce(group, data->data(), data->size(), &options, &op, &error);
  if (refusal != nullptr) {
    *refusal = {code, code == SHOAL_OK ? "" : error.message};
  } else {
    EXPECT_EQ(code, SHOAL_OK) << error.message;
  }
  return op;
}

Outcome TestRank::Finish(shoal_op* op) {
  shoal_error error = {};
  const shoal_code code = shoal_op_wait(op, UINT64_MAX, &error);
  EXPECT_EQ(error.code, code);
  EXPECT_EQ(shoal_op_done(op), 1);
  shoal_op_release(op);
  return {code, error.message};
}

void RunRanks(const Cluster& cluster, const std::string& job, uint32_t world_size,
              const std::function<void(TestRank&)>& body) {
  std::vector<std::thread> threads;
  std::barrier<> meeting(world_size);
  for (uint32_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      TestRank test_rank(cluster, job, rank, world_size, &meeting);
      test_rank.OpenGroup();
      test_rank.AwaitAll();  // so that a test knows who hears of a failure
      if (test_rank.group() != nullptr) body(test_rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace shoal
