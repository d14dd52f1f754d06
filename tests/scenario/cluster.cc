#include "tests/scenario/cluster.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/roster.h"
#include "core/token.h"

namespace shoal {
namespace {

// Whether a worker's loop has something to do before anything else happens.
bool CanGoOn(LocalReduce* local_reduce) {
  if (local_reduce == nullptr) return false;
  if (!local_reduce->Arm()) return true;
  pollfd readable = {.fd = local_reduce->wake_fd(), .events = POLLIN, .revents = 0};
  return poll(&readable, 1, 0) > 0;
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options) : options_(options), random_(options.seed) {
  static std::atomic<uint64_t> clusters = 0;
  meeting_ = ++clusters;
  key_.fill(std::byte{8});
  servers_.resize(options.servers);
  for (uint32_t k = 0; k < options.servers; ++k) {
    Server& server = servers_[k];
    server.transport = MakeTransport(true);
    server.address = server.transport->listen_address();
    server.reducer = std::make_unique<InlineReducer>();
    const bool is_last = k + 1 == options.servers;
    const uint64_t memory_bytes = is_last ? options.slot_memory_of_last_server_bytes.value_or(options.slot_memory_bytes)
                                          : options.slot_memory_bytes;
    server.memory = std::make_unique_for_overwrite<std::byte[]>(memory_bytes);
    ServerMachineOptions machine;
    machine.server_name = absl::StrCat("server-", k);
    machine.incarnation = Incarnation(k + 1);
    machine.token_key = key_;
    machine.slot_memory_bytes = memory_bytes;
    server.loop = std::make_unique<ServerLoop>(machine, server.transport.get(), server.reducer.get(),
                                               std::span(server.memory.get(), memory_bytes), options.server_log);
  }
  workers_.resize(options.workers);
  for (Worker& worker : workers_) {
    worker.transport = MakeTransport(false);
    if (options.workers_per_node > 0) worker.local_reduce = options.make_local_reduce();
    worker.loop =
        std::make_unique<WorkerLoop>(WorkerMachineOptions(), worker.transport.get(), worker.local_reduce.get());
  }
}

std::unique_ptr<Transport> Cluster::MakeTransport(bool listen) {
  LoopbackOptions loopback;
  loopback.listen = listen;
  std::unique_ptr<Transport> transport = network_.MakeTransport(loopback).value();
  return options_.wrap ? options_.wrap(std::move(transport)) : std::move(transport);
}

std::shared_ptr<const ShardMap> Cluster::Map(Epoch epoch) const {
  std::vector<Shard> shards;
  for (uint32_t k = 0; k < servers_.size(); ++k) {
    if (servers_[k].loop == nullptr || servers_[k].has_left) continue;
    shards.push_back({.server = ServerId(k + 1),
                      .incarnation = Incarnation(k + 1),
                      .server_name = absl::StrCat("server-", k),
                      .address = servers_[k].address,
                      .weight = options_.weights.empty() ? 1 : options_.weights[k]});
  }
  return std::make_shared<const ShardMap>(*ShardMap::Make(epoch, std::move(shards)));
}

std::shared_ptr<const ShardMap> Cluster::NextMap() { return Map(Epoch(++epoch_)); }

void Cluster::MoveGroup(uint64_t id) {
  std::vector<Rank> lost;
  for (uint32_t w = 0; options_.min_ranks > 0 && w < workers_.size(); ++w) {
    const Rank place(w / rails());
    if (workers_[w].loop == nullptr && (lost.empty() || lost.back() != place)) lost.push_back(place);
  }
  MoveGroup(id, std::move(lost));
}

void Cluster::MoveGroupWithout(uint64_t id, uint32_t worker) { MoveGroup(id, {Rank(worker)}); }

void Cluster::MoveGroup(uint64_t id, std::vector<Rank> lost) {
  const std::shared_ptr<const ShardMap> map = NextMap();
  const Roster roster(static_cast<uint32_t>(workers_.size()) / rails(), std::move(lost));
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    const GroupId rail = IdOf(id, w % rails());
    Command(w,
            MoveGroupCommand{.group = rail, .map = map, .sealed_roster = SealRoster(key_, rail, map->epoch(), roster)});
  }
}

void Cluster::OpenGroup(uint64_t id, uint16_t handle, std::vector<uint32_t> members) {
  if (members.empty()) {
    members.resize(workers_.size());
    std::iota(members.begin(), members.end(), 0);
  }
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    const std::shared_ptr<const GroupInfo> info = MakeInfo(id, members, rank);
    workers_[members[rank]].groups[handle] = info;
    Command(members[rank], OpenGroupCommand{GroupHandle(handle), info, now_.monotonic_ns + 30 * kNsPerS});
  }
}

std::shared_ptr<GroupInfo> Cluster::MakeInfo(uint64_t id, const std::vector<uint32_t>& members, uint32_t rank) const {
  const uint32_t node = rank / rails();
  GroupToken token;
  token.job = JobId(1);
  token.group = IdOf(id, rank % rails());
  token.epoch = Epoch(epoch_);
  token.incarnation = Incarnation(100 + members[rank]);
  token.rank = Rank(node);
  token.group_size = static_cast<uint32_t>(members.size()) / rails();
  token.ranks_per_contribution = rails();
  token.max_chunk_bytes = options_.max_chunk_bytes;
  token.credit_chunks = options_.credit_chunks;
  token.expires_at_unix_s = now_.unix_ms / 1000 + 60;
  SignToken(key_, &token);
  const auto bytes = EncodeToken(token);
  auto info = std::make_shared<GroupInfo>();
  info->id = token.group;
  info->whole_group = IdOf(id, 0);
  info->name = absl::StrCat("group-", id);
  info->rank = Rank(rank);
  info->job_ranks = std::vector<JobRank>(members.begin(), members.end());
  for (const uint32_t member : members) info->nodes.push_back(absl::StrCat("node-", member / rails()));
  info->max_chunk_bytes = token.max_chunk_bytes;
  info->look_ahead_chunks = options_.look_ahead_chunks;
  info->wire = options_.wire;
  info->min_ranks = options_.min_ranks;
  info->scales_sums = options_.scales_sums;
  info->token.assign(bytes.begin(), bytes.end());
  info->map = Map(token.epoch);
  if (options_.workers_per_node == 0) return info;
  info->node_reduce = NodeReduceMode::kRails;
  auto rail = std::make_shared<GroupInfo>(*info);
  rail->rank = token.rank;
  rail->min_ranks = MinNodes(info->min_ranks, rails());
  rail->job_ranks.clear();
  rail->nodes.clear();
  for (uint32_t in_rail = rank % rails(); in_rail < members.size(); in_rail += rails()) {
    rail->job_ranks.push_back(info->job_ranks[in_rail]);
    rail->nodes.push_back(info->nodes[in_rail]);
  }
  info->meeting_name = absl::StrCat("scenario/", getpid(), "/", meeting_, "/", id, "/", node);
  for (uint32_t local = 0; local < rails(); ++local) info->local_ranks.emplace_back(node * rails() + local);
  info->rail = std::move(rail);
  return info;
}

void Cluster::Submit(uint32_t worker, uint16_t handle, uint64_t ticket, std::span<std::byte> data, DataType dtype,
                     ReduceOp op, double premul_factor, uint64_t timeout_ns) {
  Command(worker,
          SubmitCommand{
              .group = GroupHandle(handle),
              .ticket = ticket,
              .data = data.data(),
              .layout =
                  OpLayout::Make(*workers_[worker].groups.at(handle), data.size() / DataTypeSize(dtype), dtype).value(),
              .reduce_op = op,
              .premul_factor = premul_factor,
              .submitted_ns = now_.monotonic_ns,
              .deadline_ns = timeout_ns == kNoDeadline ? kNoDeadline : now_.monotonic_ns + timeout_ns});
}

void Cluster::Command(uint32_t worker, WorkerCommand command) {
  workers_[worker].commands.push_back(std::move(command));
}

bool Cluster::RunOne(size_t index) {
  bool progress = false;
  if (index < servers_.size()) {
    progress = servers_[index].loop != nullptr && servers_[index].loop->RunOnce(now_);
  } else if (Worker& worker = workers_[index - servers_.size()]; worker.loop != nullptr) {
    progress = worker.loop->RunOnce(now_, worker.commands, &worker.outcomes);
    worker.commands.clear();
    progress = CanGoOn(worker.local_reduce.get()) || progress;
  }
  if (options_.after_each_turn) options_.after_each_turn();
  return progress;
}

// A rank that moves pieces within its node tells its peers alone, one of which may have had its turn before.
bool Cluster::AnyCanGoOn() {
  return std::ranges::any_of(workers_, [](const Worker& worker) { return CanGoOn(worker.local_reduce.get()); });
}

bool Cluster::RunInTurnUntil(const std::function<bool()>& done) {
  const size_t loops = servers_.size() + workers_.size();
  size_t quiet_in_a_row = 0;
  for (size_t i = 0; quiet_in_a_row < loops; i = (i + 1) % loops) {
    if (done()) return true;
    quiet_in_a_row = RunOne(i) ? 0 : quiet_in_a_row + 1;
    if (quiet_in_a_row == loops && AnyCanGoOn()) quiet_in_a_row = 0;
  }
  return done();
}

bool Cluster::RunUntil(const std::function<bool()>& done) {
  if (options_.in_turn) return RunInTurnUntil(done);
  const size_t loops = servers_.size() + workers_.size();
  while (!done()) {
    bool progress = false;
    for (size_t i = 0; i < 2 * loops; ++i) progress = RunOne(random_() % loops) || progress;
    // Quiet is only what every loop says.
    for (size_t i = 0; !progress && i < loops; ++i) progress = RunOne(i);
    if (!progress && !AnyCanGoOn()) return done();
  }
  return true;
}

void Cluster::AdvanceBy(uint64_t ns) {
  RunUntilQuiet();
  const uint64_t end_ns = now_.monotonic_ns + ns;
  while (now_.monotonic_ns < end_ns) {
    uint64_t next_ns = end_ns;
    for (const Server& server : servers_) {
      if (server.loop != nullptr) next_ns = std::min(next_ns, server.loop->NextDeadlineNs());
    }
    for (const Worker& worker : workers_) {
      if (worker.loop != nullptr) next_ns = std::min(next_ns, worker.loop->NextDeadlineNs());
    }
    now_.monotonic_ns = std::max(now_.monotonic_ns + 1, next_ns);
    RunUntilQuiet();
  }
}

void Cluster::KillServer(uint32_t server) {
  servers_[server].loop.reset();
  servers_[server].transport.reset();
}

void Cluster::KillWorker(uint32_t worker) {
  workers_[worker].transport.reset();
  workers_[worker].loop.reset();
  workers_[worker].local_reduce.reset();
}

const OpDone* Cluster::Done(uint32_t worker, uint64_t ticket) const {
  for (const WorkerOutcome& outcome : workers_[worker].outcomes) {
    const auto* done = std::get_if<OpDone>(&outcome);
    if (done != nullptr && done->ticket == ticket) return done;
  }
  return nullptr;
}

const GroupOpened* Cluster::Opened(uint32_t worker, uint16_t handle) const {
  for (const WorkerOutcome& outcome : workers_[worker].outcomes) {
    const auto* opened = std::get_if<GroupOpened>(&outcome);
    if (opened != nullptr && opened->group == GroupHandle(handle)) return opened;
  }
  return nullptr;
}

bool Cluster::Closed(uint32_t worker, uint16_t handle) const {
  const WorkerOutcomes& outcomes = workers_[worker].outcomes;
  return std::any_of(outcomes.begin(), outcomes.end(), [handle](const WorkerOutcome& outcome) {
    const auto* closed = std::get_if<GroupClosed>(&outcome);
    return closed != nullptr && closed->group == GroupHandle(handle);
  });
}

bool Cluster::ShutDown(uint32_t worker) const {
  const WorkerOutcomes& outcomes = workers_[worker].outcomes;
  return std::any_of(outcomes.begin(), outcomes.end(),
                     [](const WorkerOutcome& outcome) { return std::holds_alternative<ShutdownDone>(outcome); });
}

bool Cluster::AllDone(uint64_t first_ticket, uint64_t last_ticket) const {
  for (uint32_t worker = 0; worker < workers_.size(); ++worker) {
    for (uint64_t ticket = first_ticket; ticket <= last_ticket; ++ticket) {
      if (Done(worker, ticket) == nullptr) return false;
    }
  }
  return true;
}

}  // namespace shoal
