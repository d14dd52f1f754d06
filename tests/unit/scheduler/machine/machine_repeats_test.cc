// A rank whose call for a group broke asks again, the same scheduler or the next one (docs/failover.md, F12).
#include "core/token.h"
#include "tests/unit/scheduler/machine/machine_harness.h"

namespace shoal::scheduler {
namespace {

using ::testing::Contains;
using ::testing::Not;

JoinGroup Numbered(JobId job, uint32_t rank, uint64_t number) {
  JoinGroup request = Group(job, rank, 100 + rank, {1, 0});
  request.request_number = number;
  return request;
}

void ExpectTheSame(const GroupJoined& answer, const GroupJoined& first) {
  EXPECT_EQ(answer.group, first.group);
  EXPECT_EQ(answer.token, first.token);
  EXPECT_EQ(answer.map->epoch(), first.map->epoch());
  EXPECT_EQ(answer.map->shards(), first.map->shards());
  EXPECT_EQ(answer.nodes, first.nodes);
  EXPECT_EQ(answer.look_ahead_chunks, first.look_ahead_chunks);
  EXPECT_EQ(answer.link, first.link);
  EXPECT_EQ(answer.busiest_port, first.busiest_port);
  EXPECT_EQ(answer.busiest_link, first.busiest_link);
}

class MachineRepeatsTest : public ::testing::Test {
 protected:
  MachineRepeatsTest() {
    harness_.Ask<ServerRegistered>(Server("a", 11, 1));
    harness_.Ask<JobJoined>(Join("gpt", 2, 0, 100));
    job_ = harness_.Ask<JobJoined>(Join("gpt", 2, 1, 101)).job;
  }

  // The group's first opening, as the ranks' first requests.
  std::vector<GroupJoined> Open() {
    JoinGroup measured = Numbered(job_, 0, 1);
    measured.link = {.bytes_per_s = 1'000'000'000, .round_trip_ns = 90'000, .message_ns = 3'000};
    const RequestHandle rank0 = harness_.Send(measured);
    const RequestHandle rank1 = harness_.Send(Numbered(job_, 1, 1));
    return {harness_.Get<GroupJoined>(rank0), harness_.Get<GroupJoined>(rank1)};
  }

  MachineHarness harness_;
  JobId job_;
};

TEST_F(MachineRepeatsTest, ARepeatedRequestHearsOfTheSameGroup) {
  const std::vector<GroupJoined> first = Open();
  const uint64_t next_group_id = harness_.last_saved()->next_group_id;
  for (int time = 0; time < 2; ++time) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ExpectTheSame(harness_.Ask<GroupJoined>(Numbered(job_, rank, 1)), first[rank]);
    }
  }
  EXPECT_EQ(harness_.last_saved()->next_group_id, next_group_id);
}

TEST_F(MachineRepeatsTest, TheNextSchedulerAnswersWhoDidNotHearTheOneThatDied) {
  const std::vector<GroupJoined> first = Open();
  MachineHarness next(harness_.last_saved());
  ExpectTheSame(next.Ask<GroupJoined>(Numbered(job_, 1, 1)), first[1]);
  EXPECT_THAT(next.EventKinds(), Not(Contains("group-opened")));
}

TEST_F(MachineRepeatsTest, NobodyHeardTheSchedulerThatDied) {
  harness_.set_save_at_once(false);
  const RequestHandle rank0 = harness_.Send(Numbered(job_, 0, 1));
  const RequestHandle rank1 = harness_.Send(Numbered(job_, 1, 1));
  const std::optional<PersistedState> before = harness_.last_saved();
  harness_.FinishSave();

  MachineHarness saved(harness_.last_saved());
  ExpectTheSame(saved.Ask<GroupJoined>(Numbered(job_, 0, 1)), harness_.Get<GroupJoined>(rank0));
  ExpectTheSame(saved.Ask<GroupJoined>(Numbered(job_, 1, 1)), harness_.Get<GroupJoined>(rank1));

  MachineHarness not_saved(before);
  const RequestHandle again = not_saved.Send(Numbered(job_, 0, 1));
  EXPECT_FALSE(not_saved.HasReply(again)) << "the group never was";
  const GroupJoined both = not_saved.Ask<GroupJoined>(Numbered(job_, 1, 1));
  EXPECT_EQ(both.group, not_saved.Get<GroupJoined>(again).group);
}

TEST_F(MachineRepeatsTest, TheAnswerWaitsForTheSaveLikeTheFirst) {
  harness_.set_save_at_once(false);
  harness_.Send(Numbered(job_, 0, 1));
  const RequestHandle first = harness_.Send(Numbered(job_, 1, 1));
  const RequestHandle again = harness_.Send(Numbered(job_, 1, 1));
  EXPECT_FALSE(harness_.HasReply(again));
  harness_.FinishSave();
  ExpectTheSame(harness_.Get<GroupJoined>(again), harness_.Get<GroupJoined>(first));
}

TEST_F(MachineRepeatsTest, AGroupThatMovedIsToldWithItsNewestMapAndTheTokenOfItsFirst) {
  const std::vector<GroupJoined> first = Open();
  harness_.Ask<ServerRegistered>(Server("b", 12, 2));
  const GroupJoined again = harness_.Ask<GroupJoined>(Numbered(job_, 1, 1));
  EXPECT_EQ(again.group, first[1].group);
  EXPECT_EQ(again.token, first[1].token);
  EXPECT_GT(again.map->epoch(), DecodeToken(again.token)->epoch);
  EXPECT_EQ(again.map->shards().size(), 2u);
}

// Two calls of one request may come in any order: a rank that still listens at the one that came first must ask again.
TEST_F(MachineRepeatsTest, ACallThatAnotherOfTheSameRequestReplacesIsToBeMadeAgain) {
  const RequestHandle first = harness_.Send(Numbered(job_, 0, 1));
  const RequestHandle second = harness_.Send(Numbered(job_, 0, 1));
  EXPECT_TRUE(absl::IsUnavailable(harness_.StatusOf(first))) << harness_.StatusOf(first);
  EXPECT_FALSE(harness_.HasReply(second));
  const RequestHandle other = harness_.Send(Numbered(job_, 0, 2));
  EXPECT_TRUE(absl::IsAborted(harness_.StatusOf(second))) << "another request of the rank";
  EXPECT_FALSE(harness_.HasReply(other));
}

TEST_F(MachineRepeatsTest, AnotherNumberOrNoneIsAnotherGroup) {
  const std::vector<GroupJoined> first = Open();
  const RequestHandle rank0 = harness_.Send(Numbered(job_, 0, 2));
  EXPECT_FALSE(harness_.HasReply(rank0)) << "rank 1 has not asked for a second group";
  ExpectTheSame(harness_.Ask<GroupJoined>(Numbered(job_, 1, 1)), first[1]);
  EXPECT_FALSE(harness_.HasReply(rank0));
  const GroupJoined second = harness_.Ask<GroupJoined>(Numbered(job_, 1, 0));
  EXPECT_GT(second.group, first[1].group);
  EXPECT_EQ(harness_.Get<GroupJoined>(rank0).group, second.group);
  EXPECT_FALSE(harness_.HasReply(harness_.Send(Numbered(job_, 1, 0)))) << "number 0 is never asked again";
}

TEST_F(MachineRepeatsTest, AnotherProcessOfTheRankIsNotAnsweredForTheFirst) {
  Open();
  EXPECT_TRUE(harness_.Try(Leave(job_, 1, 101)).ok());
  harness_.Ask<JobJoined>(Join("gpt", 2, 1, 201));
  JoinGroup request = Numbered(job_, 1, 1);
  request.incarnation = Incarnation(201);
  EXPECT_FALSE(harness_.HasReply(harness_.Send(request)));
}

}  // namespace
}  // namespace shoal::scheduler
