// What becomes of a group when one of its operations can't begin on this rank, with a library that the test stands for.
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/mutex.h"
#include "pytorch/src/session.h"

struct shoal_worker {};
struct shoal_group {};
struct shoal_op {};

namespace shoal::pytorch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(30);

// What the library says of each all-reduce, and what it was called for. Of the test that runs.
struct Library {
  Mutex mutex;
  std::shared_future<void> go_on;  // valid: all-reduces and statistics wait for it first
  shoal_code code SHOAL_GUARDED_BY(mutex) = SHOAL_OK;
  int takes_devices SHOAL_GUARDED_BY(mutex) = 1;              // of groups that are made
  std::vector<std::string> calls SHOAL_GUARDED_BY(mutex);     // the operation's count, or why the group is aborted
  std::vector<uint64_t> completions SHOAL_GUARDED_BY(mutex);  // to be fetched
  bool loses_completions SHOAL_GUARDED_BY(mutex) = false;
  Contributors contributors SHOAL_GUARDED_BY(mutex);  // of every result
};

Library library;
shoal_worker worker_handle;
shoal_group group_handle;
shoal_op op_handle;

shoal_code ConnectWorker(const shoal_worker_options* /*options*/, shoal_worker** worker, shoal_error* /*error*/) {
  *worker = &worker_handle;
  return SHOAL_OK;
}

uint32_t RankOfWorker(shoal_worker*) { return 0; }

void CloseWorker(shoal_worker* /*worker*/) {}

shoal_code CreateGroup(shoal_worker* /*worker*/, const shoal_group_options* /*options*/, shoal_group** group,
                       shoal_error* /*error*/) {
  *group = &group_handle;
  return SHOAL_OK;
}

void AbortGroup(shoal_group* /*group*/, const char* reason) {
  const MutexLock lock(library.mutex);
  library.calls.emplace_back(reason);
  library.code = SHOAL_CANCELLED;
}

void CloseGroup(shoal_group* /*group*/) {}

shoal_code FailureOfGroup(const shoal_group* /*group*/, shoal_error* /*error*/) {
  const MutexLock lock(library.mutex);
  return library.code;
}

int TakesDevices(const shoal_group* /*group*/) {
  const MutexLock lock(library.mutex);
  return library.takes_devices;
}

void WaitToGoOn(const std::string& call) {
  std::shared_future<void> go_on;
  {
    const MutexLock lock(library.mutex);
    library.calls.push_back(call);
    go_on = library.go_on;
  }
  if (go_on.valid()) go_on.wait();
}

shoal_code AllReduce(shoal_group* /*group*/, void* /*data*/, uint64_t count,
                     const shoal_all_reduce_options* /*options*/, shoal_op** op, shoal_error* error) {
  WaitToGoOn(std::to_string(count));
  const MutexLock lock(library.mutex);
  *op = &op_handle;
  *error = MakeError(library.code, "no " + std::to_string(count));
  return library.code;
}

shoal_code NotifyOp(shoal_op* /*op*/, uint64_t user_data, shoal_error* /*error*/) {
  const MutexLock lock(library.mutex);
  if (!library.loses_completions) library.completions.push_back(user_data);
  return SHOAL_OK;
}

shoal_code NextCompletion(shoal_worker* /*worker*/, uint64_t /*timeout_ms*/, shoal_completion* completion) {
  const MutexLock lock(library.mutex);
  if (library.completions.empty()) return SHOAL_DEADLINE_EXCEEDED;
  *completion = {.user_data = library.completions.back(), .duration_ns = 0, .result = {}};
  library.completions.pop_back();
  return SHOAL_OK;
}

int OpIsDone(const shoal_op* /*op*/) { return 1; }

shoal_code WaitForOp(shoal_op* /*op*/, uint64_t /*timeout_ms*/, shoal_error* /*error*/) { return SHOAL_OK; }

void ContributorsOfOp(const shoal_op* /*op*/, uint32_t* least, uint32_t* most) {
  const MutexLock lock(library.mutex);
  *least = library.contributors.least;
  *most = library.contributors.most;
}

void ReleaseOp(shoal_op* /*op*/) {}

shoal_code ReadStatistics(shoal_worker* /*worker*/, shoal_statistics* statistics) {
  WaitToGoOn("statistics");
  statistics->ops_completed = 7;
  return SHOAL_OK;
}

class GroupTest : public testing::Test {
 protected:
  GroupTest() {
    table_.shoal_worker_connect = &ConnectWorker;
    table_.shoal_worker_rank = &RankOfWorker;
    table_.shoal_worker_close = &CloseWorker;
    table_.shoal_group_create = &CreateGroup;
    table_.shoal_group_abort = &AbortGroup;
    table_.shoal_group_close = &CloseGroup;
    table_.shoal_group_failure = &FailureOfGroup;
    table_.shoal_group_takes_devices = &TakesDevices;
    table_.shoal_all_reduce = &AllReduce;
    table_.shoal_next_completion = &NextCompletion;
    table_.shoal_op_notify = &NotifyOp;
    table_.shoal_op_done = &OpIsDone;
    table_.shoal_op_wait = &WaitForOp;
    table_.shoal_op_contributors = &ContributorsOfOp;
    table_.shoal_op_release = &ReleaseOp;
    table_.shoal_worker_statistics = &ReadStatistics;
    Connect(kOthersEnd);
  }
  ~GroupTest() override { session_->Close(); }

  void Connect(std::chrono::milliseconds others_end) {
    session_ = Session::Connect(table_, {}, nullptr, others_end);
    group_ = session_->CreateGroup("all", {}, {});
  }
  // Closes the session; returns the error.
  std::string ErrorOfClosing() {
    try {
      session_->Close();
    } catch (const ShoalError& error) {
      return error.what();
    }
    return "";
  }

  static void Answer(shoal_code code) {
    const MutexLock lock(library.mutex);
    library.code = code;
    library.calls.clear();
    library.completions.clear();
  }
  static void HoldUntil(const std::shared_future<void>& go_on) {
    const MutexLock lock(library.mutex);
    library.go_on = go_on;
  }
  static std::vector<std::string> Calls() {
    const MutexLock lock(library.mutex);
    return library.calls;
  }
  static void AwaitCall() {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (Calls().empty() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }
  std::shared_ptr<StartedOperation> Start(uint64_t count, shoal_code* code) {
    Operation operation;
    operation.count = count;
    shoal_error error = {};
    auto started = group_->Start(operation, &error);
    EXPECT_EQ(started != nullptr, error.code == SHOAL_OK);
    *code = error.code;
    return started;
  }
  shoal_code CodeOfStart(uint64_t count) {
    shoal_code code = SHOAL_OK;
    Start(count, &code);
    return code;
  }
  // Starts an operation that nobody waits for.
  void StartAndNotify(Done done) {
    shoal_code code = SHOAL_OK;
    Start(3, &code)->Notify(std::move(done));
  }

  // Outlives the test, as a thread that is left behind may still look into it.
  static inline ShoalLibrary table_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Group> group_;
};

TEST_F(GroupTest, WhatFailsOnThisRankAloneAbortsTheGroup) {
  for (const shoal_code code : {SHOAL_INTERNAL, SHOAL_FAILED_PRECONDITION, SHOAL_RESOURCE_EXHAUSTED}) {
    Answer(code);
    EXPECT_EQ(CodeOfStart(3), code);
    EXPECT_THAT(Calls(), ElementsAre("3", "no 3")) << code;
  }
}

TEST_F(GroupTest, WhatEveryRankIsRefusedLeavesTheGroupAsItIs) {
  for (const shoal_code code : {SHOAL_INVALID_ARGUMENT, SHOAL_UNIMPLEMENTED, SHOAL_CANCELLED, SHOAL_ABORTED}) {
    Answer(code);
    EXPECT_EQ(CodeOfStart(3), code);
    EXPECT_THAT(Calls(), ElementsAre("3")) << code;
  }
}

TEST_F(GroupTest, ANodeWhoseRanksReduceNoTensorsOnDevicesAbortsTheGroupForThoseOfOtherNodes) {
  {
    const MutexLock lock(library.mutex);
    library.takes_devices = 0;
  }
  group_ = session_->CreateGroup("another", {}, {});
  Answer(SHOAL_UNIMPLEMENTED);
  EXPECT_EQ(CodeOfStart(3), SHOAL_UNIMPLEMENTED);
  EXPECT_THAT(Calls(), ElementsAre("3", "no 3"));
  const MutexLock lock(library.mutex);
  library.takes_devices = 1;
}

TEST_F(GroupTest, WhoReadsStatisticsHoldsNoOperationUp) {
  Answer(SHOAL_OK);
  std::promise<void> go_on;
  HoldUntil(go_on.get_future().share());
  std::future<uint64_t> reading = std::async(std::launch::async, [&] { return session_->Statistics().ops_completed; });
  AwaitCall();
  HoldUntil({});
  std::promise<shoal_code> ended;
  StartAndNotify([&](const shoal_error& result, uint64_t /*duration_ns*/) { ended.set_value(result.code); });
  std::future<shoal_code> end = ended.get_future();
  ASSERT_EQ(end.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(end.get(), SHOAL_OK);
  go_on.set_value();
  EXPECT_EQ(reading.get(), 7u);
}

TEST_F(GroupTest, RanksThatTellEachOtherSomethingMustAllBeThere) {
  Answer(SHOAL_OK);
  const std::shared_ptr<Group> group = session_->CreateGroup("three", {4, 5, 6}, {});
  const auto sum_with = [&](Contributors contributors) -> std::string {
    {
      const MutexLock lock(library.mutex);
      library.contributors = contributors;
    }
    try {
      return group->SumBytes("word", 1000);
    } catch (const ShoalError& error) {
      EXPECT_EQ(error.code(), SHOAL_ABORTED);
      return error.what();
    }
  };
  EXPECT_EQ(sum_with({.least = 3, .most = 3}), "word");
  EXPECT_EQ(sum_with({}), "word") << "no servers reduced it";
  EXPECT_THAT(sum_with({.least = 2, .most = 3}), HasSubstr("one of 3 was lost meanwhile"));
  EXPECT_THAT(sum_with({.least = 2, .most = 2}), HasSubstr("one of 3 was lost meanwhile"));
}

TEST_F(GroupTest, WhatRunsBesideIsOverWhenTheSessionIsClosed) {
  std::atomic<int> over = 0;
  const auto task = [&over] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++over;
  };
  session_->RunBeside(task);
  session_->RunBeside(task);
  EXPECT_GE(over, 1) << "one after the other";
  session_->Close();
  EXPECT_EQ(over, 2);
  session_->RunBeside(task);
  EXPECT_EQ(over, 3) << "on this thread";
}

class ClosingTest : public GroupTest {
 protected:
  ClosingTest() {
    session_->Close();
    Connect(std::chrono::milliseconds(50));
  }
};

TEST_F(ClosingTest, WaitsForNoCallbackOfAnOperationThatDoesNotReturn) {
  struct Call {
    std::promise<void> begun;
    std::promise<void> end;
  };
  auto call = std::make_shared<Call>();
  Answer(SHOAL_OK);
  StartAndNotify([call](const shoal_error& /*result*/, uint64_t /*duration_ns*/) {
    call->begun.set_value();
    call->end.get_future().wait();
  });
  ASSERT_EQ(call->begun.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_THAT(ErrorOfClosing(), HasSubstr("a callback or hook of an all-reduce has not returned 50 ms after"));
  call->end.set_value();
}

TEST_F(ClosingTest, WaitsForNoCallThatStartsAnOperationAndDoesNotReturn) {
  Answer(SHOAL_OK);
  std::promise<void> end;
  HoldUntil(end.get_future().share());
  std::future<shoal_code> starting = std::async(std::launch::async, [this] { return CodeOfStart(3); });
  AwaitCall();
  EXPECT_THAT(ErrorOfClosing(), HasSubstr("a call that starts an all-reduce has not returned 50 ms after"));
  EXPECT_THAT(Calls(), ElementsAre("3", HasSubstr("was destroyed while an all-reduce began")));
  end.set_value();
  EXPECT_EQ(starting.get(), SHOAL_CANCELLED);
  HoldUntil({});
}

TEST_F(ClosingTest, WaitsForNoCompletionThatDoesNotCome) {
  Answer(SHOAL_OK);
  {
    const MutexLock lock(library.mutex);
    library.loses_completions = true;
  }
  StartAndNotify([](const shoal_error& /*result*/, uint64_t /*duration_ns*/) {});
  EXPECT_THAT(ErrorOfClosing(), HasSubstr("1 all-reduce(s) of closed groups have not ended"));
  const MutexLock lock(library.mutex);
  library.loses_completions = false;
}

}  // namespace
}  // namespace shoal::pytorch
