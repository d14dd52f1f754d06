// What an op that is not done at its deadline says: which ranks and servers it waited for.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/worker/machine/worker_driver.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(WorkerDeadline, F14TheDeadlineOfAnOpNamesTheRanksThatAServerWaitsFor) {
  WorkerDriver worker(12, 1, 4);
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 5 * kNsPerS);
  worker.Sent(worker.sends.at(0));
  FrameHeader header = WorkerDriver::Header(FrameType::kWaiting);
  header.op = OpNumber(1);
  Waiting waiting{.missing_count = 3, .listed_count = 2};
  waiting.ranks[0] = Rank(4);
  waiting.ranks[1] = Rank(9);
  worker.GiveNote(0, MakeWaiting(header, waiting));
  worker.TickAt(worker.now.monotonic_ns + 5 * kNsPerS - 1);
  EXPECT_TRUE(worker.done.empty());
  EXPECT_EQ(worker.machine().NextDeadlineNs(), worker.now.monotonic_ns + 1);
  worker.TickAt(worker.machine().NextDeadlineNs());
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_EQ(worker.done[0].status,
            absl::DeadlineExceededError(
                "all-reduce 1 of group \"world\" (100 float32) is not done after 5 s: server server-0 (10.0.0.0:7000) "
                "waits for rank 4 on node-4, rank 9 on node-9 and 1 more, which made fewer calls, stopped, or waits "
                "for another server itself"));
  EXPECT_EQ(worker.done[0].duration_ns, 5 * kNsPerS);
}

// The servers of the new map may not have had the time to say whom they wait for.
TEST(WorkerDeadline, TheDeadlineSoonAfterAMoveStillNamesTheRanksThatWereWaitedFor) {
  WorkerDriver worker(3, 2, 4);
  worker.Submit(1, 100, 0, worker.now.monotonic_ns + 5 * kNsPerS);
  worker.Sent(worker.sends.at(0));
  FrameHeader header = WorkerDriver::Header(FrameType::kWaiting);
  header.op = OpNumber(1);
  worker.GiveNote(0, MakeWaiting(header, {.missing_count = 1, .listed_count = 1, .ranks = {Rank(2)}}));
  worker.Command(MoveGroupCommand{GroupId(1), WorkerDriver::Map(1, 4)});
  worker.TickAt(worker.now.monotonic_ns + 5 * kNsPerS);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_THAT(std::string(worker.done[0].status.message()),
              HasSubstr("; before the group moved to its present servers, it waited for rank 2 on node-2"));
}

TEST(WorkerDeadline, ARankThatCameAfterAllIsNotBlamed) {
  WorkerDriver worker(2, 1, 4);
  worker.Submit(1, 2 * 256, 0, worker.now.monotonic_ns + 5 * kNsPerS);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  FrameHeader header = WorkerDriver::Header(FrameType::kWaiting);
  header.op = OpNumber(1);
  worker.GiveNote(0, MakeWaiting(header, {.missing_count = 1, .listed_count = 1, .ranks = {Rank(1)}}));
  worker.OfferResult(worker.sends.at(0), 2);
  worker.Land(worker.accepts.at(0));
  worker.TickAt(worker.machine().NextDeadlineNs());
  worker.TickAt(6 * kNsPerS);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_THAT(std::string(worker.done[0].status.message()),
              HasSubstr("1 of 2 chunks are back; no answer from server server-0 (10.0.0.0:7000)"));
}

TEST(WorkerDeadline, TheDeadlineOfAnOpNamesTheServersThatDoNotAnswer) {
  WorkerDriver worker(2, 3, 4);
  worker.Submit(1, 3 * 256, 0, worker.now.monotonic_ns + 5 * kNsPerS);
  ASSERT_EQ(worker.sends.size(), 3u);
  for (const WorkerSendAction& send : worker.sends) worker.Sent(send);
  uint32_t silent = 0;
  for (const WorkerSendAction& send : worker.sends) {
    if (send.peer == worker.ServerPeer(2)) continue;
    worker.OfferResult(send, 2);
    ++silent;
  }
  ASSERT_EQ(silent, 2u);
  for (const WorkerAcceptAction& accept : std::exchange(worker.accepts, {})) worker.Land(accept);
  worker.TickAt(worker.now.monotonic_ns + 5 * kNsPerS);
  ASSERT_EQ(worker.done.size(), 1u);
  EXPECT_THAT(std::string(worker.done[0].status.message()),
              HasSubstr("2 of 3 chunks are back; no answer from server server-2 (10.0.0.2:7000)"));
  EXPECT_EQ(worker.NotesOf(FrameType::kGroupFailed).size(), 3u);
}
}  // namespace
}  // namespace shoal
