#include "perf/session.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "perf/test_data.h"

namespace shoal {

absl::Status StatusFromShoal(shoal_code code, const shoal_error& error) {
  if (code == SHOAL_OK) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), absl::string_view(error.message));
}

namespace {

absl::StatusOr<shoal_op*> StartIn(shoal_group* group, void* data, uint64_t element_count, DataType dtype, ReduceOp op) {
  shoal_all_reduce_options options{};
  options.dtype = static_cast<shoal_dtype>(dtype);
  options.op = static_cast<shoal_reduce_op>(op);
  options.premul_factor = op == ReduceOp::kPremulSum ? kPerfPremulFactor : 1.0;
  shoal_error error{};
  shoal_op* started = nullptr;
  const shoal_code code = shoal_all_reduce(group, data, element_count, &options, &started, &error);
  if (code != SHOAL_OK) return StatusFromShoal(code, error);
  return started;
}

}  // namespace

void Session::ReleaseOp::operator()(shoal_op* op) const {
  if (!shoal_op_done(op)) shoal_op_wait(op, UINT64_MAX, nullptr);
  shoal_op_release(op);
}

absl::StatusOr<std::unique_ptr<Session>> Session::Join(const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session);
  shoal_error error{};
  shoal_worker_options worker_options{};
  worker_options.scheduler = options.scheduler.c_str();
  worker_options.tls_cert = options.credentials.certificate.c_str();
  worker_options.tls_key = options.credentials.key.c_str();
  worker_options.tls_ca = options.credentials.authorities.c_str();
  worker_options.job_name = options.job.c_str();
  worker_options.rank = options.rank;
  worker_options.world_size = options.world_size;
  worker_options.min_servers = options.min_servers;
  worker_options.timeout_ms = options.timeout_ms;
  worker_options.net_device = options.net_device.empty() ? nullptr : options.net_device.c_str();
  worker_options.flight_recorder = options.flight_recorder.c_str();
  worker_options.local_rank = options.local_rank;
  worker_options.local_world_size = options.local_world_size;
  worker_options.transports = options.transports.empty() ? nullptr : options.transports.c_str();
  worker_options.network_only = options.network_only ? 1 : 0;
  worker_options.colocation = static_cast<shoal_colocation>(options.colocation);
  worker_options.checksums = options.checksums ? 1 : 0;
  worker_options.node_reduce = static_cast<shoal_node_reduce>(options.node_reduce);
  shoal_code code = shoal_worker_connect(&worker_options, &session->worker_, &error);
  if (code != SHOAL_OK) return StatusFromShoal(code, error);

  shoal_group_options group_options{};
  group_options.max_chunk_bytes = options.max_chunk_bytes;
  group_options.timeout_ms = options.timeout_ms;
  group_options.wire = static_cast<shoal_wire>(options.wire);
  group_options.name = "shoal-perf";
  shoal_group** const of_all = options.split.splits() ? &session->all_ranks_ : &session->group_;
  code = shoal_group_create(session->worker_, &group_options, of_all, &error);
  if (code != SHOAL_OK) return StatusFromShoal(code, error);
  if (!options.split.splits()) return session;
  const std::string name = absl::StrCat("shoal-perf-", options.split.GroupOf(options.rank));
  const std::vector<uint32_t> ranks = options.split.RanksWith(options.rank, options.world_size);
  group_options.name = name.c_str();
  group_options.ranks = ranks.data();
  group_options.rank_count = static_cast<uint32_t>(ranks.size());
  code = shoal_group_create(session->worker_, &group_options, &session->group_, &error);
  if (code != SHOAL_OK) return StatusFromShoal(code, error);
  return session;
}

Session::~Session() {
  shoal_group_close(group_);
  shoal_group_close(all_ranks_);
  shoal_worker_close(worker_);
}

absl::StatusOr<Session::Op> Session::Start(void* data, uint64_t element_count, DataType dtype, ReduceOp op) {
  const absl::StatusOr<shoal_op*> started = StartIn(group_, data, element_count, dtype, op);
  if (!started.ok()) return started.status();
  return Op(*started);
}

absl::Status Session::Wait(const Op& op) {
  shoal_error error{};
  const shoal_code code = shoal_op_wait(op.get(), UINT64_MAX, &error);
  return StatusFromShoal(code, error);
}

absl::Status Session::AllReduce(void* data, uint64_t element_count, DataType dtype, ReduceOp op) {
  return AllReduceIn(group_, data, element_count, dtype, op);
}

absl::Status Session::AllReduceOverAll(void* data, uint64_t element_count, DataType dtype, ReduceOp op) {
  return AllReduceIn(all_ranks_ == nullptr ? group_ : all_ranks_, data, element_count, dtype, op);
}

absl::Status Session::AllReduceIn(shoal_group* group, void* data, uint64_t element_count, DataType dtype, ReduceOp op) {
  const absl::StatusOr<shoal_op*> started = StartIn(group, data, element_count, dtype, op);
  if (!started.ok()) return started.status();
  return Wait(Op(*started));
}

absl::StatusOr<shoal_plan> Session::Plan(uint64_t element_count, DataType dtype) const {
  shoal_plan plan{};
  shoal_error error{};
  const shoal_code code = shoal_group_plan(group_, element_count, static_cast<shoal_dtype>(dtype), &plan, &error);
  if (code != SHOAL_OK) return StatusFromShoal(code, error);
  return plan;
}

ClusterFacts Session::Facts() const {
  ClusterFacts facts;
  shoal_statistics statistics{};
  if (shoal_worker_statistics(worker_, &statistics) == SHOAL_OK) {
    facts.server_count = statistics.server_count;
    facts.map_epoch = statistics.map_epoch;
  }
  std::vector<shoal_server_statistics> shards(shoal_worker_server_statistics(worker_, nullptr, 0));
  const uint32_t known = shoal_worker_server_statistics(worker_, shards.data(), static_cast<uint32_t>(shards.size()));
  if (known < shards.size()) shards.resize(known);
  for (const shoal_server_statistics& shard : shards) {
    facts.shards.push_back({shard.name, shard.address, shard.bytes_pushed, shard.bytes_pulled, shard.transport});
  }
  return facts;
}

}  // namespace shoal
