#include "sim/worker_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/colocation.h"
#include "core/node_parts.h"
#include "net/observed_transport.h"

namespace shoal::sim {
namespace {

constexpr uint64_t kJoinTimeoutNs = 60 * kNsPerS;
constexpr uint64_t kLeastGroupTimeoutNs = 15 * kNsPerS;
constexpr uint64_t kClosesWithinNs = 4 * kNsPerMs;  // of its request for a group

}  // namespace

std::vector<std::string> WorkerProcess::Place::Names() const {
  // A node that it has to itself names it as well.
  // Which rank of an open job it will be, nobody knows before it has joined.
  if (!job.nodes.shares_nodes() || job.is_open()) return {node};
  return {absl::StrCat("rank ", rank, " on ", node), absl::StrCat("rank ", rank, " of the job on ", node),
          absl::StrCat("rank ", rank, " of the job) on ", node),
          absl::StrCat("rank ", rank, " of job \"", job_name, "\" on node ", node)};
}

WorkerProcess::WorkerProcess(World* world, const Profile& profile, const Place& place, const Ports& ports,
                             ColocateServer colocate_server)
    : SimProcess(world, absl::StrCat("run-", place.run, "-rank-", place.rank), profile),
      profile_(profile),
      place_(place),
      ports_(ports),
      colocate_server_(std::move(colocate_server)),
      transport_(MakeTransport()),
      local_reduce_(MakeLocalReduce()),
      stager_(MakeStager()),
      loop_(std::make_unique<WorkerLoop>(MachineOptions(), transport_.get(), local_reduce_.get(), stager_.get())),
      scheduler_(
          world, ports.control, name(), [this] { return LocalNow().monotonic_ns; }, [this] { Wake(); }),
      membership_({.scheduler = "simulated",
                   .member = {.job_name = place.job_name,
                              .rank = JobRank(place.job.is_open() ? 0 : place.rank),
                              .world_size = place.job.is_open() ? 0 : place.job.ranks,
                              .open = place.job.is_open() ? std::optional(OpenJob{.identity = name()}) : std::nullopt,
                              .incarnation = Incarnation(world->random().Next()),
                              .node = place.node,
                              .boot_id = place.node,
                              .colocation = place.job.has_colocated_servers ? Colocation::kOn : Colocation::kOff,
                              .colocates_without_servers = place.job.colocates_without_servers,
                              .node_reduce = NodeReduce()},
                   .min_servers = profile.min_servers,
                   .jitter_seed = world->random().Next()},
                  &scheduler_) {
  ListGroups();
  membership_commands_.emplace_back(JoinCommand{LocalNow().monotonic_ns + kJoinTimeoutNs});
  Wake();
}

std::unique_ptr<Transport> WorkerProcess::MakeTransport() {
  const auto wake = [this] { Wake(); };
  const Checksums checksums = place_.job.checksums ? Checksums::kToAll : Checksums::kToAskers;
  if (ports_.same_node != nullptr) {
    return MakeObservedTransport(ports_.same_node->MakeTransport(/*listen=*/false, wake), {.checksums = checksums});
  }
  auto transport = ports_.network->MakeTransport(place_.node, /*listen=*/false, wake);
  simulated_ = transport.get();
  if (place_.job.checksums) simulated_->HasChecksums();
  return MakeObservedTransport(std::move(transport), {.checksums = checksums});
}

std::unique_ptr<LocalReduce> WorkerProcess::MakeLocalReduce() {
  if (ports_.local_node == nullptr) return nullptr;
  return ports_.local_node->Make([this] { Wake(); });
}

std::unique_ptr<SimStager> WorkerProcess::MakeStager() {
  if (!place_.job.has_devices) return nullptr;
  return std::make_unique<SimStager>(
      &world(), profile_.device_delay_ns, [this] { Wake(); },
      [this](const std::string& what) { ports_.checkers->Fail(absl::StrCat(name(), ": ", what)); });
}

WorkerMachineOptions WorkerProcess::MachineOptions() const {
  return {.staging_arena = stager_ == nullptr ? nullptr : stager_->arena()};
}

NodeReduceRequest WorkerProcess::NodeReduce() const {
  const bool possible = ports_.local_node != nullptr;
  return {.choice = place_.job.nodes.choice,
          .possible = possible,
          .can_rails = possible,
          .node_identity = possible ? place_.node : ""};
}

void WorkerProcess::ListGroups() {
  const JobProfile& job = place_.job;
  if (job.is_open()) return;  // TakeMeeting
  const uint64_t most_ops = job.until_ns > 0 ? UINT64_MAX : job.ops;
  Group everybody{.name = kAllRanks, .most_ops = most_ops, .rank = place_.rank};
  Group every_second{.name = "even", .most_ops = most_ops, .rank = place_.rank / 2};
  for (uint32_t r = 0; r < job.ranks; ++r) {
    everybody.ranks.push_back(r);
    if (r % 2 == 0) every_second.ranks.push_back(r);
  }
  const auto add = [&](Group group) {
    group.order = OrderOfSum(job.nodes, job.ranks, group.ranks);
    groups_.push_back(std::move(group));
  };
  add(everybody);
  if (job.subgroup && place_.rank % 2 == 0) add(every_second);
  for (uint32_t i = 0; i < job.short_groups; ++i) {
    add({.name = absl::StrCat("short-", i),
         .most_ops = i % 3,
         .is_short = true,
         .ranks = everybody.ranks,
         .rank = place_.rank});
  }
}

// What was in flight never ends for a process that died; its memory goes with it, and last: results land in the loop's.
WorkerProcess::~WorkerProcess() {
  if (ports_.rendezvous != nullptr) ports_.rendezvous->Go(name());
  local_reduce_.reset();
  transport_.reset();
  loop_.reset();
  if (stager_ != nullptr) ports_.checkers->CountDeviceCopies(stager_->copies());
  stager_.reset();
}

void WorkerProcess::ColocatedServerStarted(const absl::Status& status) {
  membership_commands_.emplace_back(shoal::ColocatedServerStarted{status});
  Wake();
}

bool WorkerProcess::AsksForChecksums() const {
  const bool is_odd = place_.job.options_differ && place_.rank + 1 == place_.job.ranks;
  return place_.job.checksums != is_odd;
}

uint32_t WorkerProcess::AskedChunkBytes() const {
  return profile_.plans_flow && !place_.job.asks_for_chunk ? 0 : profile_.max_chunk_bytes;
}

uint64_t WorkerProcess::GroupTimeoutNs() const { return std::max(profile_.op_timeout_ns, kLeastGroupTimeoutNs); }

void WorkerProcess::JoinNextGroup(Now now) {
  if (!in_job_ || given_up_ || shutting_down_) return;
  if (groups_asked_for_ > groups_joined_ || groups_asked_for_ == groups_.size()) return;
  const Group& group = groups_[groups_asked_for_];
  if (group.is_short && groups_[groups_asked_for_ - 1].is_short && !groups_[groups_asked_for_ - 1].closed) return;
  membership_commands_.emplace_back(
      JoinGroupCommand{.ticket = ++groups_asked_for_,
                       .request = {.name = group.name,
                                   .ranks = group.ranks,
                                   .max_chunk_bytes = AskedChunkBytes(),
                                   .link = LinkOfRank(place_.job, place_.rank),
                                   .min_servers = profile_.min_servers,
                                   .wire = place_.job.wire,
                                   .checksums = AsksForChecksums(),
                                   .min_ranks = std::min<uint32_t>(place_.job.min_ranks, group.ranks.size()),
                                   .scales_sums = place_.job.scales_sums,
                                   .node_reduce = NodeReduce()},
                       .deadline_ns = now.monotonic_ns + GroupTimeoutNs()});
  if (!place_.job.closes_while_joining || place_.rank + 1 < place_.job.ranks) return;
  if (groups_asked_for_ < groups_.size()) return;
  closes_when_joined_ = world().random().Chance(300'000);
  if (!closes_when_joined_) After(world().random().Below(kClosesWithinNs), [this] { CloseWhileJoining(); });
}

void WorkerProcess::CloseWhileJoining() {
  if (shutting_down_ || finished_) return;
  MayBeWaitedFor();
  ports_.checkers->MayFailFor(place_.run, "the worker is closing");  // its own ops
  // One that is open, without an op, it leaves in good order; whoever calls another op there waits for it.
  for (size_t index = 0; index < groups_asked_for_; ++index) {
    if (!groups_[index].was_opened) ports_.checkers->RankGivesUp(place_.run, groups_[index].name);
  }
  GiveUp("closed", absl::CancelledError("by the simulation"));
  ShutDown(LocalNow());
}

// 0: it is not known how many ranks the scheduler counts, since some may be gone.
uint32_t WorkerProcess::CountedRanks() const {
  const JobProfile& job = place_.job;
  const bool may_be_fewer = job.has_colocated_servers || job.colocates_without_servers || job.is_open() ||
                            ports_.checkers->MayFail(place_.run);
  return may_be_fewer ? 0 : job.ranks - ports_.checkers->RanksThatLeave(place_.run);
}

void WorkerProcess::OpenGroup(size_t index, const GroupInfo& info, Now now) {
  Group& group = groups_[index];
  group.id = info.id;
  if (info.node_reduce != group.order.mode) {
    ports_.checkers->Fail(absl::StrCat(name(), ": group ", group.name, " is ",
                                       std::string(NodeReduceModeName(info.node_reduce)), " and not ",
                                       std::string(NodeReduceModeName(group.order.mode)), " (layout)"));
  }
  if (profile_.plans_flow && !info.map->shards().empty()) {
    ports_.checkers->CheckPlan(info, {.asked_chunk_bytes = AskedChunkBytes(),
                                      .link = place_.job.link,
                                      .port_buffer_bytes = profile_.port_buffer_bytes,
                                      .ranks_of_job = CountedRanks()});
  }
  // To servers each rail is a group of its own.
  ports_.audit->GroupOpened(info.id, info.rail == nullptr ? info.size() : info.rail->size(),
                            profile_.plans_flow ? info.credit_chunks : kMaxCreditChunks);
  ports_.checkers->SawMap(info.id, *info.map);
  const bool has_rails = info.rail != nullptr;
  ports_.roster_checks->SawRail(has_rails ? info.whole_group : info.id, has_rails ? info.local_rank() : 0, info.id);
  ports_.roster_checks->SawRoster(info.id, info.map->epoch(), has_rails ? info.rail->size() : info.size(),
                                  info.sealed_roster);
  group.info = std::make_shared<const GroupInfo>(info);
  NoteRosters();
  commands_.push_back(
      OpenGroupCommand{GroupHandle(static_cast<uint16_t>(index)), group.info, now.monotonic_ns + GroupTimeoutNs()});
}

// Of groups that it has. News of one may come before the answer that it has asked for.
void WorkerProcess::NoteRosters() {
  std::erase_if(rosters_told_, [this](const RosterTold& told) {
    const auto group = std::ranges::find(groups_, told.group, &Group::id);
    if (group == groups_.end()) return false;
    const GroupInfo& info = group->info->rail == nullptr ? *group->info : *group->info->rail;
    if (info.node_reduce != NodeReduceMode::kNodeAlone) {
      ports_.roster_checks->SawRoster(told.group, told.epoch, info.size(), told.sealed);
    }
    return true;
  });
}

void WorkerProcess::Take(const MembershipOutcome& outcome, Now now) {
  if (const auto* joined = std::get_if<JoinEnded>(&outcome)) {
    if (!joined->joined.ok()) return GiveUp("join", joined->joined.status());
    in_job_ = true;
    job_id_ = joined->joined->id;
    job_rank_ = joined->joined->rank;
    if (was_hit_) MayEnd();
  } else if (const auto* group = std::get_if<GroupJoinEnded>(&outcome)) {
    if (!group->group.ok() && place_.job.is_open()) return OnRefusedGroup(group->group.status());
    if (!group->group.ok()) return GiveUp("join group", group->group.status());
    ++groups_joined_;
    if (closes_when_joined_) return CloseWhileJoining();  // the answer comes too late to be opened
    OpenGroup(group->ticket - 1, *group->group, now);
  } else if (const auto* lost = std::get_if<RankLostCommand>(&outcome)) {
    commands_.emplace_back(*lost);
  } else if (const auto* move = std::get_if<MoveGroupCommand>(&outcome)) {
    if (ports_.checkers->SawMap(move->group, *move->map)) ports_.fault_log->Moved(move->group);
    rosters_told_.push_back({move->group, move->map->epoch(), move->sealed_roster});
    NoteRosters();
    commands_.emplace_back(*move);
  } else if (const auto* given_up = std::get_if<GiveGroupUpCommand>(&outcome)) {
    commands_.emplace_back(*given_up);
  } else if (std::holds_alternative<ReadStatistics>(outcome)) {
    const WorkerCounters counters = loop_->counters();
    ports_.checkers->CheckServerWaits(name(), counters.server_waits);
    ports_.roster_checks->SawPartialOps(name(), counters.partial_ops);
    membership_commands_.emplace_back(StatisticsRead{counters});
  } else if (const auto* server = std::get_if<RunColocatedServer>(&outcome)) {
    colocate_server_(server->job, server->timeout_ms);
  } else if (const auto* ended = std::get_if<MembershipEnded>(&outcome)) {
    world().TraceText(name(), ": ", ended->status.message());
    commands_.emplace_back(NoMoreMapsCommand{ended->status});
    if (place_.job.is_open()) IsLost();
  } else if (const auto* notice = std::get_if<MembershipNotice>(&outcome)) {
    world().TraceText(name(), ": ", notice->line);
  } else if (const auto* left = std::get_if<Left>(&outcome)) {
    has_left_ = true;
    finished_ = !gave_up_ || has_shut_down_;
    // What ended its groups is known to nobody if neither a server nor the scheduler could be told: others hear that it
    // is lost.
    if (!left->status.ok() && ports_.checkers->MayFail(place_.run)) MayBeWaitedFor();
  }
}

void WorkerProcess::GiveUp(const std::string& why, const absl::Status& status) {
  world().TraceText(name(), ": ", why, ": ", status.ToString());
  ports_.checkers->CheckCode(absl::StrCat(name(), ", ", why), status);
  refused_memory_ = refused_memory_ || absl::IsResourceExhausted(status);
  given_up_ = true;
  if (refused_memory_) ports_.checkers->Excuse(ExcusableCheck::kIsolation, place_.run);
  // It calls no op any more, and others that have may wait for it.
  if (ports_.checkers->MayFail(place_.run)) MayBeWaitedFor();
  for (Group& group : groups_) {
    group.over = true;
    if (!group.opened) group.closed = true;
  }
  Wake();
}

void WorkerProcess::MayBeWaitedFor() {
  for (const std::string& each : place_.Names()) ports_.checkers->MayFailFor(place_.run, each);
  // With rails, others know only whom they wait for, who may wait in turn: the error says so.
  if (!place_.job.nodes.shares_nodes()) return;
  ports_.checkers->MayFailFor(place_.run, "which made fewer calls, stopped, or waits for a");
}

void WorkerProcess::StopCalling() {
  stopped_calling_ = true;
  After(profile_.op_timeout_ns + 4 * kNsPerS,
        [this] { GiveUp("stopped calling", absl::CancelledError("by the simulation")); });
}

bool WorkerProcess::AbortGroup() {
  if (!groups_[0].opened || groups_[0].closed) return false;
  groups_[0].over = true;
  commands_.push_back(AbortGroupCommand{GroupHandle(0), kAbortReason});
  Wake();
  return true;
}

uint64_t WorkerProcess::SubmitDue(Now now) {
  uint64_t deadline = kNoDeadline;
  const JobProfile& shape = place_.job;
  for (size_t index = 0; index < groups_.size(); ++index) {
    Group& group = groups_[index];
    while (group.opened && !group.over && !stopped_calling_ && group.submitted - group.ended < shape.in_flight) {
      if (group.submitted == group.leaves_after) {
        ports_.checkers->MayFailFor(place_.run, "has left the group");
        ports_.checkers->MayFailFor(place_.run, "has closed it, and others go on");
        ports_.checkers->MayFailFor(place_.run, " closed the group");
        ports_.checkers->MayFailFor(place_.run, " goes on without rank ");
        leaves_ = true;
        MayEnd();
        group.over = true;
        break;
      }
      if (now.monotonic_ns < group.next_submit_ns) {
        deadline = std::min(deadline, group.next_submit_ns);
        break;
      }
      if (!ports_.schedule->Calls(
              {place_.run, group.name}, group.submitted + 1, group.most_ops,
              group.is_short || shape.is_open() || shape.until_ns == 0 ? UINT64_MAX : shape.until_ns,
              world().now_ns())) {
        group.over = true;
        break;
      }
      group.next_submit_ns = now.monotonic_ns + world().random().Below(profile_.think_ns + 1);
      OpenOp op;
      op.group = index;
      op.number = ++group.submitted;
      op.called_ns = world().now_ns();
      op.plan = PlanOp(profile_.seed, place_.run, group.name, op.number, place_.job.wire, place_.job.most_elements);
      if (disagree_ && op.plan.elements > 0) {  // an op of nothing waits for nobody
        disagree_ = false;
        ++op.plan.elements;
      }
      op.memory = Contribution(op.plan, group.rank);
      SubmitCommand command;
      command.group = GroupHandle(static_cast<uint16_t>(index));
      command.ticket = next_ticket_++;
      command.data = op.memory.data();
      command.layout = OpLayout::Make(*group.info, op.plan.elements, op.plan.dtype).value();
      command.reduce_op = op.plan.reduce_op;
      command.premul_factor = op.plan.premul_factor;
      command.submitted_ns = now.monotonic_ns;
      command.deadline_ns = now.monotonic_ns + profile_.op_timeout_ns;
      // Half of them, the same on all ranks or not: it is each rank's own matter.
      command.on_device = stager_ != nullptr && group.info->node_reduce == NodeReduceMode::kFlat &&
                          op.plan.elements > 0 && world().random().Chance(500'000);
      if (shape.is_open()) {
        ports_.roster_checks->OpCalled(OfRoster(group, op.number, op.plan));
      } else {
        ports_.checkers->OpCalled(place_.run, group.name, op.number);
      }
      NoteRailOp(group, op);
      ops_.emplace(command.ticket, std::move(op));
      commands_.push_back(command);
      if (command.on_device) PutOnDevice(command);
    }
  }
  return deadline;
}

void WorkerProcess::PutOnDevice(const SubmitCommand& command) {
  std::vector<std::byte>& memory = ops_.at(command.ticket).memory;
  std::vector<std::byte> contribution = memory;
  SimStager::FillWithGarbage(memory);
  After(stager_->DrawDelay(), [this, command, contribution = std::move(contribution)] {
    const auto op = ops_.find(command.ticket);
    if (op != ops_.end()) std::ranges::copy(contribution, op->second.memory.begin());
    commands_.push_back(TensorReadyCommand{.group = command.group, .ticket = command.ticket});
    Wake();
  });
}

void WorkerProcess::NoteRailOp(const Group& group, const OpenOp& op) {
  const GroupInfo& info = *group.info;
  if (info.rail == nullptr) return;
  const ElementRange part = NodePart(op.plan.elements, info.local_size(), info.local_rank());
  const OpLayout layout = OpLayout::Make(*info.rail, part.count, op.plan.dtype).value();
  ports_.audit->RailOpCalled(info.id, info.rail->rank, OpNumber(op.number), layout.plan().chunk_count);
}

void WorkerProcess::Take(const WorkerOutcome& outcome) {
  if (const auto* opened = std::get_if<GroupOpened>(&outcome)) {
    Group& group = groups_[opened->group.value()];
    if (!opened->status.ok()) {
      group.closed = true;
      membership_commands_.emplace_back(GroupEnded{group.id});
      if (!place_.job.is_open()) return GiveUp("open group", opened->status);
      group.over = true;
      const bool was_left_alone = absl::StrContains(opened->status.message(), RosterChecks::kNodeIsOut) &&
                                  ports_.roster_checks->AnyMayEnd(place_.run, group.MembersOnNode());
      MayEnd();
      return ports_.roster_checks->Refused(place_.run, name(), was_hit_ || was_left_alone, opened->status);
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
      ports_.fault_log->Worked(group.id);
      if (group.info->rail == nullptr) ports_.audit->OpEnded(group.id, Rank(group.rank), OpNumber(op.number));
    } else {
      group.over = true;
      world().TraceText(name(), " op ", op.number, " of ", group.name, ": ", done->status.ToString());
    }
    if (place_.job.is_open()) {
      ports_.checkers->CountOp(done->status.ok());
      ports_.roster_checks->OpEnded(OfRoster(group, op.number, op.plan), done->status, done->contributors, op.memory);
    } else {
      ports_.checkers->OpEnded(place_.run, group.name, op.number, op.called_ns, group.rank, group.ranks, group.order,
                               op.plan, done->status, op.memory);
    }
    ports_.checkers->Bury(absl::StrCat(name(), " op ", op.number), std::move(op.memory));
  } else if (const auto* closed = std::get_if<GroupClosed>(&outcome)) {
    Group& group = groups_[closed->group.value()];
    group.closed = true;
    if (!place_.job.is_open()) ports_.checkers->GroupClosed(place_.run, group.name, group.ranks.size());
    membership_commands_.emplace_back(GroupEnded{group.id, closed->all_committed});
  } else if (const auto* trouble = std::get_if<ServerTrouble>(&outcome)) {
    world().TraceText(name(), " reports server ", trouble->server.value(), " in epoch ", trouble->epoch.value(),
                      trouble->reachable ? " as reachable: " : ": ", trouble->reason);
    membership_commands_.emplace_back(*trouble);
  } else if (const auto* failure = std::get_if<GroupFailure>(&outcome)) {
    membership_commands_.emplace_back(*failure);
  } else if (std::holds_alternative<ShutdownDone>(outcome)) {
    has_shut_down_ = true;
    finished_ = gave_up_ && has_left_;
    if (gave_up_) return;
    membership_commands_.emplace_back(LeaveCommand{.reason = "done", .counters = loop_->counters()});
  }
}

void WorkerProcess::CloseIfOver(Now now) {
  if (shutting_down_ || finished_) return;
  bool all_closed = true;
  for (size_t index = 0; index < groups_.size(); ++index) {
    Group& group = groups_[index];
    all_closed = all_closed && group.closed;
    if (!group.opened || !group.over || group.closed || group.ended < group.submitted) continue;
    group.opened = false;  // closing
    if (!place_.job.is_open()) ports_.checkers->GroupCloseCalled(place_.run, group.name);
    commands_.push_back(CloseGroupCommand{GroupHandle(static_cast<uint16_t>(index))});
  }
  if (!all_closed) return;
  if (place_.job.is_open() && !leaves_ && !is_lost_ && !given_up_) return WantMeeting();
  ShutDown(now);
}

void WorkerProcess::ShutDown(Now now) {
  shutting_down_ = true;
  ports_.checkers->RankLeaves(place_.run);
  if (ports_.rendezvous != nullptr) ports_.rendezvous->Go(name());
  membership_commands_.emplace_back(CloseCommand{});
  commands_.push_back(ShutdownCommand{now.monotonic_ns + 2 * kNsPerS});
  Wake();
}

uint64_t WorkerProcess::Run(Now now) {
  if (finished_) return kNoDeadline;
  uint64_t deadline = kNoDeadline;
  bool progress = true;
  for (int rounds = 0; progress && !finished_; ++rounds) {
    if (rounds == kMostRounds) {
      ports_.checkers->Fail(absl::StrCat(name(), " is busy with itself for ever (liveness)"));
      break;
    }
    TakeMeeting(now);
    deadline = SubmitDue(now);
    CloseIfOver(now);
    JoinNextGroup(now);
    progress = RunLoops(now);
  }
  if (ports_.same_node != nullptr) ports_.same_node->Ring();
  return std::min({deadline, loop_->NextDeadlineNs(), membership_.NextDeadlineNs()});
}

bool WorkerProcess::RunLoops(Now now) {
  const std::vector<MembershipCommand> membership_commands = std::exchange(membership_commands_, {});
  MembershipOutcomes membership_outcomes;
  bool progress = membership_.RunOnce(now, membership_commands, &membership_outcomes);
  for (const MembershipOutcome& outcome : membership_outcomes) Take(outcome, now);
  const std::vector<WorkerCommand> commands = std::exchange(commands_, {});
  WorkerOutcomes outcomes;
  progress = loop_->RunOnce(now, commands, &outcomes) || progress;
  for (const WorkerOutcome& outcome : outcomes) Take(outcome);
  return progress || !commands_.empty() || !membership_commands_.empty();
}

bool WorkerProcess::HasChunkGatheringAfterMove() const {
  return std::any_of(groups_.begin(), groups_.end(), [this](const Group& group) {
    return group.opened && !group.closed && ports_.audit->GathersAfterMove(group.id);
  });
}

size_t WorkerProcess::groups_open() const {
  return static_cast<size_t>(std::count_if(groups_.begin(), groups_.end(),
                                           [](const Group& group) { return group.info != nullptr && !group.closed; }));
}

bool WorkerProcess::opened_none() const {
  return std::none_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.was_opened; });
}

bool WorkerProcess::opened_all() const {
  return std::all_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.was_opened; });
}

std::vector<std::pair<GroupId, Rank>> WorkerProcess::GroupsOnServers() const {
  std::vector<std::pair<GroupId, Rank>> places;
  for (const Group& group : groups_) {
    if (!group.was_opened || group.closed || group.info->map->shards().empty()) continue;
    places.emplace_back(group.id, group.info->rail == nullptr ? Rank(group.rank) : group.info->rail->rank);
  }
  return places;
}

bool WorkerProcess::did_everything() const {
  if (place_.job.is_open()) return finished_;  // RosterChecks says what its ops have to come to
  return std::all_of(groups_.begin(), groups_.end(), [this](const Group& group) {
    const uint64_t called = ports_.schedule->Called({place_.run, group.name});
    return group.was_opened && group.ended_well == called && (group.most_ops == UINT64_MAX || called == group.most_ops);
  });
}

std::string WorkerProcess::Describe() const {
  std::string text = name();
  for (const Group& group : groups_) {
    absl::StrAppend(&text, " [", group.name, ": ", group.submitted, " submitted, ", group.ended, " ended",
                    group.opened ? ", open" : "", group.over ? ", over" : "", group.closed ? ", closed" : "", "]");
  }
  return absl::StrCat(text, shutting_down_ ? " shutting down" : "");
}

}  // namespace shoal::sim
