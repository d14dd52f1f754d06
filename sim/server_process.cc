#include "sim/server_process.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/observed_transport.h"

namespace shoal::sim {
namespace {

// As server/server.cc: so often it is looked whether the groups of a server that is to leave have ended.
constexpr uint64_t kDrainedPollNs = 20 * kNsPerMs;

}  // namespace

ServerProcess::ServerProcess(World* world, const Profile& profile, const Place& place, SimNetwork* network,
                             SameNode* same_node, SimControl* control, Checkers* checkers)
    : SimProcess(world, place.name, profile),
      profile_(profile),
      place_(place),
      same_node_(same_node),
      checkers_(checkers),
      incarnation_(world->random().Next()),
      threads_(profile.io_threads),
      control_link_(world, control, place.name) {
  for (IoThread& thread : threads_) {
    thread.memory.reset(static_cast<std::byte*>(std::calloc(std::max<size_t>(place.slot_memory_bytes, 1), 1)));
    std::unique_ptr<Transport> below;
    if (same_node != nullptr) {
      // As in server/thread, nobody looks at the transport before there is a loop, which comes with the registration:
      // peers that connect this early wait in the listener's backlog, and its descriptor stays readable meanwhile.
      below = same_node->MakeTransport(/*listen=*/true, [this, &thread] {
        if (thread.loop != nullptr) Wake();
      });
    } else {
      auto transport = network->MakeTransport(place.node, /*listen=*/true, [this] { Wake(); });
      thread.simulated = transport.get();
      below = std::move(transport);
    }
    thread.transport = MakeObservedTransport(std::move(below), {});
    thread.reducer = std::make_unique<SimReducer>(world, profile.reduce_ns, profile.sabotage, [this] { Wake(); });
    addresses_.push_back(thread.transport->listen_address());
  }
  control_link_.SetWake([this] { Wake(); });
  lease_loop_.emplace(RegistrationOptions{.scheduler = "simulated",
                                          .start_timeout_ms = 60'000,
                                          .random_seed = world->random().Next(),
                                          .registration = {.name = name(),
                                                           .incarnation = incarnation_,
                                                           .addresses = addresses_,
                                                           .node = place.node,
                                                           .boot_id = place.node,
                                                           .slot_memory_bytes = place.slot_memory_bytes,
                                                           .job = place.job}},
                      LocalNow(), &control_link_, [this] { return Counters(); });
  Wake();
}

void ServerProcess::FallSilent() {
  for (IoThread& thread : threads_) {
    if (thread.simulated != nullptr) thread.simulated->FallSilent();
  }
}

void ServerProcess::StartLoops() {
  for (IoThread& thread : threads_) {
    if (thread.loop != nullptr) {
      thread.loop->SetTokenKey(*token_key_);
      continue;
    }
    ServerMachineOptions options;
    options.server_name = name();
    options.incarnation = incarnation_;
    options.token_key = *token_key_;
    options.slot_memory_bytes = place_.slot_memory_bytes;
    options.window_bytes = profile_.plans_flow ? 0 : profile_.window_bytes;
    options.lease_ttl_ns = profile_.lease_ttl_ms * kNsPerMs;
    thread.loop = std::make_unique<ServerLoop>(options, thread.transport.get(), thread.reducer.get(),
                                               std::span(thread.memory.get(), place_.slot_memory_bytes));
  }
}

uint64_t ServerProcess::StepLease(Now now) {
  LeaseOutcomes outcomes;
  if (asked_to_drain_ && GroupsOpen() == 0) {
    // The process ends then, and takes leave once more, in case that nobody heard the first time.
    if (std::exchange(groups_ended_, true)) commands_.emplace_back(LeaveRequested{"drained"});
    commands_.emplace_back(GroupsEnded{});
  }
  lease_loop_->RunOnce(now, std::exchange(commands_, {}), &outcomes);
  for (const LeaseOutcome& outcome : outcomes) OnOutcome(outcome);
  const uint64_t deadline_ns = lease_loop_->NextDeadlineNs();
  return asked_to_drain_ ? std::min(deadline_ns, now.monotonic_ns + kDrainedPollNs) : deadline_ns;
}

void ServerProcess::OnOutcome(const LeaseOutcome& outcome) {
  if (const auto* granted = std::get_if<LeaseGranted>(&outcome)) {
    token_key_ = granted->lease.token_key;
    StartLoops();
    NoteScheduler(
        {.lease_ttl_ns = granted->lease.ttl_ms * kNsPerMs, .is_colocated = granted->lease.scheduler_is_colocated});
  } else if (const auto* renewed = std::get_if<LeaseRenewed>(&outcome)) {
    NoteScheduler({.lease_ttl_ns = renewed->ttl_ms * kNsPerMs, .is_colocated = renewed->scheduler_is_colocated});
  } else if (std::holds_alternative<DrainAsked>(outcome)) {
    asked_to_drain_ = true;
    if (!draining_) OpenNoNewGroups();
  } else if (const auto* given_up = std::get_if<LeaseGivenUp>(&outcome)) {
    // The job of a colocated server may end while the server registers; a scheduler that was deposed may say what is
    // not so.
    const bool stale_leader = std::any_of(profile_.faults.begin(), profile_.faults.end(),
                                          [](const Fault& fault) { return fault.kind == FaultKind::kStaleLeader; });
    // One that was to register when the scheduler had gone with its rank.
    if (place_.job != JobId() || stale_leader || profile_.is_hosted) return;
    checkers_->Fail(absl::StrCat(name(), " gave up: ", given_up->why.message(), " (liveness)"));
  } else if (std::holds_alternative<LeftCluster>(outcome)) {
    left_ = true;
  } else if (const auto* report = std::get_if<LeaseReport>(&outcome)) {
    left_untold_ = left_untold_ || report->kind == EventKind::kLeaveUntold;
    world().TraceText(name(), ": ", report->text);
  }
}

void ServerProcess::NoteScheduler(const SchedulerHeard& heard) {
  for (IoThread& thread : threads_) {
    if (thread.loop != nullptr) thread.loop->NoteScheduler(heard);
  }
}

void ServerProcess::Drain() {
  if (draining_ || !registered()) return;
  OpenNoNewGroups();
  commands_.emplace_back(LeaveRequested{"drained"});
  Wake();
}

void ServerProcess::OpenNoNewGroups() {
  draining_ = true;
  for (IoThread& thread : threads_) {
    if (thread.loop != nullptr) thread.loop->SetDraining(true);
  }
}

ServerCounters ServerProcess::Counters() const {
  ServerCounters sum;
  for (const IoThread& thread : threads_) {
    if (thread.loop == nullptr) continue;
    const ServerCounters counters = thread.loop->counters();
    sum.bytes_in += counters.bytes_in;
    sum.bytes_out += counters.bytes_out;
    sum.chunks_reduced += counters.chunks_reduced;
    sum.slot_memory_used_bytes += counters.slot_memory_used_bytes;
    sum.groups_open = std::max(sum.groups_open, counters.groups_open);
    sum.peers = std::max(sum.peers, counters.peers);
    sum.absent_ranks.insert(sum.absent_ranks.end(), counters.absent_ranks.begin(), counters.absent_ranks.end());
    for (LateRankOfGroup late : counters.late_ranks) {
      late.io_thread = static_cast<uint32_t>(&thread - threads_.data());
      sum.late_ranks.push_back(late);
    }
  }
  return sum;
}

bool ServerProcess::HasRank(GroupId group, Rank rank) const {
  return std::ranges::any_of(threads_, [&](const IoThread& thread) {
    if (thread.loop == nullptr) return false;
    const OpenGroups groups = thread.loop->open_groups();
    const auto found = groups.find(group);
    if (found == groups.end() || !found->second.ranks.contains(rank)) return false;
    return std::ranges::none_of(thread.loop->counters().absent_ranks,
                                [&](const AbsentRank& absent) { return absent.group == group && absent.rank == rank; });
  });
}

uint32_t ServerProcess::GroupsOpen() const {
  uint32_t groups = 0;
  for (const IoThread& thread : threads_) {
    if (thread.loop != nullptr) groups += thread.loop->counters().groups_open;
  }
  return groups;
}

uint64_t ServerProcess::Run(Now now) {
  uint64_t deadline = StepLease(now);
  std::vector<AbsentRank> absent;
  for (IoThread& thread : threads_) {
    if (thread.loop == nullptr) continue;
    int rounds = 0;
    while (thread.loop->RunOnce(now)) {
      if (++rounds < kMostRounds) continue;
      checkers_->Fail(absl::StrCat(name(), " is busy with itself for ever (liveness)"));
      break;
    }
    deadline = std::min(deadline, thread.loop->NextDeadlineNs());
    const ServerCounters counters = thread.loop->counters();
    checkers_->CheckServerBounds(name(), counters, place_.slot_memory_bytes);
    absent.insert(absent.end(), counters.absent_ranks.begin(), counters.absent_ranks.end());
  }
  NoteAbsentRanks(std::move(absent));
  if (same_node_ != nullptr) same_node_->Ring();
  return deadline;
}

void ServerProcess::NoteAbsentRanks(std::vector<AbsentRank> absent) {
  const bool any_new = std::any_of(absent.begin(), absent.end(), [this](const AbsentRank& rank) {
    return std::find(absent_ranks_.begin(), absent_ranks_.end(), rank) == absent_ranks_.end();
  });
  absent_ranks_ = std::move(absent);
  if (!any_new) return;
  commands_.emplace_back(RankBecameAbsent{});
  Wake();
}

void ServerProcess::CheckAtEnd() const {
  for (const IoThread& thread : threads_) {
    if (thread.loop != nullptr) checkers_->CheckServerEmpty(name(), thread.loop->counters());
  }
}

}  // namespace shoal::sim
