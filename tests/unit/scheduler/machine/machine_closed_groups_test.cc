// Groups that are closed are gone at the scheduler (docs/failover.md, F19).
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/machine/request_checks.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class MachineClosedGroupsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string name : {"a", "b"}) harness_.Ask<ServerRegistered>(Server(name, 1, name[0]));
    for (uint32_t rank = 0; rank < 2; ++rank) job_ = harness_.Ask<JobJoined>(Join("gpt", 2, rank, 100 + rank)).job;
  }
  GroupId Make(const std::string& name, uint64_t request_number = 0) {
    RequestHandle first;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      JoinGroup request = Group(job_, rank, 100 + rank, {0, 1});
      request.group_name = name;
      request.request_number = request_number;
      const RequestHandle handle = harness_.Send(request);
      if (rank == 0) first = handle;
    }
    return harness_.Get<GroupJoined>(first).group;
  }
  CloseGroups Closing(uint32_t rank, std::vector<GroupId> groups) const {
    return {.job = job_,
            .rank = JobRank(rank),
            .incarnation = Incarnation(100 + rank),
            .groups = std::move(groups),
            .given_up_requests = {},
            .failures = {}};
  }
  CloseGroups GivingUp(uint32_t rank, GroupId group, const std::string& reason) const {
    CloseGroups request = Closing(rank, {});
    request.failures = {{group, reason}};
    return request;
  }
  // What the watcher is told of groups that are given up.
  std::vector<std::string> FailuresTold(MachineHarness* harness, WatcherId watcher) {
    std::vector<std::string> failures;
    for (const SendWatch& update : harness->watched(watcher)) {
      for (const GroupMap& group : update.groups) {
        if (!group.failure.empty()) failures.push_back(group.failure);
        EXPECT_EQ(group.ends_with_aborted, !group.failure.empty());
      }
    }
    harness->watched(watcher).clear();
    return failures;
  }
  // How often the watcher was told that all ranks have all results of the group.
  static int CommittedTold(MachineHarness* harness, WatcherId watcher, GroupId group) {
    int told = 0;
    for (const SendWatch& update : harness->watched(watcher)) {
      for (const GroupMap& map : update.groups) told += map.group == group && map.all_committed ? 1 : 0;
    }
    harness->watched(watcher).clear();
    return told;
  }
  static std::vector<std::string> GroupsOf(MachineHarness* harness) {
    std::vector<std::string> names;
    for (const JobView& job : harness->Jobs()) {
      for (const GroupView& group : job.groups) names.push_back(group.state.name);
    }
    return names;
  }
  std::vector<GroupId> SavedGroups() const {
    std::vector<GroupId> groups;
    for (const JobState& job : harness_.last_saved()->jobs) {
      for (const GroupState& group : job.groups) groups.push_back(group.id);
    }
    return groups;
  }

  MachineHarness harness_;
  JobId job_;
};

TEST_F(MachineClosedGroupsTest, AGroupThatAllItsRanksClosedIsGone) {
  const GroupId kept = Make("kept");
  const GroupId closed = Make("closed");
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<Done>(Closing(rank, {closed}));
  EXPECT_THAT(GroupsOf(&harness_), ElementsAre("kept"));
  EXPECT_THAT(SavedGroups(), ElementsAre(kept));
  EXPECT_THAT(harness_.EventKinds(), Contains("group-closed"));
  const WatcherId watcher = harness_.Watch(job_);
  ASSERT_EQ(harness_.watched(watcher).size(), 1u);
  EXPECT_EQ(harness_.watched(watcher)[0].groups.size(), 1u) << "a newcomer is told of open groups alone";
  harness_.watched(watcher).clear();
  harness_.Ask<ServerRegistered>(Server("c", 1, 999));
  for (const SendWatch& update : harness_.watched(watcher)) {
    for (const GroupMap& moved : update.groups) EXPECT_EQ(moved.group, kept);
  }
}

TEST_F(MachineClosedGroupsTest, ItStaysForARankThatHasNotClosedItYet) {
  const GroupId group = Make("world");
  harness_.Ask<Done>(Closing(0, {group}));
  harness_.Ask<Done>(Closing(0, {group}));
  EXPECT_THAT(GroupsOf(&harness_), ElementsAre("world"));
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  bool moved = false;
  for (const SendWatch& update : harness_.watched(watcher)) moved = moved || !update.groups.empty();
  EXPECT_TRUE(moved) << "rank 1 still works with it";
  harness_.Ask<Done>(Closing(1, {group}));
  EXPECT_THAT(GroupsOf(&harness_), IsEmpty());
}

// The rank that closed it is not there to tell the servers of its next map, and another waits for that.
TEST_F(MachineClosedGroupsTest, ThatAllHaveAllResultsIsToldWithTheNextMap) {
  const GroupId group = Make("world");
  const GroupId other = Make("other");
  const WatcherId watcher = harness_.Watch(job_);
  CloseGroups closing = Closing(0, {group, other});
  closing.committed_groups = {group};
  harness_.Ask<Done>(closing);
  EXPECT_EQ(CommittedTold(&harness_, watcher, group), 0) << "its servers are there, and tell it themselves";
  MachineHarness after(harness_.last_saved());
  const WatcherId later = after.Watch(job_);
  EXPECT_EQ(CommittedTold(&after, later, group), 1) << "a stream begins with it, also after a restart";
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  harness_.Ask<Done>(closing);
  const std::vector<SendWatch> updates = harness_.watched(watcher);
  EXPECT_EQ(CommittedTold(&harness_, watcher, group), 1);
  for (const SendWatch& update : updates) {
    for (const GroupMap& map : update.groups) EXPECT_EQ(map.all_committed, map.group == group);
  }
}

TEST_F(MachineClosedGroupsTest, ThatAllHaveAllResultsIsToldAtOnceOfAGroupThatHasMoved) {
  const GroupId group = Make("world");
  const WatcherId watcher = harness_.Watch(job_);
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  EXPECT_EQ(CommittedTold(&harness_, watcher, group), 0);
  LeaveJob leaving = Leave(job_, 0, 100);
  leaving.committed_groups = {group};
  harness_.Ask<Done>(leaving);
  EXPECT_EQ(CommittedTold(&harness_, watcher, group), 1);
}

TEST_F(MachineClosedGroupsTest, ARankThatLostAServerHearsThatAllHaveAllResults) {
  for (const uint64_t id : {1, 2}) harness_.Ask<Done>(DeregisterServer{ServerId(id), Incarnation(1), "gone"});
  harness_.Ask<ServerRegistered>(Server("c", 1, 'c'));
  const GroupId group = Make("world");
  const Epoch epoch = harness_.Ask<ClusterView>(GetCluster()).epoch;
  CloseGroups closing = Closing(0, {group});
  closing.committed_groups = {group};
  harness_.Ask<Done>(closing);
  const auto reported = harness_.Ask<ServerReported>(ReportServer{.job = job_,
                                                                  .rank = JobRank(1),
                                                                  .incarnation = Incarnation(101),
                                                                  .group = group,
                                                                  .epoch = epoch,
                                                                  .server = ServerId(3),
                                                                  .server_incarnation = Incarnation(1),
                                                                  .reason = "cut"});
  ASSERT_TRUE(reported.newer.has_value());
  EXPECT_TRUE(reported.newer->all_committed);
}

TEST_F(MachineClosedGroupsTest, OnlyARankThatIsStillInTheGroupSaysThatAllHaveAllResults) {
  const GroupId group = Make("world");
  const WatcherId watcher = harness_.Watch(job_);
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  harness_.Ask<Done>(Closing(0, {group}));
  CloseGroups late = Closing(0, {group});
  late.committed_groups = {group, GroupId(99)};
  harness_.Ask<Done>(late);
  EXPECT_EQ(CommittedTold(&harness_, watcher, group), 0);
  JoinGroup alone = Group(job_, 1, 101, {1});
  alone.group_name = "alone";
  const GroupId of_another = harness_.Get<GroupJoined>(harness_.Send(alone)).group;
  harness_.Ask<Done>(DeregisterServer{ServerId(2), Incarnation(1), "drained"});
  late.committed_groups = {of_another};
  harness_.Ask<Done>(late);
  EXPECT_EQ(CommittedTold(&harness_, watcher, of_another), 0);
  harness_.Ask<Done>(GivingUp(1, of_another, "enough"));
  harness_.watched(watcher).clear();
  CloseGroups failed = Closing(1, {of_another});
  failed.committed_groups = {of_another};
  harness_.Ask<Done>(failed);
  EXPECT_EQ(CommittedTold(&harness_, watcher, of_another), 0) << "its ranks have been told how it ended";
  late.committed_groups.assign(kMaxGroupsClosedAtOnce + 1, group);
  EXPECT_TRUE(absl::IsInvalidArgument(harness_.Try(late)));
}

TEST_F(MachineClosedGroupsTest, WhoHasClosedItIsKnownAfterARestart) {
  const GroupId group = Make("world");
  harness_.Ask<Done>(Closing(0, {group}));
  MachineHarness after(harness_.last_saved());
  EXPECT_THAT(GroupsOf(&after), ElementsAre("world"));
  after.Ask<Done>(Closing(0, {group}));  // its answer was lost with the scheduler
  EXPECT_THAT(GroupsOf(&after), ElementsAre("world"));
  after.Ask<Done>(Closing(1, {group}));
  EXPECT_THAT(GroupsOf(&after), IsEmpty());
}

TEST_F(MachineClosedGroupsTest, ARankThatLeavesTheJobHasClosedAll) {
  Make("one");
  const GroupId two = Make("two");
  harness_.Ask<Done>(Closing(1, {two}));
  harness_.Ask<Done>(Leave(job_, 0, 100));
  EXPECT_THAT(GroupsOf(&harness_), ElementsAre("one"));
  MachineHarness after(harness_.last_saved());
  EXPECT_THAT(GroupsOf(&after), ElementsAre("one"));
  after.Ask<Done>(Leave(job_, 1, 101));
  EXPECT_THAT(GroupsOf(&after), IsEmpty());
}

TEST_F(MachineClosedGroupsTest, ItsNameCanBeUsedAgainAndItsIdNever) {
  const GroupId first = Make("world");
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<Done>(Closing(rank, {first}));
  const GroupId second = Make("world");
  EXPECT_GT(second, first);
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<Done>(Closing(rank, {first}));
  EXPECT_THAT(GroupsOf(&harness_), ElementsAre("world")) << "a late word on the first is none on the second";
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<Done>(Closing(rank, {second}));
  MachineHarness after(harness_.last_saved());
  RequestHandle handle;
  for (uint32_t rank = 0; rank < 2; ++rank) handle = after.Send(Group(job_, rank, 100 + rank, {0, 1}));
  EXPECT_GT(after.Get<GroupJoined>(handle).group, second);
}

TEST_F(MachineClosedGroupsTest, AGroupMadeAgainUnderItsNameIsNotClosedByTheOldOnesRanks) {
  const GroupId first = Make("world");
  harness_.Ask<Done>(Closing(0, {first}));
  const GroupId second = Make("world");
  harness_.Ask<Done>(Closing(1, {first}));
  harness_.Ask<Done>(Closing(0, {second}));
  EXPECT_THAT(GroupsOf(&harness_), ElementsAre("world"));
  harness_.Ask<Done>(Closing(1, {second}));
  EXPECT_THAT(GroupsOf(&harness_), IsEmpty());
}

TEST_F(MachineClosedGroupsTest, ARequestThatWasGivenUpLeavesNoGroupBehind) {
  const GroupId group = Make("world", 7);
  CloseGroups given_up = Closing(0, {});
  given_up.given_up_requests = {{.number = 7}};
  harness_.Ask<Done>(given_up);
  harness_.Ask<Done>(Closing(1, {group}));
  EXPECT_THAT(GroupsOf(&harness_), IsEmpty());
  // One that still waits is over.
  JoinGroup waiting = Group(job_, 0, 100, {0, 1});
  waiting.request_number = 8;
  const RequestHandle handle = harness_.Send(waiting);
  given_up.given_up_requests = {{.number = 8}};
  harness_.Ask<Done>(given_up);
  EXPECT_EQ(harness_.StatusOf(handle).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(GroupsOf(&harness_), IsEmpty());
}

// The others may have the group open, and would wait for a rank that never comes.
TEST_F(MachineClosedGroupsTest, F21AGroupWhoseRequestWasGivenUpAfterItWasOpenedIsGivenUpForAll) {
  const GroupId group = Make("world", 7);
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  CloseGroups given_up = Closing(0, {});
  given_up.given_up_requests = {{.number = 7, .reason = "no\nanswer"}};
  harness_.Ask<Done>(given_up);
  EXPECT_THAT(FailuresTold(&harness_, watcher),
              ElementsAre("rank 0 on node0: it gave its request for the group up: no?answer"));
  harness_.Ask<Done>(given_up);
  EXPECT_THAT(FailuresTold(&harness_, watcher), IsEmpty());
  harness_.Ask<Done>(Closing(1, {group}));
  EXPECT_THAT(GroupsOf(&harness_), IsEmpty());
}

// No server may hear of it.
TEST_F(MachineClosedGroupsTest, AGroupThatARankGivesUpIsToldToTheOthersWithItsReason) {
  const GroupId group = Make("world", 7);
  const GroupId other = Make("other");
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  harness_.Ask<Done>(GivingUp(1, group, "out of\npatience"));
  EXPECT_THAT(FailuresTold(&harness_, watcher), ElementsAre("rank 1 on node1: out of?patience"));
  EXPECT_THAT(harness_.EventKinds(), Contains("group-failed"));
  harness_.Ask<Done>(GivingUp(1, group, "said again"));
  harness_.Ask<Done>(GivingUp(0, group, "so be it"));
  EXPECT_THAT(FailuresTold(&harness_, watcher), IsEmpty()) << "the first reason counts";
  // It is not moved any more, and who asks for it again hears why.
  harness_.Ask<Done>(DeregisterServer{ServerId(1), Incarnation(1), "drained"});
  for (const SendWatch& update : harness_.watched(watcher)) {
    for (const GroupMap& moved : update.groups) EXPECT_EQ(moved.group, other);
  }
  JoinGroup again = Group(job_, 0, 100, {0, 1});
  again.group_name = "world";
  again.request_number = 7;
  EXPECT_EQ(harness_.StatusOf(harness_.Send(again)), absl::AbortedError("rank 1 on node1: out of?patience"));
  MachineHarness after(harness_.last_saved());
  const WatcherId late = after.Watch(job_);
  EXPECT_THAT(FailuresTold(&after, late), ElementsAre("rank 1 on node1: out of?patience"));
}

TEST_F(MachineClosedGroupsTest, WantOfMemoryThatARankReportsIsToldAsWhatItIs) {
  const GroupId group = Make("world", 7);
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  CloseGroups request = GivingUp(1, group, "server b needs 64 bytes, 2 are free");
  request.failures[0].lacks_memory = true;
  harness_.Ask<Done>(request);
  ASSERT_EQ(harness_.watched(watcher).size(), 1u);
  const GroupMap told = harness_.watched(watcher)[0].groups.at(0);
  EXPECT_EQ(told.failure, "rank 1 on node1: server b needs 64 bytes, 2 are free");
  EXPECT_FALSE(told.ends_with_aborted);
  MachineHarness after(harness_.last_saved());
  JoinGroup again = Group(job_, 0, 100, {0, 1});
  again.group_name = "world";
  again.request_number = 7;
  EXPECT_EQ(after.StatusOf(after.Send(again)), absl::ResourceExhaustedError(told.failure));
}

TEST_F(MachineClosedGroupsTest, ARankThatLeavesSaysWhichGroupsItGaveUp) {
  const GroupId group = Make("world");
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  harness_.Ask<Done>(LeaveJob{.job = job_,
                              .rank = JobRank(1),
                              .incarnation = Incarnation(101),
                              .reason = "it closed",
                              .failures = {{group, "aborted"}}});
  EXPECT_THAT(FailuresTold(&harness_, watcher), ElementsAre("rank 1 on node1: aborted"));
}

// It closed while it asked for a group: the others have it open, or wait for it still.
TEST_F(MachineClosedGroupsTest, F21ARankThatLeavesSaysWhichRequestsItGaveUp) {
  Make("world", 7);
  JoinGroup waiting = Group(job_, 1, 101, {0, 1});
  waiting.group_name = "next";
  waiting.request_number = 8;
  const RequestHandle handle = harness_.Send(waiting);
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  harness_.Ask<Done>(LeaveJob{.job = job_,
                              .rank = JobRank(1),
                              .incarnation = Incarnation(101),
                              .reason = "it closed",
                              .given_up_requests = {{7, "the worker is closed"}, {8, "the worker is closed"}}});
  EXPECT_THAT(FailuresTold(&harness_, watcher),
              ElementsAre("rank 1 on node1: it gave its request for the group up: the worker is closed"));
  EXPECT_THAT(std::string(harness_.StatusOf(handle).message()), HasSubstr("gave this request up"));
  // Rank 0 has the first group still, and hears of it whenever it looks.
  MachineHarness after(harness_.last_saved());
  JoinGroup again = Group(job_, 0, 100, {0, 1});
  again.group_name = "world";
  again.request_number = 7;
  EXPECT_EQ(after.StatusOf(after.Send(again)),
            absl::AbortedError("rank 1 on node1: it gave its request for the group up: the worker is closed"));
}

TEST_F(MachineClosedGroupsTest, ARankThatLeavesMaySayMuchAndNotAnything) {
  LeaveJob much{.job = job_, .rank = JobRank(1), .incarnation = Incarnation(101)};
  much.given_up_requests.resize(kMaxGroupsClosedAtOnce + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(harness_.Try(much)));
  much.given_up_requests.resize(kMaxGroupsClosedAtOnce);
  much.failures.resize(kMaxGroupsClosedAtOnce);
  EXPECT_TRUE(harness_.Try(much).ok());
}

TEST_F(MachineClosedGroupsTest, WhoIsNotInAGroupOrIsDoneWithItDoesNotFailIt) {
  const GroupId group = Make("world");
  const WatcherId watcher = harness_.Watch(job_);
  harness_.watched(watcher).clear();
  CloseGroups stranger = GivingUp(0, group, "forged");
  stranger.incarnation = Incarnation(999);
  EXPECT_TRUE(absl::IsNotFound(harness_.StatusOf(harness_.Send(stranger))));
  harness_.Ask<Done>(Closing(0, {group}));
  harness_.Ask<Done>(GivingUp(0, group, "too late"));
  harness_.Ask<Done>(GivingUp(0, GroupId(12345), "of nobody"));
  EXPECT_THAT(FailuresTold(&harness_, watcher), IsEmpty());
  LeaveJob many{.job = job_, .rank = JobRank(1), .incarnation = Incarnation(101)};
  many.failures.resize(kMaxGroupsClosedAtOnce + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(harness_.StatusOf(harness_.Send(many))));
}

TEST_F(MachineClosedGroupsTest, StrangersCloseNothing) {
  const GroupId group = Make("world");
  CloseGroups stranger = Closing(0, {group});
  stranger.incarnation = Incarnation(999);
  EXPECT_EQ(harness_.Try(stranger).code(), absl::StatusCode::kNotFound);
  harness_.Ask<Done>(Closing(0, {GroupId(777)}));
  EXPECT_THAT(GroupsOf(&harness_), ElementsAre("world"));
  const std::vector<GroupId> many(kMaxGroupsClosedAtOnce + 1, group);
  EXPECT_EQ(harness_.Try(Closing(0, many)).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MachineClosedGroupsTest, ACloseIsAnsweredOnceItIsSaved) {
  const GroupId group = Make("world");
  harness_.set_save_at_once(false);
  const RequestHandle handle = harness_.Send(Closing(0, {group}));
  EXPECT_FALSE(harness_.HasReply(handle));
  harness_.FinishSave();
  EXPECT_TRUE(harness_.HasReply(handle));
}

TEST_F(MachineClosedGroupsTest, MoreThanTheLimitAreRefusedAndNoneIsForgotten) {
  const GroupId oldest = Make("oldest");
  harness_.set_save_at_once(false);  // all of them together
  RequestHandle refused;
  for (size_t i = 0; i < kMaxGroupsPerJob; ++i) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      JoinGroup request = Group(job_, rank, 100 + rank, {0, 1});
      request.group_name = std::to_string(i);
      refused = harness_.Send(request);
    }
  }
  while (harness_.save_under_way()) harness_.FinishSave();
  harness_.set_save_at_once(true);
  EXPECT_EQ(harness_.StatusOf(refused).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(harness_.StatusOf(refused).message()), HasSubstr("16384 groups open"));
  EXPECT_EQ(SavedGroups().size(), kMaxGroupsPerJob);
  for (uint32_t rank = 0; rank < 2; ++rank) harness_.Ask<Done>(Closing(rank, {oldest}));
  Make("world");
}

// A machine alone, whose replies nobody keeps: it is looked at what it saves.
class Churn {
 public:
  Churn() {
    now_.monotonic_ns = 1'000'000 * kMs;
    machine_ = *SchedulerMachine::Make({.lease_ttl_ms = kTtlMs, .store = "test"}, NewState(), true, now_);
    Tell(Server("a", 1, 1001));
    for (uint32_t rank = 0; rank < 2; ++rank) Tell(Join("gpt", 2, rank, 100 + rank));
    job_ = saved_.jobs[0].id;
  }
  GroupId Make(const std::string& name) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      JoinGroup request = Group(job_, rank, 100 + rank, {0, 1});
      request.group_name = name;
      request.request_number = ++requests_;
      Tell(request);
    }
    return saved_.jobs[0].groups.back().id;
  }
  void Close(GroupId group) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      Tell(CloseGroups{.job = job_,
                       .rank = JobRank(rank),
                       .incarnation = Incarnation(100 + rank),
                       .groups = {group},
                       .given_up_requests = {}});
    }
  }
  void Tell(Request request) { Step(RequestArrived{RequestHandle(++handles_), std::move(request)}); }
  const PersistedState& saved() const { return saved_; }
  const std::vector<GroupId>& moved() const { return moved_; }
  void Watch() { Step(WatchOpened{WatcherId(1), job_}); }

 private:
  template <typename Event>
  void Step(const Event& event) {
    SchedulerActions actions;
    machine_->OnEvent(event, now_, &actions);
    for (SchedulerAction& action : actions) {
      if (const auto* watch = std::get_if<SendWatch>(&action)) {
        for (const GroupMap& group : watch->groups) moved_.push_back(group.group);
      }
    }
    for (SchedulerAction& action : actions) {
      auto* save = std::get_if<Persist>(&action);
      if (save == nullptr) continue;
      saved_ = std::move(save->state);
      Step(Persisted{save->number, absl::OkStatus()});
    }
  }

  Now now_;
  std::unique_ptr<SchedulerMachine> machine_;
  PersistedState saved_;
  JobId job_;
  std::vector<GroupId> moved_;
  uint64_t handles_ = 0;
  uint64_t requests_ = 0;
};

TEST(ClosedGroups, AHundredThousandOfThemLeaveNothingBehind) {
  Churn churn;
  const GroupId oldest = churn.Make("oldest");
  GroupId before = oldest;
  for (int i = 0; i < 100'000; ++i) {
    const GroupId group = churn.Make("churn-" + std::to_string(i));
    ASSERT_GT(group, before) << "an id is never given twice";
    ASSERT_EQ(churn.saved().jobs[0].groups.size(), 2u);
    churn.Close(group);
    before = group;
  }
  ASSERT_EQ(churn.saved().jobs[0].groups.size(), 1u);
  churn.Watch();
  EXPECT_THAT(churn.moved(), ElementsAre(oldest));
  churn.Tell(Server("b", 1, 1002));
  EXPECT_THAT(churn.moved(), ElementsAre(oldest, oldest)) << "the oldest group is given the new server";
}

}  // namespace
}  // namespace shoal::scheduler
