// The part of SchedulerMachine that lets a server leave when an operator asks for it.
//
// The server goes out of the maps at once, so that its groups move as they do when it leaves by itself. It is told with
// its next heartbeat, and stays a member until it has no group left, so that an operator can follow its progress.
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
