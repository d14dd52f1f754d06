// One open group of a job, and how it moves from server to server. Pure; one thread.
//
// Owns what is saved of the group (GroupState) and what its ranks reported of its present map, which is not saved:
// ranks repeat what lasts. GroupMoves, which knows the servers, decides where the group goes.
#ifndef SHOAL_SCHEDULER_MACHINE_JOB_GROUP_H_
#define SHOAL_SCHEDULER_MACHINE_JOB_GROUP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "core/now.h"
#include "core/roster.h"
#include "core/shard_map.h"
#include "scheduler/machine/move_pace.h"
#include "scheduler/machine/scheduler_state.h"

namespace shoal::scheduler {

class JobGroup {
 public:
  explicit JobGroup(GroupState state) : state_(std::move(state)) {}

  const GroupState& state() const { return state_; }
  bool HasRank(JobRank rank) const;
  // Without ranks that are lost.
  bool GoesOn() const { return state_.min_ranks > 0 && state_.failure.empty(); }
  // The rank has closed it, or left the job. True when all have.
  bool Close(JobRank rank);
  // A rank that closes it knows that all ranks have all results of its ops. True if that is news.
  bool NoteAllCommitted() { return !std::exchange(state_.all_committed, true); }
  // A rank is lost that has not closed it, or is missed since it has: another epoch is wanted.
  void LoseRank(JobRank rank, std::string wish, Now now);
  // It moves: ranks that have closed it are not expected in its next epoch, however few are left.
  void LeaveOutClosed();
  // Who is in its next epoch; whether its epoch has others.
  Roster NextRoster() const;
  bool NeedsNextRoster() const;
  // Its ops end with that reason. False: it has failed before, and the first reason counts.
  bool Fail(std::string failure, bool ends_with_aborted);

  // ---- what its ranks report ----

  // A rank lost a server of the present map, in the rank's words: as long as nothing helps, the ranks want another map.
  // `refused`: the server has no memory for the group; else it is out of the rank's reach.
  void NoteLost(const ExcludedServer& server, std::string wish, Now now);
  // A rank lost a server and reached it again: another epoch is wanted, and the server may stay.
  void NoteReachedAgain(ServerId server, std::string wish, Now now);
  bool WantsMove() const { return !wish_.empty(); }
  // Why its ranks want another map, in words; empty: they don't, as far as is known.
  const std::string& wish() const { return wish_; }
  // The server that the newest report was of, if it can't be used; 0: none.
  ServerId reported() const { return reported_; }
  // Of WantsMove: when that began, over moves that did not help.
  uint64_t wanted_since_ns() const { return wanted_since_ns_.value_or(0); }
  // The server may be of use again.
  void ForgetExclusion(ServerId server);
  // Its memory may be. True if it had refused the group.
  bool ForgetRefusal(ServerId server);

  // ---- moves ----

  // When its pace allows the next move.
  uint64_t next_move_ns() const { return pace_.next_ns(); }
  // It goes over to the map, without the servers that are excluded.
  void MoveTo(const ShardMap& map, std::vector<ExcludedServer> excluded, std::vector<std::byte> sealed_roster, Now now);
  // When it may move, or is to be given up; kNoDeadline: nothing is waited for.
  uint64_t look_again_ns() const { return look_again_ns_; }
  void LookAgainAt(uint64_t at_ns) { look_again_ns_ = at_ns; }

 private:
  void NoteReport(ServerId server, std::string wish, Now now);
  void Wish(std::string wish, Now now);

  GroupState state_;
  std::string wish_;
  ServerId reported_;
  std::optional<uint64_t> wanted_since_ns_;  // null: nothing was, since it last stayed where it was
  uint64_t look_again_ns_ = kNoDeadline;
  MovePace pace_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_JOB_GROUP_H_
