// The open groups of one job. Pure; one thread.
//
// A group is open until every rank has closed it or left the job; then it is gone: from maps, the saved state, what is
// published, and the limit. Its id is given to no other. The rails of a group are groups of their own here, under one
// name.
#ifndef SHOAL_SCHEDULER_MACHINE_JOB_GROUPS_H_
#define SHOAL_SCHEDULER_MACHINE_JOB_GROUPS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ids.h"
#include "scheduler/machine/job_group.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxGroupsPerJob = 16384;

// What its ranks are told of it. nullopt: nothing, since the group uses no servers and has not failed, or the state's
// shards make no map.
std::optional<GroupMap> MapOf(const GroupState& group);

class JobGroups {
 public:
  void Restore(const std::vector<GroupState>& groups);

  bool empty() const { return groups_.empty(); }
  // Whether any of them needs servers, which those that were given up do not.
  bool AnyNeedsServers() const;
  // Whether so many more, all of this name, are within the limit; each rail counts.
  bool HasRoomFor(const std::string& name, size_t count) const;
  const std::map<GroupId, JobGroup>& all() const { return groups_; }
  std::map<GroupId, JobGroup>& all() { return groups_; }
  // nullptr: no such group is open.
  const JobGroup* Find(GroupId id) const;
  JobGroup* Find(GroupId id);
  // The group, or the rail of a group, of that name which has the rank.
  const JobGroup* FindByName(const std::string& name, JobRank rank) const;
  // All rails of the group of that name; of a group without rails itself alone.
  std::vector<JobGroup*> RailsOf(const std::string& name);
  bool HasName(const std::string& name) const { return by_name_.contains(name); }
  // The group that this request opened; nullptr: none that is open.
  const JobGroup* FindOpenedBy(JobRank rank, const GroupRequestId& request) const;
  std::vector<GroupState> States() const;
  // What a watcher of the job is told first.
  std::vector<GroupMap> Maps() const;

  // A group, or all rails of one. It takes the place of an open group of its name, which is gone then.
  void Add(std::vector<GroupState> rails);

  // The rank has closed the group, which is gone if all others have. False: it is not in such a group, or closed it
  // before.
  bool Close(GroupId id, JobRank rank);
  // The rank has left the job. Returns the groups that it had not closed.
  std::vector<GroupId> CloseAllOf(JobRank rank);
  // The rank is lost. Before CloseAllOf: those of its groups that go on without it note that (LoseRank). Returns them,
  // with the other rails.
  std::vector<GroupId> NoteLost(JobRank rank, const std::string& why, Now now);
  // The rank has no part any more in a group that goes on without it. With rails neither have the other ranks of its
  // node, but for those that have closed the group, which is closed for them: each rail lacks one. Returns the rails
  // that do; none: the group does not go on.
  std::vector<GroupId> LoseRank(GroupId id, JobRank rank, const std::string& why, Now now);

 private:
  void Insert(GroupState group);
  void Remove(GroupId id);

  std::map<GroupId, JobGroup> groups_;
  std::map<std::string, std::set<GroupId>> by_name_;
  std::map<JobRank, std::set<GroupId>> of_rank_;  // those that it has not closed
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_JOB_GROUPS_H_
