// The part of SchedulerMachine that does what operators ask for.
//
// A server that is to drain goes out of the maps at once, so that its groups move as they do when it leaves by itself.
// It is told with its next heartbeat, and stays a member until it has no group left, so that an operator can follow its
// progress, and can ask it to stay after all: it is in the maps again when it has heard of that. A server that is
// evicted is lost, as if its lease had run out, and its process is told to end. A job that is aborted fails, and so do
// its groups, which its ranks hear of at once.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/machine/scheduler_machine.h"

namespace shoal::scheduler {

void SchedulerMachine::Answer(RequestHandle handle, const DrainServer& request, Now now) {
  const absl::StatusOr<bool> drains_now = servers_.Drain(request.name);
  if (!drains_now.ok()) return ReplyNow(handle, drains_now.status());
  const ServerState& server = *servers_.FindByName(request.name);
  if (*drains_now) {
    saves_.NoteChange();
    Record(EventKind::kServerDraining, absl::StrCat("server ", server.name), "an operator asked for it", now);
    RebuildMap(now);
  }
  AfterSave(Reply{handle, Response(ServerDraining{.server = server.id,
                                                  .incarnation = server.incarnation,
                                                  .was_draining = !*drains_now,
                                                  .groups_kept = GroupsWith(server)})});
}

void SchedulerMachine::Answer(RequestHandle handle, const UndrainServer& request, Now now) {
  const absl::StatusOr<bool> drained = servers_.Undrain(request.name);
  if (!drained.ok()) return ReplyNow(handle, drained.status());
  const ServerState& server = *servers_.FindByName(request.name);
  if (*drained) {
    saves_.NoteChange();
    Record(EventKind::kServerUndrained, absl::StrCat("server ", server.name), "an operator asked it to stay", now);
  }
  AfterSave(Reply{handle, Response(ServerUndrained{.server = server.id, .was_draining = *drained})});
}

void SchedulerMachine::Answer(RequestHandle handle, const EvictServer& request, Now now) {
  const absl::StatusOr<ServerState> evicted = servers_.Evict(request.name, now);
  if (!evicted.ok()) return ReplyNow(handle, evicted.status());
  saves_.NoteChange();
  Record(EventKind::kServerEvicted, absl::StrCat("server ", evicted->name), evicted->reason, now);
  RebuildMap(now);
  AfterSave(Reply{handle, Response(ServerEvicted{.server = evicted->id, .groups_kept = GroupsWith(*evicted)})});
}

void SchedulerMachine::Answer(RequestHandle handle, const AbortJob& request, Now now) {
  const absl::StatusOr<JobId> id = jobs_.Abort(request.name, request.reason);
  if (!id.ok()) return ReplyNow(handle, id.status());
  saves_.NoteChange();
  const Job& job = *jobs_.Find(*id);
  Record(EventKind::kJobAborted, absl::StrCat("job \"", job.name, "\""), job.failure, now, {.job = *id});
  Refuse(rounds_.FailJob(*id, absl::AbortedError(job.failure)));
  JobAborted aborted{.job = *id, .live_ranks = static_cast<uint32_t>(job.live_count)};
  for (const auto& [group_id, group] : job.groups.all()) {
    // All rails of a group fail with the first.
    if (!group.state().failure.empty()) continue;
    FailGroup(job, group.state(), job.failure, /*lacks_memory=*/false, now);
    ++aborted.groups_failed;
  }
  AfterSave(Reply{handle, Response(aborted)});
  // Processes that waited for a rank of it start a new job.
  RetryHeldJoins(now);
}

uint32_t SchedulerMachine::GroupsWith(const ServerState& server) const {
  const auto is_of_server = [&](const Shard& shard) {
    return shard.server == server.id && shard.incarnation == server.incarnation;
  };
  uint32_t groups = 0;
  for (const auto& [id, job] : jobs_.jobs()) {
    if (!job.open()) continue;
    for (const auto& [group_id, group] : job.groups.all()) {
      const std::vector<Shard>& shards = group.state().shards;
      if (group.state().NeedsServers() && std::any_of(shards.begin(), shards.end(), is_of_server)) ++groups;
    }
  }
  return groups;
}

}  // namespace shoal::scheduler
