#include "scheduler/machine/job_groups.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

namespace shoal::scheduler {

std::optional<GroupMap> MapOf(const GroupState& group) {
  if (!group.UsesServers() && group.failure.empty()) return std::nullopt;
  absl::StatusOr<ShardMap> map = ShardMap::Make(group.epoch, group.shards);
  if (!map.ok()) return std::nullopt;
  return GroupMap{group.id,
                  std::make_shared<const ShardMap>(*std::move(map)),
                  group.failure,
                  group.ends_with_aborted,
                  group.all_committed,
                  group.sealed_roster,
                  group.FirstClosed()};
}

void JobGroups::Restore(const std::vector<GroupState>& groups) {
  for (const GroupState& group : groups) {
    if (group.gone.size() < group.ranks.size()) Insert(group);
  }
}

bool JobGroups::AnyNeedsServers() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const auto& entry) { return entry.second.state().NeedsServers(); });
}

const JobGroup* JobGroups::Find(GroupId id) const {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : &found->second;
}

std::vector<JobGroup*> JobGroups::RailsOf(const std::string& name) {
  std::vector<JobGroup*> rails;
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return rails;
  for (const GroupId id : found->second) rails.push_back(Find(id));
  return rails;
}

JobGroup* JobGroups::Find(GroupId id) {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : &found->second;
}

bool JobGroups::HasRoomFor(const std::string& name, size_t count) const {
  const auto replaced = by_name_.find(name);
  const size_t gone = replaced == by_name_.end() ? 0 : replaced->second.size();
  return groups_.size() - gone + count <= kMaxGroupsPerJob;
}

const JobGroup* JobGroups::FindByName(const std::string& name, JobRank rank) const {
  const auto named = by_name_.find(name);
  if (named == by_name_.end()) return nullptr;
  for (const GroupId id : named->second) {
    const JobGroup& group = groups_.at(id);
    if (group.HasRank(rank)) return &group;
  }
  return nullptr;
}

const JobGroup* JobGroups::FindOpenedBy(JobRank rank, const GroupRequestId& request) const {
  const auto of_rank = of_rank_.find(rank);
  if (request.number == 0 || of_rank == of_rank_.end()) return nullptr;
  // The newest ones are asked for again.
  for (auto id = of_rank->second.rbegin(); id != of_rank->second.rend(); ++id) {
    const JobGroup& group = groups_.at(*id);
    if (group.state().RequestOf(rank) == request) return &group;
  }
  return nullptr;
}

std::vector<GroupState> JobGroups::States() const {
  std::vector<GroupState> states;
  states.reserve(groups_.size());
  for (const auto& [id, group] : groups_) states.push_back(group.state());
  return states;
}

std::vector<GroupMap> JobGroups::Maps() const {
  std::vector<GroupMap> maps;
  for (const auto& [id, group] : groups_) {
    if (std::optional<GroupMap> map = MapOf(group.state()); map.has_value()) maps.push_back(*std::move(map));
  }
  return maps;
}

void JobGroups::Add(std::vector<GroupState> rails) {
  if (const auto old = by_name_.find(rails.front().name); old != by_name_.end()) {
    const std::set<GroupId> replaced = old->second;
    for (const GroupId id : replaced) Remove(id);
  }
  for (GroupState& rail : rails) Insert(std::move(rail));
}

void JobGroups::Insert(GroupState group) {
  by_name_[group.name].insert(group.id);
  for (const JobRank rank : group.ranks) {
    if (!group.gone.contains(rank)) of_rank_[rank].insert(group.id);
  }
  const GroupId id = group.id;
  groups_.insert_or_assign(id, JobGroup(std::move(group)));
}

bool JobGroups::Close(GroupId id, JobRank rank) {
  const auto of_rank = of_rank_.find(rank);
  if (of_rank == of_rank_.end() || of_rank->second.erase(id) == 0) return false;
  if (of_rank->second.empty()) of_rank_.erase(of_rank);
  if (groups_.at(id).Close(rank)) Remove(id);
  return true;
}

std::vector<GroupId> JobGroups::CloseAllOf(JobRank rank) {
  std::vector<GroupId> closed;
  while (of_rank_.contains(rank)) {
    closed.push_back(*of_rank_.at(rank).begin());
    Close(closed.back(), rank);
  }
  return closed;
}

std::vector<GroupId> JobGroups::NoteLost(JobRank rank, const std::string& why, Now now) {
  std::vector<GroupId> going_on;
  const auto of_rank = of_rank_.find(rank);
  if (of_rank == of_rank_.end()) return going_on;
  const std::set<GroupId> open = of_rank->second;
  for (const GroupId id : open) {
    const std::vector<GroupId> rails = LoseRank(id, rank, why, now);
    going_on.insert(going_on.end(), rails.begin(), rails.end());
  }
  return going_on;
}

std::vector<GroupId> JobGroups::LoseRank(GroupId id, JobRank rank, const std::string& why, Now now) {
  JobGroup* const group = Find(id);
  if (group == nullptr || !group->GoesOn()) return {};
  std::vector<GroupId> lacking = {id};
  group->LoseRank(rank, why, now);
  if (!group->state().rail.has_value()) return lacking;
  const auto& ranks = group->state().ranks;
  const auto node = static_cast<size_t>(std::ranges::find(ranks, rank) - ranks.begin());
  for (JobGroup* const rail : RailsOf(group->state().name)) {
    const JobRank neighbour = rail->state().ranks[node];
    if (rail == group || !rail->GoesOn() || rail->state().gone.contains(neighbour)) continue;
    lacking.push_back(rail->state().id);
    rail->LoseRank(neighbour, why, now);
    Close(rail->state().id, neighbour);
  }
  return lacking;
}

void JobGroups::Remove(GroupId id) {
  const auto found = groups_.find(id);
  const GroupState& group = found->second.state();
  const auto named = by_name_.find(group.name);
  named->second.erase(id);
  if (named->second.empty()) by_name_.erase(named);
  for (const JobRank rank : group.ranks) {
    const auto of_rank = of_rank_.find(rank);
    if (of_rank == of_rank_.end()) continue;
    of_rank->second.erase(id);
    if (of_rank->second.empty()) of_rank_.erase(of_rank);
  }
  groups_.erase(found);
}

}  // namespace shoal::scheduler
