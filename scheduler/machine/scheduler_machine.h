// The membership: which processes are members or lost, which shard map is in force, which groups may open.
//
// Pure: no clock, I/O, lock, log or randomness; time and random numbers (in the first state) are arguments. One thread.
// Rule: what others will rely on is saved first. Every reply and publication waits until the changes made before it are
// saved; changes made while a save is under way go into the next one together. Heartbeats and status queries don't
// wait.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/now.h"
#include "core/shard_map.h"
#include "scheduler/machine/event_numbers.h"
#include "scheduler/machine/group_plan.h"
#include "scheduler/machine/group_rounds.h"
#include "scheduler/machine/held_joins.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/node_place.h"
#include "scheduler/machine/refused_servers.h"
#include "scheduler/machine/save_queue.h"
#include "scheduler/machine/scheduler_actions.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_numbers.h"
#include "scheduler/machine/scheduler_state.h"
#include "scheduler/machine/server_registry.h"
#include "scheduler/machine/watchers.h"

namespace shoal::scheduler {

// Servers that join later are shown it as well.
inline constexpr uint64_t kTokenLifetimeSeconds = uint64_t{365} * 24 * 3600;

class SchedulerMachine {
 public:
  struct Settings {
    uint64_t lease_ttl_ms = 5000;
    uint64_t port_buffer_bytes = 0;  // of ports between nodes; 0: not known
    std::string store;               // where the state is kept, in words
    bool is_colocated = false;       // it runs inside a worker, and ends with a rank
    std::string leader = "";         // of several schedulers: where the others reach this one, which leads
  };

  // Goes on from `state`. `is_new`: it was made up just now (cluster id and token key drawn, all else empty), so it is
  // saved before anything is answered. DataLoss: the state contradicts itself (says where).
  static absl::StatusOr<std::unique_ptr<SchedulerMachine>> Make(const Settings& settings, const PersistedState& state,
                                                                bool is_new, Now now);

  // Takes in one thing that happened, and appends what is to be done now to `actions`.
  void OnEvent(const RequestArrived& event, Now now, SchedulerActions* actions);
  void OnEvent(const RequestCancelled& event, Now now, SchedulerActions* actions);
  void OnEvent(const WatchOpened& event, Now now, SchedulerActions* actions);
  void OnEvent(const StreamClosed& event, Now now, SchedulerActions* actions);
  void OnEvent(const Persisted& event, Now now, SchedulerActions* actions);
  void OnEvent(const Observed& event, Now now, SchedulerActions* actions);

  // Does what time asks for. Call it after the events at hand and when NextDeadlineNs() has come; earlier is harmless.
  // Called much later than that (the process was stopped, the machine slept), it starts every lease anew, as members
  // could not renew theirs. It also does so while none of the members on several nodes is heard: then this node's own
  // network is broken.
  void Tick(Now now, SchedulerActions* actions);

  // On the monotonic clock; kNoDeadline: nothing is due.
  uint64_t NextDeadlineNs() const;

  // ---- for those who look on ----

  const JobRegistry& jobs() const { return jobs_; }
  const ServerRegistry& servers() const { return servers_; }
  const GroupRounds& rounds() const { return rounds_; }
  uint64_t lease_ttl_ns() const { return settings_.lease_ttl_ms * kNsPerMs; }
  // Of the cluster as it is now; what is not the membership's is not set.
  ClusterView Cluster(Now now) const;
  SchedulerNumbers Numbers(Now now) const;

 private:
  SchedulerMachine(const Settings& settings, const PersistedState& state, bool is_new, Now now);

  // scheduler_servers.cc
  void Answer(RequestHandle handle, const RegisterServer& request, Now now);
  void Answer(RequestHandle handle, const HeartbeatServer& request, Now now);
  void Answer(RequestHandle handle, const DeregisterServer& request, Now now);
  // Answers it with `why`, and tells operators of it.
  void RefuseServer(RequestHandle handle, const RegisterServer& request, const absl::Status& why, Now now);
  // FailedPrecondition: no other node reaches the server, and the cluster has members on others.
  absl::Status CheckReach(const RegisterServer& request) const;
  // FailedPrecondition: the server is for a job that is not open.
  absl::Status CheckServersJob(const RegisterServer& request) const;

  // scheduler_jobs.cc
  void Answer(RequestHandle handle, const JoinJob& request, Now now);
  void Answer(RequestHandle handle, const HeartbeatWorker& request, Now now);
  void Answer(RequestHandle handle, const LeaveJob& request, Now now);
  // Once for a job: it has just got its last rank.
  void WarnOfSharedNodeName(const Job& job, Now now);
  // `place`: where the rank is.
  bool WantsServer(const JoinJob& request, const NodePlace& place) const;
  // Answers, unless another process holds the rank and may still be alive: then false.
  bool TryJoin(RequestHandle handle, const JoinJob& request, Now now, JobId* held_by);
  void RetryHeldJoins(Now now);
  // Joins that are held by a process which has ended go ahead.
  void TakeOverRanks(Now now);
  uint64_t NextTakeOverNs() const;
  void RefuseHeldJoins(JobId job, JobRank rank, Now now);
  void NoteReplaced(const JobRegistry::Gone& gone, Now now);
  void RankIsGone(const JobRegistry::Gone& gone, Now now);

  // scheduler_moves.cc
  void Answer(RequestHandle handle, const ReportServer& request, Now now);
  // After a change of the servers.
  void RebuildMap(Now now);
  void PublishServers(Now now);
  // Groups go over to the live servers, where those are not what they have.
  void MoveGroups(Now now);
  void MoveGroupsThatWaited(Now now);
  void LookAgain(JobGroup* group, uint64_t at_ns);
  // Moves it if its ranks want that, or the servers are others, and its pace allows it.
  void MoveIfNeeded(const Job& job, JobGroup* group, Now now);
  struct NextMap {
    GroupPlan plan;
    std::vector<ExcludedServer> excluded;
  };
  void MoveGroup(const Job& job, JobGroup* group, NextMap next, Now now);
  // nullopt: no server may serve it, or it would stay where it is.
  std::optional<NextMap> FindNextMap(const Job& job, const JobGroup& group) const;
  // The group's next map, of the live servers without the excluded ones. Errors of PlanGroup: there is none.
  absl::StatusOr<GroupPlan> PlanFor(const Job& job, const GroupState& group,
                                    const std::vector<ExcludedServer>& excluded) const;
  // The group fails if no server that is left has the memory for it, and that has lasted.
  void GiveUpIfRefusedByAll(const Job& job, JobGroup* group, Now now);
  // The report is of the group's present map.
  void NoteReport(JobGroup* group, const ReportServer& request, const std::string& server_name, Now now);
  // The server may have the memory now for groups that it refused.
  void MemoryWasFreed(ServerId server, Now now);

  // scheduler_groups.cc
  void Answer(RequestHandle handle, const JoinGroup& request, Now now);
  void Answer(RequestHandle handle, const CloseGroups& request, Now now);
  // What the rank waits for no more: its requests that wait are answered, and groups that they opened are given up.
  void GiveRequestsUp(const Job& job, JobRank rank, Incarnation incarnation,
                      const std::vector<GivenUpRequest>& requests, Now now);
  // The rank closes these, and knows that all ranks have all their results. Before the groups are closed.
  void NoteAllCommitted(const Job& job, JobRank rank, const std::vector<GroupId>& groups);
  // Notes why the rank has given groups up, and tells the others.
  void GiveGroupsUp(const Job& job, JobRank rank, const std::vector<GroupFailure>& failures, Now now);
  // Ends the group with that reason, and its other rails, which can't go on without it.
  void FailGroup(const Job& job, const GroupState& group, const std::string& failure, bool lacks_memory, Now now);
  // Tells the ranks what there is to be told of the group, if anything.
  void PublishMapOf(const Job& job, const GroupState& group);
  void CloseGroup(const Job& job, GroupId id, JobRank rank, Now now);
  void CompleteGroups(Now now);
  void OpenGroup(const GroupRound& round, Now now);
  void RefuseRound(const GroupRound& round, const absl::Status& status);
  // For Job::failure.
  void NoteGroupFailed(JobId job, const std::vector<JobRank>& ranks, const std::string& why);
  void NoteGroupWorks(JobId job, const std::vector<JobRank>& ranks);
  // Without servers: all its ranks are on one node.
  void OpenOnNode(const GroupRound& round, const Job& job, GroupState group, Now now);
  // With rails, or flat.
  void OpenOnServers(const GroupRound& round, const Job& job, const NodeReduceDecision& decision, Now now);
  // Not opened yet: a group, or a rail of one, with a part of the round's ranks; and all rails of a group.
  GroupState NewGroup(const GroupRound& round, std::vector<JobRank> ranks);
  std::vector<GroupState> NewRails(const GroupRound& round, const RailLayout& layout);
  // True: the request opened a group of the job already, and gets the same answer once more.
  bool AnswerAgain(RequestHandle handle, const JoinGroup& request, const Job& job, Now now);
  void TellAllOpened(const GroupRound& round, const Job& job, const GroupState& group,
                     const std::shared_ptr<const ShardMap>& map, Now now);
  // `rank` in the group, or in the rail; `map` is its newest.
  void TellOpened(RequestHandle handle, const Job& job, const GroupState& group, Rank rank,
                  const std::shared_ptr<const ShardMap>& map, Now now);

  // scheduler_admin.cc
  void Answer(RequestHandle handle, const DrainServer& request, Now now);
  void Answer(RequestHandle handle, const UndrainServer& request, Now now);
  void Answer(RequestHandle handle, const EvictServer& request, Now now);
  void Answer(RequestHandle handle, const AbortJob& request, Now now);
  // Open groups that need servers, whose map has this life of the server.
  uint32_t GroupsWith(const ServerState& server) const;

  // scheduler_colocation.cc
  // The ranks of a job without servers that would run a colocated one; nullopt: none is to.
  std::optional<ColocationRequest> ColocationWanted(const Job& job) const;
  void AskForColocation(Now now);

  void Answer(RequestHandle handle, const GetShardMap& request, Now now);
  void Answer(RequestHandle, const Inquiry&, Now) {}  // the insight machine answers

  // Servers whose leases have run out are lost.
  void ExpireServers(Now now);
  // Leases that ran out while they could not be renewed start anew; false if there are none.
  bool RenewLeasesAfterStall(Now now);
  bool RenewLeasesWhileCutOff(Now now);
  // A shorter time without any heartbeat says nothing.
  uint64_t LeastSilenceNs() const;
  // For how long no member was heard, although they are on several nodes; 0: they are not, or not for so long.
  uint64_t SilenceOfAllNs(Now now) const;
  // Leases start anew if that is this scheduler's own silence; what was seen in a long one is no evidence of an end.
  enum class Silence : uint8_t { kNone, kShort, kLong };
  Silence ExcuseAfter(uint64_t silence_ns, Now now);
  void HeardOfMember(Now now);
  void RenewAllLeases(Now now);

  void AfterSave(Consequence consequence);
  void Carry(const Consequence& consequence);
  // Of one that had to wait for its save.
  void BeginLease(const Consequence& consequence, Now now);
  void ReplyNow(RequestHandle handle, absl::StatusOr<Response> response);
  void ReplyNow(const std::vector<GroupRounds::Failure>& failures);
  // Refusals that rest on what was decided, as that a rank is lost: another scheduler may lead before that is saved,
  // and would not know of it.
  void Refuse(RequestHandle handle, absl::Status status);
  void Refuse(const std::vector<GroupRounds::Failure>& failures);
  void Record(EventKind kind, const std::string& subject, const std::string& reason, Now now, const EventIds& ids = {});
  void SaveIfChanged(Now now);
  void SaveHasFailed(const Persisted& event, Now now);
  PersistedState Snapshot() const;
  // The end of each step: what was decided goes out, and changes are saved.
  void HandOut(Now now, SchedulerActions* actions);

  const Settings settings_;
  const std::string cluster_id_;
  const TokenKey token_key_;
  const uint64_t started_at_unix_ms_;
  ServerRegistry servers_;
  RefusedServers refused_servers_;
  JobRegistry jobs_;
  GroupRounds rounds_;
  EventNumbers event_numbers_;
  HeldJoins held_joins_;
  Watchers watchers_;
  SaveQueue saves_;
  uint64_t heard_at_ns_;                       // of any member; before the first one: the start
  bool has_heard_any_ = false;                 // member, since the start
  bool cut_off_ = false;                       // as far as the journal says
  std::shared_ptr<const ShardMap> map_;        // with all changes
  std::shared_ptr<const ShardMap> published_;  // the newest whose epoch is saved
  MoveNumbers moves_;
  SaveNumbers save_numbers_;
  SaveTrouble save_trouble_;
  uint64_t next_group_id_ = 1;
  uint64_t next_move_ns_ = kNoDeadline;  // no group that waits may move, or is given up, before
  SchedulerActions actions_;             // decided, and not handed out yet
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_
