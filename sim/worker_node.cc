#include "sim/worker_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/colocation.h"
#include "core/version.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kCallTimeoutNs = 2 * kNsPerS;
constexpr uint64_t kGroupWaitMs = 15'000;
constexpr uint64_t kRetryNs = 50 * kNsPerMs;
constexpr int kMostRounds = 100'000;  // without time passing

}  // namespace

WorkerNode::WorkerNode(World* world, const Profile& profile, const Place& place, const Ports& ports,
                       std::function<void(JobId)> colocate_server)
    : Node(world, absl::StrCat("run-", place.run, "-rank-", place.rank), profile),
      profile_(profile),
      place_(place),
      ports_(ports),
      colocate_server_(std::move(colocate_server)),
      incarnation_(world->random().Next()),
      transport_(ports.network->MakeTransport(/*listen=*/false, [this] { Wake(); })),
      loop_(std::make_unique<WorkerLoop>(WorkerMachineOptions{.survive_server_loss = profile.survive_server_loss},
                                         transport_.get())) {
  Group everybody{.name = "all", .rank = place.rank};
  Group every_second{.name = "even", .rank = place.rank / 2};
  for (uint32_t r = 0; r < place.job.ranks; ++r) {
    everybody.ranks.push_back(r);
    if (r % 2 == 0) every_second.ranks.push_back(r);
  }
  groups_.push_back(everybody);
  if (place.job.subgroup && place.rank % 2 == 0) groups_.push_back(every_second);
  Join();
}

// What was in flight never ends for a process that died; its memory goes with it, and last: results land in the loop's.
WorkerNode::~WorkerNode() {
  transport_.reset();
  loop_.reset();
}

void WorkerNode::Join() {
  scheduler::JoinJob request;
  request.control_version = kControlVersion;
  request.software_version = kSoftwareVersion;
  request.job_name = place_.job_name;
  request.world_size = place_.job.ranks;
  request.rank = JobRank(place_.rank);
  request.incarnation = incarnation_;
  request.node = name();
  request.colocation = static_cast<uint32_t>(place_.job.has_colocated_servers ? Colocation::kOn : Colocation::kOff);
  ports_.control->Call(AsCaller(), request, kCallTimeoutNs,
                       [this](const absl::StatusOr<scheduler::Response>& response) {
                         if (response.ok()) return Joined(std::get<scheduler::JobJoined>(*response));
                         if (!absl::IsUnavailable(response.status())) return GiveUp("join", response.status());
                         After(kRetryNs, [this] { Join(); });
                       });
}

void WorkerNode::Joined(const scheduler::JobJoined& joined) {
  job_ = joined.job;
  ports_.control->Watch(AsCaller(), job_, [this](const scheduler::SendWatch& update) {
    for (const scheduler::RankLost& lost : update.lost_ranks) {
      commands_.push_back(RankLostCommand{lost.rank.value(), lost.node, lost.reason});
    }
    for (const scheduler::GroupMap& group : update.groups) {
      ports_.checkers->SawMap(group.group, *group.map);
      commands_.emplace_back(MoveGroupCommand{group.group, group.map});
    }
    Wake();
  });
  Heartbeat();
  if (joined.colocate_server) colocate_server_(job_);
  JoinGroups(0);
}

void WorkerNode::Heartbeat() {
  if (finished_) return;
  scheduler::HeartbeatWorker request;
  request.job = job_;
  request.rank = JobRank(place_.rank);
  request.incarnation = incarnation_;
  ports_.control->Call(AsCaller(), request, kCallTimeoutNs, [](const absl::StatusOr<scheduler::Response>&) {});
  After(profile_.lease_ttl_ms * kNsPerMs / 4, [this] { Heartbeat(); });
}

void WorkerNode::JoinGroups(size_t next) {
  if (next == groups_.size() || shutting_down_) return;
  scheduler::JoinGroup request;
  request.job = job_;
  request.rank = JobRank(place_.rank);
  request.incarnation = incarnation_;
  request.group_name = groups_[next].name;
  for (const uint32_t rank : groups_[next].ranks) request.ranks.emplace_back(rank);
  request.max_chunk_bytes = profile_.max_chunk_bytes;
  request.min_servers = profile_.min_servers;
  request.wait_ms = kGroupWaitMs;
  request.wire = static_cast<uint32_t>(place_.job.wire);
  request.request_number = next + 1;
  ports_.control->Call(AsCaller(), request, kGroupWaitMs * kNsPerMs + kCallTimeoutNs,
                       [this, next](const absl::StatusOr<scheduler::Response>& response) {
                         if (response.ok()) return GroupJoined(next, std::get<scheduler::GroupJoined>(*response));
                         if (!absl::IsUnavailable(response.status())) return GiveUp("join group", response.status());
                         After(kRetryNs, [this, next] { JoinGroups(next); });
                       });
}

void WorkerNode::GroupJoined(size_t index, const scheduler::GroupJoined& joined) {
  Group& group = groups_[index];
  group.id = joined.group;
  ports_.audit->GroupOpened(joined.group, static_cast<uint32_t>(group.ranks.size()));
  ports_.checkers->SawMap(joined.group, *joined.map);
  auto info = std::make_shared<GroupInfo>();
  info->id = joined.group;
  info->name = group.name;
  info->rank = Rank(group.rank);
  info->job_ranks = group.ranks;
  info->nodes = joined.nodes;
  info->max_chunk_bytes = profile_.max_chunk_bytes;
  info->look_ahead_chunks = joined.look_ahead_chunks;
  info->wire = place_.job.wire;
  info->token.assign(joined.token.begin(), joined.token.end());
  info->map = joined.map;
  commands_.push_back(
      OpenGroupCommand{GroupHandle(static_cast<uint16_t>(index)), info, LocalNow().monotonic_ns + 10 * kNsPerS});
  Wake();
  JoinGroups(index + 1);
}

void WorkerNode::GiveUp(const std::string& why, const absl::Status& status) {
  world().TraceText(name(), ": ", why, ": ", status.ToString());
  refused_memory_ = refused_memory_ || absl::IsResourceExhausted(status);
  for (Group& group : groups_) {
    group.over = true;
    if (!group.opened) group.closed = true;
  }
  Wake();
}

void WorkerNode::StopCalling() {
  stopped_calling_ = true;
  After(profile_.op_timeout_ns + 4 * kNsPerS,
        [this] { GiveUp("stopped calling", absl::CancelledError("by the simulation")); });
}

void WorkerNode::AbortGroup() {
  if (!groups_[0].opened || groups_[0].closed) return;
  groups_[0].over = true;
  commands_.push_back(AbortGroupCommand{GroupHandle(0), "by the simulation"});
  Wake();
}

uint64_t WorkerNode::SubmitDue(Now now) {
  uint64_t deadline = kNoDeadline;
  const JobProfile& shape = place_.job;
  for (size_t index = 0; index < groups_.size(); ++index) {
    Group& group = groups_[index];
    while (group.opened && !group.over && !stopped_calling_ && group.submitted < shape.ops &&
           group.submitted - group.ended < shape.in_flight) {
      if (now.monotonic_ns < group.next_submit_ns) {
        deadline = std::min(deadline, group.next_submit_ns);
        break;
      }
      group.next_submit_ns = now.monotonic_ns + world().random().Below(profile_.think_ns + 1);
      OpenOp op;
      op.group = index;
      op.number = ++group.submitted;
      op.plan = PlanOp(profile_.seed, place_.run, group.name, op.number, place_.job.wire);
      if (disagree_) {
        disagree_ = false;
        ++op.plan.elements;
      }
      op.memory = Contribution(op.plan, group.rank);
      SubmitCommand command;
      command.group = GroupHandle(static_cast<uint16_t>(index));
      command.ticket = next_ticket_++;
      command.data = op.memory.data();
      command.element_count = op.plan.elements;
      command.dtype = op.plan.dtype;
      command.reduce_op = op.plan.reduce_op;
      command.submitted_ns = now.monotonic_ns;
      command.deadline_ns = now.monotonic_ns + profile_.op_timeout_ns;
      ops_.emplace(command.ticket, std::move(op));
      commands_.push_back(command);
    }
  }
  return deadline;
}

void WorkerNode::Take(const WorkerOutcome& outcome) {
  if (const auto* opened = std::get_if<GroupOpened>(&outcome)) {
    Group& group = groups_[opened->group.value()];
    if (!opened->status.ok()) {
      group.closed = true;
      return GiveUp("open group", opened->status);
    }
    group.opened = true;
    group.was_opened = true;
  } else if (const auto* done = std::get_if<OpDone>(&outcome)) {
    const auto found = ops_.find(done->ticket);
    if (found == ops_.end()) return ports_.checkers->Fail(absl::StrCat(name(), ": an op ended twice (liveness)"));
    OpenOp op = std::move(found->second);
    ops_.erase(found);
    Group& group = groups_[op.group];
    ++group.ended;
    if (done->status.ok()) {
      ++group.ended_well;
      ports_.audit->OpEnded(group.id, Rank(group.rank), OpNumber(op.number));
    } else {
      group.over = true;
      world().TraceText(name(), " op ", op.number, " of ", group.name, ": ", done->status.ToString());
    }
    ports_.checkers->OpEnded(place_.run, group.name, op.number, group.rank, group.ranks, op.plan, done->status,
                             op.memory);
    ports_.checkers->Bury(absl::StrCat(name(), " op ", op.number), std::move(op.memory));
  } else if (const auto* closed = std::get_if<GroupClosed>(&outcome)) {
    groups_[closed->group.value()].closed = true;
  } else if (const auto* trouble = std::get_if<ServerTrouble>(&outcome)) {
    Report(*trouble);
  } else if (std::holds_alternative<ShutdownDone>(outcome)) {
    Leave();
  }
}

void WorkerNode::CloseIfOver(Now now) {
  if (shutting_down_ || finished_) return;
  const JobProfile& shape = place_.job;
  bool all_closed = true;
  for (size_t index = 0; index < groups_.size(); ++index) {
    Group& group = groups_[index];
    if (group.opened && group.submitted == shape.ops) group.over = true;
    all_closed = all_closed && group.closed;
    if (!group.opened || !group.over || group.closed || group.ended < group.submitted) continue;
    group.opened = false;  // closing
    commands_.push_back(CloseGroupCommand{GroupHandle(static_cast<uint16_t>(index))});
  }
  if (!all_closed) return;
  shutting_down_ = true;
  commands_.push_back(ShutdownCommand{now.monotonic_ns + 2 * kNsPerS});
}

void WorkerNode::Leave() {
  finished_ = true;
  scheduler::LeaveJob request;
  request.job = job_;
  request.rank = JobRank(place_.rank);
  request.incarnation = incarnation_;
  request.reason = "done";
  ports_.control->Call(AsCaller(), request, kCallTimeoutNs, [](const absl::StatusOr<scheduler::Response>&) {});
}

void WorkerNode::Report(const ServerTrouble& trouble) {
  world().TraceText(name(), " reports server ", trouble.server.value(), " in epoch ", trouble.epoch.value(),
                    trouble.reachable ? " as reachable: " : ": ", trouble.reason);
  scheduler::ReportServer request;
  request.job = job_;
  request.rank = JobRank(place_.rank);
  request.incarnation = incarnation_;
  request.group = trouble.group;
  request.epoch = trouble.epoch;
  request.server = trouble.server;
  request.server_incarnation = trouble.incarnation;
  request.reachable = trouble.reachable;
  request.reason = trouble.reason;
  ports_.control->Call(AsCaller(), request, kCallTimeoutNs,
                       [this, trouble](const absl::StatusOr<scheduler::Response>& response) {
                         if (!absl::IsUnavailable(response.status())) return;
                         After(kRetryNs, [this, trouble] {
                           if (!finished_) Report(trouble);
                         });
                       });
}

uint64_t WorkerNode::Run(Now now) {
  if (finished_) return kNoDeadline;
  uint64_t deadline = kNoDeadline;
  bool progress = true;
  for (int rounds = 0; progress && !finished_; ++rounds) {
    if (rounds == kMostRounds) {
      ports_.checkers->Fail(absl::StrCat(name(), " is busy with itself for ever (liveness)"));
      break;
    }
    deadline = SubmitDue(now);
    CloseIfOver(now);
    const std::vector<WorkerCommand> commands = std::exchange(commands_, {});
    WorkerOutcomes outcomes;
    progress = loop_->RunOnce(now, commands, &outcomes);
    for (const WorkerOutcome& outcome : outcomes) Take(outcome);
    progress = progress || !commands_.empty();
  }
  return std::min(deadline, loop_->NextDeadlineNs());
}

bool WorkerNode::opened_all() const {
  return std::all_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.was_opened; });
}

bool WorkerNode::did_everything() const {
  return std::all_of(groups_.begin(), groups_.end(),
                     [this](const Group& group) { return group.ended_well == place_.job.ops; });
}

std::string WorkerNode::Describe() const {
  std::string text = name();
  for (const Group& group : groups_) {
    absl::StrAppend(&text, " [", group.name, ": ", group.submitted, " submitted, ", group.ended, " ended",
                    group.opened ? ", open" : "", group.over ? ", over" : "", group.closed ? ", closed" : "", "]");
  }
  return absl::StrCat(text, shutting_down_ ? " shutting down" : "");
}

}  // namespace shoal::sim
