// What the scheduler decides: who is a member, which shard map is in force, which groups may open, who is lost.
//
// Pure: no clock, I/O, lock, log or randomness; time and random numbers (in the first state) are arguments. One thread.
// Rule: what others will rely on is persisted first. Every reply and publication waits until the changes made before it
// are saved; changes made while a save is under way go into the next one together. Heartbeats and status queries don't
// wait.
#ifndef SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_
#define SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/shard_map.h"
#include "scheduler/machine/event_journal.h"
#include "scheduler/machine/group_plan.h"
#include "scheduler/machine/group_rounds.h"
#include "scheduler/machine/job_registry.h"
#include "scheduler/machine/scheduler_events.h"
#include "scheduler/machine/scheduler_state.h"
#include "scheduler/machine/server_registry.h"

namespace shoal::scheduler {

// Servers that join later are shown it as well.
inline constexpr uint64_t kTokenLifetimeSeconds = 365 * 24 * 3600;
inline constexpr uint64_t kSaveRetryNs = 1'000'000'000;
inline constexpr size_t kMaxHeldJoins = 4096;

class SchedulerMachine {
 public:
  struct Settings {
    uint64_t lease_ttl_ms = 5000;
    std::string store;  // for people: where the state is kept
  };

  // Goes on from `state`. `is_new`: it was made up just now (cluster id and token key drawn, all else empty), so it is
  // saved before anything is answered. DataLoss: the state contradicts itself (says where).
  static absl::StatusOr<std::unique_ptr<SchedulerMachine>> Make(const Settings& settings, const PersistedState& state,
                                                                bool is_new, const Now& now);

  std::vector<Action> Step(const Now& now, const SchedulerEvent& event);

  // Does what time asks for: call it after the events at hand, at NextDeadline() at the latest. Called much later than
  // that (the process was stopped, the machine slept), it starts every lease anew, as members could not renew theirs.
  // It also does so while none of members on several nodes is heard: then this node's own network is broken.
  std::vector<Action> Tick(const Now& now);

  // On the monotonic clock; kNoDeadline if nothing is due.
  uint64_t NextDeadline() const;

 private:
  struct PublishMap {
    std::shared_ptr<const ShardMap> map;
  };
  struct PublishLost {
    RankLost lost;
  };
  struct PublishGroupMap {
    JobId job;
    GroupMap group;
  };
  struct PublishColocationRequest {
    JobId job;
    ColocationRequest request;
  };
  struct AddWatcher {
    WatcherId watcher;
    JobId job;
  };
  // What waits for a save, in order.
  using Consequence =
      std::variant<Reply, PublishMap, PublishLost, PublishGroupMap, PublishColocationRequest, AddWatcher, EventRecord>;
  struct Waiting {
    uint64_t after = 0;  // this change must be saved
    Consequence consequence;
  };
  struct HeldJoin {
    RequestHandle handle;
    JoinJob request;
    JobId job;  // whose rank is held
  };

  SchedulerMachine(const Settings& settings, const PersistedState& state, bool is_new, const Now& now);

  void On(const Now& now, const RequestArrived& event);
  void On(const Now& now, const RequestCancelled& event);
  void On(const Now& now, const WatchOpened& event);
  void On(const Now& now, const EventsOpened& event);
  void On(const Now& now, const StreamClosed& event);
  void On(const Now& now, const Persisted& event);

  void Answer(const Now& now, RequestHandle handle, const RegisterServer& request);
  void Answer(const Now& now, RequestHandle handle, const HeartbeatServer& request);
  void Answer(const Now& now, RequestHandle handle, const DeregisterServer& request);
  void Answer(const Now& now, RequestHandle handle, const JoinJob& request);
  void Answer(const Now& now, RequestHandle handle, const JoinGroup& request);
  void Answer(const Now& now, RequestHandle handle, const HeartbeatWorker& request);
  void Answer(const Now& now, RequestHandle handle, const LeaveJob& request);
  void Answer(const Now& now, RequestHandle handle, const ReportServer& request);
  void Answer(const Now& now, RequestHandle handle, const DrainServer& request);
  void Answer(const Now& now, RequestHandle handle, const GetCluster& request);
  void Answer(const Now& now, RequestHandle handle, const ListServers& request);
  void Answer(const Now& now, RequestHandle handle, const ListJobs& request);
  void Answer(const Now& now, RequestHandle handle, const GetShardMap& request);

  // FailedPrecondition: the server is for a job that is not open.
  absl::Status CheckServersJob(const RegisterServer& request) const;
  bool WantsServer(const JoinJob& request) const;
  // Answers, unless another process holds the rank and may still be alive: then false.
  bool TryJoin(const Now& now, RequestHandle handle, const JoinJob& request, JobId* held_by);
  void RetryHeldJoins(const Now& now);
  void RefuseHeldJoins(const Now& now, JobId job, uint32_t rank);
  void RankIsGone(const Now& now, const JobRegistry::Gone& gone);
  // After a change of the servers.
  void RebuildMap(const Now& now);
  void PublishServers(const Now& now);
  // Groups go over to the live servers, where those are not what they have.
  void MoveGroups(const Now& now);
  void MoveGroup(const Now& now, const Job& job, GroupState* group, const GroupPlan& plan, const std::string& why);
  // The ranks of a job that has no server, as far as they would run one; nullopt: nobody is to.
  std::optional<ColocationRequest> ColocationWanted(const Job& job) const;
  void AskForColocation(const Now& now);
  // The group's next map, of the live servers that it does not do without. Errors of PlanGroup: there is none.
  absl::StatusOr<GroupPlan> PlanFor(const Job& job, const GroupState& group,
                                    const std::vector<ExcludedServer>& excluded) const;
  // Open groups whose map has this life of the server.
  uint32_t GroupsWith(const ServerState& server) const;
  // Groups that do without the server try it again.
  void ForgetExclusions(ServerId server);
  void CompleteGroups(const Now& now);
  void OpenGroup(const Now& now, const GroupRound& round);
  // True: the request opened a group of the job already, and is answered so once more.
  bool AnswerAgain(const Now& now, RequestHandle handle, const JoinGroup& request, const Job& job);
  // `rank` in the group; `map` is its newest.
  void TellOpened(const Now& now, RequestHandle handle, const Job& job, const GroupState& group, uint32_t rank,
                  const std::shared_ptr<const ShardMap>& map);
  // Leases that ran out while nobody could renew them start anew; false if there are none.
  bool RenewLeasesAfterStall(const Now& now);
  bool RenewLeasesWhileCutOff(const Now& now);
  bool IsCutOff(const Now& now) const;
  void HeardOfMember(const Now& now);
  void RenewAllLeases(const Now& now);

  void Change() { ++changes_; }
  void AfterSave(Consequence consequence);
  void ReplyNow(RequestHandle handle, absl::StatusOr<Response> response);
  void ReplyNow(const std::vector<GroupRounds::Failure>& failures);
  void Record(const Now& now, const std::string& kind, const std::string& subject, const std::string& reason);
  void Carry(const Consequence& consequence);
  void ReleaseSaved();
  void SaveIfChanged(const Now& now);
  PersistedState Snapshot() const;
  std::vector<Action> TakeActions();

  const Settings settings_;
  const std::string cluster_id_;
  const TokenKey token_key_;
  const uint64_t started_at_unix_ms_;
  ServerRegistry servers_;
  JobRegistry jobs_;
  GroupRounds rounds_;
  EventJournal journal_;
  std::vector<HeldJoin> held_joins_;
  std::optional<uint64_t> heard_at_ns_;  // of any member; none since the start
  bool cut_off_ = false;                 // as far as the journal says
  std::map<WatcherId, JobId> watchers_;
  std::shared_ptr<const ShardMap> map_;        // with all changes
  std::shared_ptr<const ShardMap> published_;  // the newest whose epoch is saved
  uint64_t next_group_id_ = 1;

  uint64_t changes_ = 0;  // made so far
  uint64_t saved_ = 0;    // of these
  bool save_under_way_ = false;
  uint64_t save_not_before_ns_ = 0;
  bool save_failed_ = false;  // the newest save
  std::deque<Waiting> waiting_;
  std::vector<Action> actions_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_SCHEDULER_MACHINE_H_
