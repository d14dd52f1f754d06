// What goes wrong among ranks, servers and scheduler ends with a clear error on every rank, within its deadline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/worker/library/worker_cluster.h"

namespace shoal {
namespace {

using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;

constexpr uint64_t kTimeoutMs = 20'000;

using WorkerCApiFailuresTest = ClusterTest<2>;

Outcome Connect(const shoal_worker_options& options) {
  shoal_worker* worker = nullptr;
  shoal_error error = {};
  const shoal_code code = shoal_worker_connect(&options, &worker, &error);
  shoal_worker_close(worker);
  return {code, error.message};
}

TEST_F(WorkerCApiFailuresTest, SizesThatDifferFailOnAllRanks) {
  RunRanks(*cluster, "sizes-differ", 4, [](TestRank& rank) {
    std::vector<float> data(rank.rank() == 3 ? 20'000 : 10'000, 1.0f);
    const Outcome outcome = rank.AllReduce(&data, kTimeoutMs);
    EXPECT_EQ(outcome.code, SHOAL_ABORTED) << outcome.message;
    EXPECT_THAT(outcome.message, HasSubstr("10000"));
    EXPECT_THAT(outcome.message, HasSubstr("20000"));
    // The group is broken for good.
    Outcome refusal;
    EXPECT_EQ(rank.Start(&data, kTimeoutMs, &refusal), nullptr);
    EXPECT_EQ(refusal.code, SHOAL_ABORTED);
    EXPECT_THAT(refusal.message, HasSubstr("20000"));
  });
}

TEST_F(WorkerCApiFailuresTest, RankThatDoesNotCallIsNamedAtTheDeadline) {
  std::barrier others_done(4);
  RunRanks(*cluster, "missing-call", 4, [&](TestRank& rank) {
    if (rank.rank() != 3) {
      std::vector<float> data(10'000, 1.0f);
      // Servers look once a second who is missing.
      const Outcome outcome = rank.AllReduce(&data, 3000);
      EXPECT_THAT(outcome.code, AnyOf(Eq(SHOAL_DEADLINE_EXCEEDED), Eq(SHOAL_ABORTED)));
      EXPECT_THAT(outcome.message, HasSubstr("rank 3 on node-3"));
    }
    others_done.arrive_and_wait();
  });
}

TEST_F(WorkerCApiFailuresTest, RankThatDoesNotComeIsNamedByTheGroup) {
  TestRank rank(*cluster, "missing-rank", 0, 2);
  shoal_group_options options = {.name = "all", .timeout_ms = 300};
  shoal_group* group = nullptr;
  shoal_error error = {};
  EXPECT_EQ(shoal_group_create(rank.worker(), &options, &group, &error), SHOAL_DEADLINE_EXCEEDED);
  EXPECT_THAT(error.message, HasSubstr("rank 1"));
  EXPECT_EQ(group, nullptr);
}

TEST_F(WorkerCApiFailuresTest, AbortEndsOpsHereAndOnTheOtherRanks) {
  std::barrier done(3);
  RunRanks(*cluster, "abort", 3, [&](TestRank& rank) {
    std::vector<float> data(10'000, 1.0f);
    if (rank.rank() == 0) {
      // Rank 1 never calls, so the op is open until the abort.
      shoal_op* op = rank.Start(&data, kTimeoutMs);
      shoal_group_abort(rank.group(), "the optimiser gave up");
      const Outcome outcome = TestRank::Finish(op);
      EXPECT_EQ(outcome.code, SHOAL_CANCELLED);
      EXPECT_THAT(outcome.message, HasSubstr("the optimiser gave up"));
      Outcome refusal;
      EXPECT_EQ(rank.Start(&data, kTimeoutMs, &refusal), nullptr);
      EXPECT_EQ(refusal.code, SHOAL_CANCELLED);
    } else if (rank.rank() == 2) {
      const Outcome outcome = rank.AllReduce(&data, kTimeoutMs);
      EXPECT_EQ(outcome.code, SHOAL_ABORTED);
      EXPECT_THAT(outcome.message, HasSubstr("the optimiser gave up"));
    }
    done.arrive_and_wait();
  });
}

TEST_F(WorkerCApiFailuresTest, AGroupSaysThatItHasFailedAlsoWhileNoOpIsOpen) {
  std::barrier reduced(3);
  std::barrier done(3);
  RunRanks(*cluster, "idle", 3, [&](TestRank& rank) {
    std::vector<float> data(10'000, 1.0f);
    EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);
    shoal_error error = {};
    EXPECT_EQ(shoal_group_failure(rank.group(), &error), SHOAL_OK);
    reduced.arrive_and_wait();
    if (rank.rank() == 0) {
      shoal_group_abort(rank.group(), "the optimiser gave up");
      EXPECT_EQ(shoal_group_failure(rank.group(), &error), SHOAL_CANCELLED);
    } else {
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kTimeoutMs);
      while (shoal_group_failure(rank.group(), &error) == SHOAL_OK && std::chrono::steady_clock::now() < until) {
        std::this_thread::yield();
      }
      EXPECT_EQ(error.code, SHOAL_ABORTED);
    }
    EXPECT_THAT(error.message, HasSubstr("the optimiser gave up"));
    done.arrive_and_wait();
  });
}

TEST_F(WorkerCApiFailuresTest, ClosingAWorkerEndsItsOpenOpsAndTellsTheOthers) {
  std::barrier done(2);
  RunRanks(*cluster, "close", 2, [&](TestRank& rank) {
    std::vector<float> data(10'000, 1.0f);
    if (rank.rank() == 0) {
      std::vector<std::vector<float>> buffers(10, data);
      std::vector<shoal_op*> ops;
      for (std::vector<float>& buffer : buffers) ops.push_back(rank.Start(&buffer, kTimeoutMs));
      rank.Close();
      for (shoal_op* op : ops) EXPECT_EQ(TestRank::Finish(op).code, SHOAL_CANCELLED);
      Outcome refusal;
      EXPECT_EQ(rank.Start(&data, kTimeoutMs, &refusal), nullptr);
      EXPECT_EQ(refusal.code, SHOAL_CANCELLED) << refusal.message;
      done.arrive_and_wait();
    } else {
      done.arrive_and_wait();
      Outcome outcome;
      shoal_op* op = rank.Start(&data, kTimeoutMs, &outcome);
      if (op != nullptr) outcome = TestRank::Finish(op);
      EXPECT_EQ(outcome.code, SHOAL_ABORTED) << outcome.message;
    }
  });
}

TEST_F(WorkerCApiFailuresTest, AnyNumberOfOpsMayBeInFlight) {
  constexpr size_t kOps = 20'000;
  std::barrier begun(2);
  RunRanks(*cluster, "many", 2, [&](TestRank& rank) {
    std::vector<std::vector<float>> data(kOps, std::vector<float>(16, 1.0f));
    std::vector<shoal_op*> ops;
    if (rank.rank() == 1) begun.arrive_and_wait();
    for (std::vector<float>& tensor : data) ops.push_back(rank.Start(&tensor, kTimeoutMs));
    if (rank.rank() == 0) begun.arrive_and_wait();  // nothing has completed so far
    for (shoal_op* op : ops) ASSERT_EQ(TestRank::Finish(op).code, SHOAL_OK);
    for (const std::vector<float>& tensor : data) ASSERT_THAT(tensor, testing::Each(2.0f));
  });
}

TEST_F(WorkerCApiFailuresTest, ServerThatStopsIsDoneWithout) {
  Cluster own(2);
  std::barrier reduced(3);
  std::thread stopper([&] {
    reduced.arrive_and_wait();
    own.StopServer(1);
  });
  RunRanks(own, "server-stops", 2, [&](TestRank& rank) {
    for (int round = 0; round < 60; ++round) {
      std::vector<float> data(100'000, 1.0f);
      const Outcome outcome = rank.AllReduce(&data, kTimeoutMs);
      ASSERT_EQ(outcome.code, SHOAL_OK) << outcome.message;
      ASSERT_EQ(data, std::vector<float>(100'000, 2.0f));
      if (round == 0) reduced.arrive_and_wait();
    }
  });
  stopper.join();
}

TEST_F(WorkerCApiFailuresTest, GoesOnWithoutTheScheduler) {
  // I6: the data plane keeps running while the scheduler is away.
  Cluster own(2);
  TestRank rank(own, "alone", 0, 1);
  rank.OpenGroup();
  own.StopScheduler();
  std::vector<float> data(100'000, 3.0f);
  EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);

  const shoal_group_options options = {.name = "another", .timeout_ms = 300};
  shoal_group* another = nullptr;
  shoal_error error = {};
  EXPECT_EQ(shoal_group_create(rank.worker(), &options, &another, &error), SHOAL_UNAVAILABLE);
  EXPECT_THAT(error.message, HasSubstr("no scheduler answered at " + own.scheduler()));
}

TEST_F(WorkerCApiFailuresTest, NoSchedulerIsNamed) {
  // A port that is bound but not listened on refuses, and stays ours.
  const int holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in bound = {};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(bound);
  ASSERT_EQ(bind(holder, reinterpret_cast<sockaddr*>(&bound), size), 0);
  ASSERT_EQ(getsockname(holder, reinterpret_cast<sockaddr*>(&bound), &size), 0);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(bound.sin_port));
  shoal_worker_options options = WorkerOptions(*cluster, "nobody", 0, 1);
  options.scheduler = address.c_str();
  options.timeout_ms = 1500;
  const Outcome outcome = Connect(options);
  EXPECT_EQ(outcome.code, SHOAL_UNAVAILABLE);
  EXPECT_THAT(outcome.message, HasSubstr("no scheduler answered at " + address + " within 1.5 s (Connection refused)"));
  close(holder);
}

TEST_F(WorkerCApiFailuresTest, TooFewServersAreCounted) {
  shoal_worker_options options = WorkerOptions(*cluster, "few-servers", 0, 1);
  options.min_servers = 3;
  options.timeout_ms = 300;
  const Outcome outcome = Connect(options);
  EXPECT_EQ(outcome.code, SHOAL_DEADLINE_EXCEEDED);
  EXPECT_THAT(outcome.message, HasSubstr("2 of 3 reduction servers registered with the scheduler at " +
                                         cluster->scheduler() + " after 0.3 s"));
}

TEST_F(WorkerCApiFailuresTest, RankThatIsTakenNamesItsHolder) {
  TestRank holder(*cluster, "rank-taken", 1, 2);
  const Outcome outcome = Connect(WorkerOptions(*cluster, "rank-taken", 1, 2));
  EXPECT_EQ(outcome.code, SHOAL_ALREADY_EXISTS);
  EXPECT_THAT(outcome.message, HasSubstr("node-1"));
}

TEST_F(WorkerCApiFailuresTest, WorldSizeThatDiffersIsRefused) {
  TestRank first(*cluster, "world-size", 0, 2);
  const Outcome outcome = Connect(WorkerOptions(*cluster, "world-size", 1, 3));
  EXPECT_EQ(outcome.code, SHOAL_INVALID_ARGUMENT);
  EXPECT_THAT(outcome.message, HasSubstr("world size"));
}

TEST_F(WorkerCApiFailuresTest, ForkedChildIsRefused) {
  RunRanks(*cluster, "fork", 1, [](TestRank& rank) {
    std::vector<float> data(10, 1.0f);
    shoal_op* op = rank.Start(&data, kTimeoutMs);
    const pid_t child = fork();
    if (child == 0) {
      int refused = 0;
      shoal_error error = {};
      refused += shoal_op_wait(op, UINT64_MAX, &error) == SHOAL_FAILED_PRECONDITION ? 1 : 0;
      refused += std::strstr(error.message, "forked") != nullptr ? 1 : 0;
      shoal_worker* worker = nullptr;
      const shoal_worker_options options = WorkerOptions(*cluster, "child", 0, 1);
      refused += shoal_worker_connect(&options, &worker, &error) == SHOAL_FAILED_PRECONDITION ? 1 : 0;
      shoal_completion completion = {};
      refused += shoal_next_completion(rank.worker(), 0, &completion) == SHOAL_FAILED_PRECONDITION ? 1 : 0;
      // These do nothing, above all they don't wait.
      shoal_op_release(op);
      shoal_group_abort(rank.group(), "in the child");
      shoal_group_close(rank.group());
      shoal_worker_close(rank.worker());
      _exit(refused);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 4);
    // The parent goes on.
    EXPECT_EQ(TestRank::Finish(op).code, SHOAL_OK);
    EXPECT_EQ(rank.AllReduce(&data, kTimeoutMs).code, SHOAL_OK);
  });
}

}  // namespace
}  // namespace shoal
