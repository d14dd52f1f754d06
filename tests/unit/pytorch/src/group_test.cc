// What becomes of a group when one of its operations can't begin on this rank, with a library that the test stands for.
#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "pytorch/src/session.h"

struct shoal_worker {};
struct shoal_group {};

namespace shoal::pytorch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

constexpr auto kPatience = std::chrono::seconds(30);

// What the library says of each all-reduce, and what it was called for. Of the test that runs.
struct Library {
  std::mutex mutex;
  std::shared_future<void> go_on;     // valid: all-reduces wait for it first
  shoal_code code = SHOAL_OK;         // under mutex, as all here
  std::vector<std::string> calls;     // the operation's count, or why the group is aborted
  uint64_t timeout_ms = 0;            // of the last all-reduce
  std::vector<uint64_t> completions;  // to be fetched
  bool loses_completions = false;
};

Library library;
shoal_worker worker_handle;
shoal_group group_handle;

shoal_code ConnectWorker(const shoal_worker_options* /*options*/, shoal_worker** worker, shoal_error* /*error*/) {
  *worker = &worker_handle;
  return SHOAL_OK;
}

void CloseWorker(shoal_worker* /*worker*/) {}

shoal_code CreateGroup(shoal_worker* /*worker*/, const shoal_group_options* /*options*/, shoal_group** group,
                       shoal_error* /*error*/) {
  *group = &group_handle;
  return SHOAL_OK;
}

void AbortGroup(shoal_group* /*group*/, const char* reason) {
  const std::lock_guard lock(library.mutex);
  library.calls.emplace_back(reason);
  library.code = SHOAL_CANCELLED;
}

void CloseGroup(shoal_group* /*group*/) {}

int TakesDevices(const shoal_group* /*group*/) { return 1; }

shoal_code AllReduce(shoal_group* /*group*/, void* /*data*/, uint64_t count, const shoal_all_reduce_options* options,
                     shoal_op** /*op*/, shoal_error* error) {
  std::shared_future<void> go_on;
  {
    const std::lock_guard lock(library.mutex);
    library.timeout_ms = options->timeout_ms;
    library.calls.push_back(std::to_string(count));
    if (!library.loses_completions) library.completions.push_back(options->user_data);
    go_on = library.go_on;
  }
  if (go_on.valid()) go_on.wait();
  const std::lock_guard lock(library.mutex);
  *error = MakeError(library.code, "no " + std::to_string(count));
  return library.code;
}

shoal_code NextCompletion(shoal_worker* /*worker*/, uint64_t /*timeout_ms*/, shoal_completion* completion) {
  const std::lock_guard lock(library.mutex);
  if (library.completions.empty()) return SHOAL_DEADLINE_EXCEEDED;
  *completion = {.user_data = library.completions.back(), .duration_ns = 0, .result = {}};
  library.completions.pop_back();
  return SHOAL_OK;
}

void ReleaseOp(shoal_op* /*op*/) {}

shoal_code ReadStatistics(shoal_worker* /*worker*/, shoal_statistics* statistics) {
  std::shared_future<void> go_on;
  {
    const std::lock_guard lock(library.mutex);
    library.calls.emplace_back("statistics");
    go_on = library.go_on;
  }
  if (go_on.valid()) go_on.wait();
  statistics->ops_completed = 7;
  return SHOAL_OK;
}

class GroupTest : public testing::Test {
 protected:
  GroupTest() {
    table_.shoal_worker_connect = &ConnectWorker;
    table_.shoal_worker_close = &CloseWorker;
    table_.shoal_group_create = &CreateGroup;
    table_.shoal_group_abort = &AbortGroup;
    table_.shoal_group_close = &CloseGroup;
    table_.shoal_group_takes_devices = &TakesDevices;
    table_.shoal_all_reduce = &AllReduce;
    table_.shoal_next_completion = &NextCompletion;
    table_.shoal_op_release = &ReleaseOp;
    table_.shoal_worker_statistics = &ReadStatistics;
    Connect({});
  }
  ~GroupTest() override { session_->Close(); }

  void Connect(const SessionOptions& options) {
    session_ = Session::Connect(table_, options, nullptr);
    group_ = session_->CreateGroup("all", {}, 0, 0, "none", 0);
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

  static void Refuse(shoal_code code) {
    const std::lock_guard lock(library.mutex);
    library.code = code;
    library.calls.clear();
    library.completions.clear();
  }
  static std::vector<std::string> Calls() {
    const std::lock_guard lock(library.mutex);
    return library.calls;
  }
  // The future has how it ended.
  std::future<shoal_code> Submit(uint64_t count, std::function<void()> wait_until_ready, uint64_t timeout_ms = 0) {
    auto ended = std::make_shared<std::promise<shoal_code>>();
    Operation operation;
    operation.count = count;
    operation.wait_until_ready = std::move(wait_until_ready);
    operation.timeout_ms = timeout_ms;
    operation.done = [ended](const shoal_error& result, uint64_t /*duration_ns*/) { ended->set_value(result.code); };
    group_->Submit(std::move(operation));
    return ended->get_future();
  }
  static shoal_code EndOf(std::future<shoal_code>* ended) {
    return ended->wait_for(kPatience) == std::future_status::ready ? ended->get() : SHOAL_UNKNOWN;
  }
  shoal_error StartOnDevice(uint64_t count) {
    Operation operation;
    operation.count = count;
    operation.device = 0;
    operation.timeout_ms = 20;
    std::shared_ptr<StartedOperation> started;
    shoal_error error = {};
    EXPECT_FALSE(group_->StartOnDevice(operation, &started, &error));
    EXPECT_EQ(started, nullptr);
    return error;
  }

  // Outlives the test, as a thread that is left behind may still look into it.
  static inline ShoalLibrary table_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Group> group_;
};

TEST_F(GroupTest, WhatFailsOnThisRankAloneAbortsTheGroup) {
  for (const shoal_code code : {SHOAL_INTERNAL, SHOAL_FAILED_PRECONDITION}) {
    Refuse(code);
    EXPECT_EQ(StartOnDevice(3).code, code);
    EXPECT_THAT(Calls(), ElementsAre("3", "no 3")) << code;
    Refuse(code);
    std::future<shoal_code> ended = Submit(4, nullptr);
    EXPECT_EQ(EndOf(&ended), code);
    EXPECT_THAT(Calls(), ElementsAre("4", "no 4")) << code;
  }
}

TEST_F(GroupTest, WhatEveryRankIsRefusedLeavesTheGroupAsItIs) {
  for (const shoal_code code : {SHOAL_INVALID_ARGUMENT, SHOAL_UNIMPLEMENTED, SHOAL_CANCELLED, SHOAL_ABORTED}) {
    Refuse(code);
    EXPECT_EQ(StartOnDevice(3).code, code);
    std::future<shoal_code> ended = Submit(4, nullptr);
    EXPECT_EQ(EndOf(&ended), code);
    EXPECT_THAT(Calls(), ElementsAre("3", "4")) << code;
  }
}

TEST_F(GroupTest, ADeviceWithoutRoomUntilTheDeadlineAbortsTheGroup) {
  Refuse(SHOAL_RESOURCE_EXHAUSTED);
  EXPECT_EQ(StartOnDevice(3).code, SHOAL_RESOURCE_EXHAUSTED);
  EXPECT_EQ(Calls().front(), "3");
  EXPECT_EQ(Calls().back(), "no 3");
  EXPECT_EQ(std::ranges::count(Calls(), "no 3"), 1);
}

TEST_F(GroupTest, AnOperationThatCanNotFollowTheEarlierOnesInTimeAbortsTheGroup) {
  Refuse(SHOAL_OK);
  std::promise<void> is_ready;
  std::future<shoal_code> earlier = Submit(3, [&is_ready] { is_ready.get_future().wait(); });
  const shoal_error error = StartOnDevice(4);
  EXPECT_EQ(error.code, SHOAL_DEADLINE_EXCEEDED);
  EXPECT_THAT(error.message, HasSubstr("have not left this rank's device"));
  EXPECT_THAT(Calls(), ElementsAre(HasSubstr("have not left this rank's device")));
  is_ready.set_value();
  EXPECT_EQ(EndOf(&earlier), SHOAL_CANCELLED);
}

TEST_F(GroupTest, WhoReadsStatisticsHoldsNoOperationUp) {
  Refuse(SHOAL_OK);
  std::promise<void> go_on;
  {
    const std::lock_guard lock(library.mutex);
    library.go_on = go_on.get_future().share();
  }
  std::future<uint64_t> reading = std::async(std::launch::async, [&] { return session_->Statistics().ops_completed; });
  while (Calls().empty()) std::this_thread::yield();
  {
    const std::lock_guard lock(library.mutex);
    library.go_on = {};
  }
  std::future<shoal_code> submitted = std::async(std::launch::async, [&] {
    std::future<shoal_code> ended = Submit(3, nullptr);
    return EndOf(&ended);
  });
  EXPECT_EQ(submitted.wait_for(kPatience), std::future_status::ready);
  go_on.set_value();
  EXPECT_EQ(submitted.get(), SHOAL_OK);
  EXPECT_EQ(reading.get(), 7u);
}

TEST_F(GroupTest, ACopyThatFailsAbortsTheGroupBeforeTheNextOperationBegins) {
  Refuse(SHOAL_OK);
  std::promise<void> both_are_called;
  std::future<shoal_code> failed = Submit(3, [&both_are_called] {
    both_are_called.get_future().wait();
    throw std::runtime_error("the device is gone");
  });
  std::future<shoal_code> next = Submit(4, nullptr);
  EXPECT_THAT(Calls(), IsEmpty());
  both_are_called.set_value();
  EXPECT_EQ(EndOf(&failed), SHOAL_INTERNAL);
  EXPECT_EQ(EndOf(&next), SHOAL_CANCELLED);
  EXPECT_THAT(Calls(), ElementsAre(HasSubstr("the device is gone"), "4"));
}

// A copy from a device that does not end as long as the test runs.
class EndlessCopy {
 public:
  ~EndlessCopy() { end_.set_value(); }
  std::function<void()> Wait() {
    return [end = end_of_it_] { end.wait(); };
  }

 private:
  std::promise<void> end_;
  std::shared_future<void> end_of_it_ = end_.get_future().share();
};

TEST_F(GroupTest, ACopyThatDoesNotEndFailsItsOperationAtTheDeadlineAndTheNextOnesToo) {
  EndlessCopy copy;
  Refuse(SHOAL_OK);
  std::future<shoal_code> endless = Submit(3, copy.Wait(), 20);
  std::future<shoal_code> behind = Submit(4, copy.Wait(), 600'000);
  std::future<shoal_code> last = Submit(5, nullptr, 600'000);
  EXPECT_EQ(EndOf(&endless), SHOAL_DEADLINE_EXCEEDED);
  EXPECT_EQ(EndOf(&behind), SHOAL_CANCELLED) << "the group is aborted";
  EXPECT_EQ(EndOf(&last), SHOAL_CANCELLED);
  EXPECT_THAT(Calls().front(), HasSubstr("has not done in time what its stream was to do"));
  EXPECT_EQ(Calls().back(), "5");
}

TEST_F(GroupTest, AnAbortDoesNotWaitForCopies) {
  EndlessCopy copy;
  Refuse(SHOAL_OK);
  std::future<shoal_code> endless = Submit(3, copy.Wait(), 600'000);
  group_->Abort("enough");
  EXPECT_EQ(EndOf(&endless), SHOAL_CANCELLED);
  EXPECT_THAT(Calls(), ElementsAre("enough"));
}

TEST_F(GroupTest, WhatCopiesAndEarlierOperationsTookIsMissingFromTheTimeout) {
  Refuse(SHOAL_INVALID_ARGUMENT);
  std::future<shoal_code> copied = Submit(
      3, [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }, 10'000);
  std::future<shoal_code> late = Submit(
      4, [] {}, 20);
  EXPECT_EQ(EndOf(&copied), SHOAL_INVALID_ARGUMENT);
  EXPECT_EQ(EndOf(&late), SHOAL_DEADLINE_EXCEEDED);
  EXPECT_THAT(Calls(), ElementsAre("3", HasSubstr("have left no time for it")));
  const std::lock_guard lock(library.mutex);
  EXPECT_THAT(library.timeout_ms, AllOf(Gt(0), Le(9'900)));
}

TEST_F(GroupTest, GroupsAreClosedWithinSecondsThoughCopiesDoNotEnd) {
  EndlessCopy copy;
  Refuse(SHOAL_OK);
  std::future<shoal_code> endless = Submit(3, copy.Wait(), 600'000);
  group_ = session_->CreateGroup("another", {}, 0, 0, "none", 0);
  std::future<shoal_code> of_another_group = Submit(4, copy.Wait(), 600'000);
  const auto begin = std::chrono::steady_clock::now();
  session_->Close();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(EndOf(&endless), SHOAL_CANCELLED);
  EXPECT_EQ(EndOf(&of_another_group), SHOAL_CANCELLED);
}

// What somebody else does and does not end as long as the test runs.
class EndlessCall {
 public:
  ~EndlessCall() { End(); }
  void Run() {
    began_.set_value();
    end_of_it_.wait();
  }
  bool HasBegun() { return began_.get_future().wait_for(kPatience) == std::future_status::ready; }
  void End() {
    if (end_of_it_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) end_.set_value();
  }
  std::shared_future<void> end() const { return end_of_it_; }

 private:
  std::promise<void> began_;
  std::promise<void> end_;
  std::shared_future<void> end_of_it_ = end_.get_future().share();
};

class ClosingTest : public GroupTest {
 protected:
  ClosingTest() {
    session_->Close();
    Connect({.others_end = std::chrono::milliseconds(50)});
  }
};

TEST_F(ClosingTest, WaitsForNoCallbackOfAnOperationThatDoesNotReturn) {
  for (const shoal_code code : {SHOAL_OK, SHOAL_INTERNAL}) {  // called by a thread of the session; by one of the group
    auto call = std::make_shared<EndlessCall>();
    Refuse(code);
    Operation operation;
    operation.count = 3;
    operation.wait_until_ready = [] {};
    operation.done = [call](const shoal_error& /*result*/, uint64_t /*duration_ns*/) { call->Run(); };
    group_->Submit(std::move(operation));
    ASSERT_TRUE(call->HasBegun());
    EXPECT_THAT(ErrorOfClosing(), HasSubstr("a callback or hook of an all-reduce has not returned 50 ms after"));
    call->End();
    Connect({.others_end = std::chrono::milliseconds(50)});
  }
}

TEST_F(ClosingTest, WaitsForNoCallThatStartsAnOperationOnADeviceAndDoesNotReturn) {
  EndlessCall call;
  Refuse(SHOAL_OK);
  {
    const std::lock_guard lock(library.mutex);
    library.go_on = call.end();
  }
  std::future<void> starting = std::async(std::launch::async, [this] { StartOnDevice(3); });
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (Calls().empty() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_THAT(ErrorOfClosing(), HasSubstr("a call that starts an all-reduce on a device has not returned 50 ms after"));
  call.End();
  starting.wait();
  const std::lock_guard lock(library.mutex);
  library.go_on = {};
}

TEST_F(ClosingTest, WaitsForNoCompletionThatDoesNotCome) {
  Refuse(SHOAL_OK);
  {
    const std::lock_guard lock(library.mutex);
    library.loses_completions = true;
  }
  std::future<shoal_code> ended = Submit(3, nullptr);
  EXPECT_THAT(ErrorOfClosing(), HasSubstr("1 all-reduce(s) of closed groups have not ended"));
  const std::lock_guard lock(library.mutex);
  library.loses_completions = false;
}

}  // namespace
}  // namespace shoal::pytorch
