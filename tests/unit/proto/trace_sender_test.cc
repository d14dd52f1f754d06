// The sender of traces against a scheduler that is asked over gRPC, and takes or refuses records.
#include "proto/trace_sender.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "process/mutex.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr std::chrono::seconds kPatience{20};

class FakeScheduler : public v1::Scheduler::Service {
 public:
  FakeScheduler() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  ~FakeScheduler() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // How the next calls are answered; after them, with OK.
  void Answer(std::vector<grpc::Status> answers) {
    const MutexLock lock(mutex_);
    answers_ = std::move(answers);
  }
  // The calls are not answered until their callers give up.
  void BeSilent() {
    const MutexLock lock(mutex_);
    silent_ = true;
  }

  // Waits for so many calls.
  std::vector<v1::SendTraceRequest> Await(size_t calls) {
    MutexLock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&]() SHOAL_REQUIRES(mutex_) { return calls_.size() >= calls; }));
    return calls_;
  }

  grpc::Status SendTrace(grpc::ServerContext* context, const v1::SendTraceRequest* request,
                         v1::SendTraceResponse*) override {
    MutexLock lock(mutex_);
    calls_.push_back(*request);
    changed_.notify_all();
    while (silent_ && !context->IsCancelled()) changed_.wait_for(lock, std::chrono::milliseconds(5));
    if (answers_.empty()) return grpc::Status::OK;
    const grpc::Status answer = answers_.front();
    answers_.erase(answers_.begin());
    return answer;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<grpc::Status> answers_ SHOAL_GUARDED_BY(mutex_);
  std::vector<v1::SendTraceRequest> calls_ SHOAL_GUARDED_BY(mutex_);  // that came
  bool silent_ SHOAL_GUARDED_BY(mutex_) = false;
};

// Two transports and the results, which say what they were asked for.
class TraceSenderTest : public ::testing::Test {
 protected:
  std::vector<TraceSource> Sources() {
    std::vector<TraceSource> sources;
    for (const std::string name : {"first", "second", "third"}) {
      sources.push_back({.kind = name == "third" ? TraceKind::kDigests : TraceKind::kConnections,
                         .name = name,
                         .start = [this, name] { Note(absl::StrCat(name, " starts")); },
                         .stop =
                             [this, name](size_t most_bytes) {
                               Note(absl::StrCat(name, " stops"));
                               most_bytes_ = most_bytes;
                               return absl::StrCat("text of ", name, "\n");
                             }});
    }
    return sources;
  }
  void Note(const std::string& what) {
    const MutexLock lock(mutex_);
    notes_.push_back(what);
  }
  std::vector<std::string> reports() {
    const MutexLock lock(mutex_);
    return reports_;
  }
  void AwaitReport() {
    MutexLock lock(mutex_);
    EXPECT_TRUE(reported_.wait_for(lock, kPatience, [&]() SHOAL_REQUIRES(mutex_) { return !reports_.empty(); }));
  }
  std::vector<std::string> notes() {
    const MutexLock lock(mutex_);
    return notes_;
  }

  FakeScheduler scheduler_;
  Mutex mutex_;
  std::vector<std::string> notes_ SHOAL_GUARDED_BY(mutex_);
  size_t most_bytes_ = 0;  // of the trace's thread; then of who has stopped the sender
  std::vector<std::string> reports_ SHOAL_GUARDED_BY(mutex_);
  std::condition_variable reported_;
  TraceSender sender_{scheduler_.address(), Sources(), [this](std::string text) {
                        const MutexLock lock(mutex_);
                        reports_.push_back(std::move(text));
                        reported_.notify_all();
                      }};
  const TraceMemberId rank_{.job = JobId(3), .rank = JobRank(2), .incarnation = Incarnation(77)};
};

TEST_F(TraceSenderTest, RecordsUntilTheEndAndSendsWhatEachTransportDid) {
  const auto begun = std::chrono::steady_clock::now();
  sender_.Begin({.id = 9, .left_ms = 150, .most_bytes = 1000}, rank_);
  EXPECT_THAT(notes(), ElementsAre("first starts", "second starts"));
  const std::vector<v1::SendTraceRequest> sent = scheduler_.Await(2);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(150));
  sender_.Stop();
  ASSERT_THAT(sent, SizeIs(2));
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sent[i].trace_id(), 9u);
    EXPECT_EQ(sent[i].job_id(), 3u);
    EXPECT_EQ(sent[i].rank(), 2u);
    EXPECT_EQ(sent[i].server_id(), 0u);
    EXPECT_EQ(sent[i].incarnation(), 77u);
    EXPECT_EQ(sent[i].io_thread(), i);
  }
  EXPECT_THAT(sent[1].record(),
              MatchesRegex("second, a trace \\(trace=9\\) ended: after 0\\.[0-9]+ s\ntext of second\n"));
  EXPECT_LT(most_bytes_, 1000u) << "the first line counts as well";
  EXPECT_GT(most_bytes_, 900u);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(TraceSenderTest, RecordsWhatIsAskedFor) {
  sender_.Begin({.id = 9, .kind = TraceKind::kDigests, .left_ms = 10, .most_bytes = 1000}, rank_);
  const std::vector<v1::SendTraceRequest> sent = scheduler_.Await(1);
  sender_.Stop();
  EXPECT_THAT(notes(), ElementsAre("third starts", "third stops"));
  ASSERT_THAT(scheduler_.Await(1), SizeIs(1));
  EXPECT_EQ(sent[0].io_thread(), 0u) << "the first of its kind";
  EXPECT_THAT(sent[0].record(), testing::EndsWith("text of third\n"));
}

TEST_F(TraceSenderTest, BeginsOnceAlthoughEachHeartbeatSaysItAgain) {
  for (int i = 0; i < 3; ++i) sender_.Begin({.id = 9, .left_ms = 50, .most_bytes = 1000}, rank_);
  scheduler_.Await(2);
  sender_.Begin({.id = 9, .left_ms = 0, .most_bytes = 1000}, rank_);
  sender_.Stop();
  EXPECT_THAT(notes(), ElementsAre("first starts", "second starts", "first stops", "second stops"));
  EXPECT_THAT(scheduler_.Await(2), SizeIs(2));
}

TEST_F(TraceSenderTest, ATraceThatComesEarlyTakesThePlaceOfTheLast) {
  sender_.Begin({.id = 9, .left_ms = 60'000, .most_bytes = 1000}, rank_);
  sender_.Begin({.id = 10, .left_ms = 10, .most_bytes = 1000}, rank_);
  for (const v1::SendTraceRequest& sent : scheduler_.Await(2)) EXPECT_EQ(sent.trace_id(), 10u);
}

TEST_F(TraceSenderTest, TriesAgainWhileNoSchedulerCanTakeIt) {
  scheduler_.Answer({{grpc::StatusCode::UNAVAILABLE, "nobody leads"}});
  sender_.Begin({.id = 9, .left_ms = 10, .most_bytes = 1000}, rank_);
  const std::vector<v1::SendTraceRequest> sent = scheduler_.Await(3);
  EXPECT_EQ(sent[0].record(), sent[1].record());
  EXPECT_EQ(sent[2].io_thread(), 1u);
  sender_.Stop();
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(TraceSenderTest, ReportsARefusalAndSendsNoMore) {
  scheduler_.Answer({{grpc::StatusCode::NOT_FOUND, "there is no trace 9 here"}});
  sender_.Begin({.id = 9, .left_ms = 10, .most_bytes = 1000}, rank_);
  AwaitReport();
  sender_.Begin({.id = 10, .left_ms = 10, .most_bytes = 1000}, rank_);
  EXPECT_THAT(scheduler_.Await(3), SizeIs(3)) << "the next trace is another matter";
  sender_.Stop();
  EXPECT_THAT(reports(), ElementsAre(HasSubstr("there is no trace 9 here")));
}

TEST_F(TraceSenderTest, StopsAtOnceInTheMiddleOfATraceAndOfACall) {
  sender_.Begin({.id = 9, .left_ms = 60'000, .most_bytes = 1000}, rank_);
  sender_.Stop();
  EXPECT_THAT(notes(), ElementsAre("first starts", "second starts", "first stops", "second stops"));
  sender_.Begin({.id = 10, .left_ms = 10, .most_bytes = 1000}, rank_);
  EXPECT_THAT(notes(), SizeIs(4)) << "it takes part in no other";
  EXPECT_THAT(scheduler_.Await(0), IsEmpty());
  TraceSender other(scheduler_.address(), Sources(), [](const std::string&) { FAIL() << "nobody wants to know"; });
  scheduler_.BeSilent();
  other.Begin({.id = 9, .left_ms = 10, .most_bytes = 1000}, rank_);
  scheduler_.Await(1);
  const auto begun = std::chrono::steady_clock::now();
  other.Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(3)) << "a call may take 5 s";
}

}  // namespace
}  // namespace shoal
