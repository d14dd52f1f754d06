// The scheduler's control host over gRPC and under virtual time: both pass the one suite.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <thread>

#include "process/mutex.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "scheduler/rpc/grpc_control_host.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "shoal/v1/status.grpc.pb.h"
#include "sim/sim_control.h"
#include "tests/conformance/control_host/control_host_suite.h"

namespace shoal::scheduler {
namespace {

constexpr std::chrono::seconds kPatience{10};

class GrpcHost : public HostUnderTest {
 public:
  GrpcHost()
      : host_(*GrpcControlHost::Listen("127.0.0.1:0", /*reflection=*/false)),
        channel_(OpenSchedulerChannel(*SchedulerTarget(host_->address()))),
        stub_(v1::Scheduler::NewStub(channel_)),
        status_stub_(v1::Status::NewStub(channel_)) {
    host_->SetWake([this] { Signal(); });
  }
  ~GrpcHost() override {
    CloseWatch();
    for (size_t reader = 0; reader < readers_.size(); ++reader) CloseEvents(reader);
    host_->Stop();
    MutexLock lock(mutex_);
    changed_.wait(lock, [this]() SHOAL_REQUIRES(mutex_) { return open_calls_ == 0; });
  }

  ControlHost* host() override { return host_.get(); }
  void CloseHost() override { host_->Stop(); }

  size_t StartHeartbeat(uint32_t rank, uint64_t timeout_ms) override {
    const MutexLock lock(mutex_);
    Call& call = calls_.emplace_back();
    call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    call.request.set_job_id(5);
    call.request.set_rank(rank);
    ++open_calls_;
    stub_->async()->HeartbeatWorker(&call.context, &call.request, &call.response, [this, &call](grpc::Status status) {
      const MutexLock ended(mutex_);
      call.answer = status.ok() ? Answer(call.response.lease_ttl_ms()) : FromGrpc(status);
      --open_calls_;
      signalled_ = true;
      changed_.notify_all();
    });
    return calls_.size() - 1;
  }
  std::optional<Answer> AnswerTo(size_t call) override {
    const MutexLock lock(mutex_);
    return calls_[call].answer;
  }

  void OpenWatch(JobId job) override {
    watch_ = std::make_unique<Watch>();
    const WatchOpened opened = OpenedBy(job);
    watch_->request.set_job_id(opened.job.value());
    watch_->request.set_rank(opened.rank.value());
    watch_->request.set_incarnation(opened.incarnation.value());
    watch_->reader = stub_->Watch(&watch_->context, watch_->request);
    watch_->thread = std::thread([this] { ReadWatch(); });
  }
  void CloseWatch() override {
    if (watch_ == nullptr) return;
    watch_->context.TryCancel();
    watch_->thread.join();
    watch_.reset();
  }
  Seen SeenByWatch() override {
    const MutexLock lock(mutex_);
    return seen_;
  }

  size_t OpenEvents(bool follow, uint64_t after_sequence, bool reads) override {
    Reader& reader = readers_.emplace_back();
    reader.request.set_follow(follow);
    reader.request.set_after_sequence(after_sequence);
    reader.reads = reads;
    reader.stream = status_stub_->ListEvents(&reader.context, reader.request);
    reader.thread = std::thread([this, &reader] { ReadEvents(&reader); });
    return readers_.size() - 1;
  }
  void Read(size_t reader) override {
    const MutexLock lock(mutex_);
    readers_[reader].reads = true;
    changed_.notify_all();
  }
  void CloseEvents(size_t reader) override {
    Read(reader);
    if (!readers_[reader].thread.joinable()) return;
    readers_[reader].context.TryCancel();
    readers_[reader].thread.join();
  }
  SeenEvents SeenBy(size_t reader) override {
    const MutexLock lock(mutex_);
    return readers_[reader].seen;
  }

  bool Await(const std::function<bool()>& condition) override {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      MutexLock lock(mutex_);
      if (!changed_.wait_until(lock, until, [this]() SHOAL_REQUIRES(mutex_) { return signalled_; })) return false;
      signalled_ = false;
    }
    return true;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::HeartbeatWorkerRequest request;
    v1::HeartbeatWorkerResponse response;
    std::optional<Answer> answer;
  };
  struct Watch {
    grpc::ClientContext context;
    v1::WatchRequest request;
    std::unique_ptr<grpc::ClientReader<v1::WatchResponse>> reader;
    std::thread thread;
  };

  struct Reader {
    grpc::ClientContext context;
    v1::ListEventsRequest request;
    std::unique_ptr<grpc::ClientReader<v1::Event>> stream;
    std::thread thread;
    bool reads = true;  // under mutex_ of the host, as is the next one
    SeenEvents seen;
  };

  void Signal() {
    const MutexLock lock(mutex_);
    signalled_ = true;
    changed_.notify_all();
  }

  static absl::Status FromGrpc(const grpc::Status& status) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

  void ReadEvents(Reader* reader) {
    {
      MutexLock lock(mutex_);
      changed_.wait(lock, [reader] { return reader->reads; });
    }
    v1::Event event;
    while (reader->stream->Read(&event)) {
      const MutexLock lock(mutex_);
      reader->seen.sequences.push_back(event.sequence());
      reader->seen.reasons += event.reason();
      signalled_ = true;
      changed_.notify_all();
    }
    const absl::Status end = FromGrpc(reader->stream->Finish());
    const MutexLock lock(mutex_);
    reader->seen.end = end;
    signalled_ = true;
    changed_.notify_all();
  }

  void ReadWatch() {
    v1::WatchResponse response;
    while (watch_->reader->Read(&response)) {
      const MutexLock lock(mutex_);
      if (response.has_map()) seen_.newest_epoch = response.map().epoch();
      for (const v1::RankLost& lost : response.lost_ranks()) seen_.lost_ranks.push_back(lost.rank());
      signalled_ = true;
      changed_.notify_all();
    }
    const absl::Status end = FromGrpc(watch_->reader->Finish());
    const MutexLock lock(mutex_);
    seen_.end = end;
    signalled_ = true;
    changed_.notify_all();
  }

  Mutex mutex_;
  std::condition_variable changed_;
  bool signalled_ SHOAL_GUARDED_BY(mutex_) = false;
  size_t open_calls_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::deque<Call> calls_ SHOAL_GUARDED_BY(mutex_);
  Seen seen_ SHOAL_GUARDED_BY(mutex_);
  const std::unique_ptr<GrpcControlHost> host_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
  const std::unique_ptr<v1::Status::Stub> status_stub_;
  std::unique_ptr<Watch> watch_;
  std::deque<Reader> readers_;
};

class SimHost : public HostUnderTest {
 public:
  SimHost() : control_(&world_, /*latency_ns=*/1'000'000), host_(std::make_unique<sim::SimControlHost>(&control_)) {
    host_->SetWake([this] { signalled_ = true; });
  }

  ControlHost* host() override { return host_.get(); }
  void CloseHost() override { host_.reset(); }

  size_t StartHeartbeat(uint32_t rank, uint64_t timeout_ms) override {
    const size_t number = answers_.size();
    answers_.emplace_back();
    control_.Call({alive_, "rank"}, HeartbeatWorker{.job = JobId(5), .rank = JobRank(rank)}, timeout_ms * kNsPerMs,
                  [this, number](const absl::StatusOr<Response>& response) {
                    answers_[number] = response.ok() ? Answer(std::get<WorkerRenewed>(*response).lease_ttl_ms)
                                                     : Answer(response.status());
                    signalled_ = true;
                  });
    return number;
  }
  std::optional<Answer> AnswerTo(size_t call) override { return answers_[call]; }

  void OpenWatch(JobId job) override {
    watching_ = std::make_shared<bool>(true);
    const auto take = [this](const SendWatch& update) {
      if (update.map != nullptr) seen_.newest_epoch = update.map->epoch().value();
      for (const RankLost& lost : update.lost_ranks) seen_.lost_ranks.push_back(lost.rank.value());
      signalled_ = true;
    };
    control_.OpenWatch({watching_, "watcher"}, OpenedBy(job), take, [this](const absl::Status& status) {
      seen_.end = status;
      signalled_ = true;
    });
  }
  void CloseWatch() override { watching_.reset(); }
  Seen SeenByWatch() override { return seen_; }

  size_t OpenEvents(bool follow, uint64_t after_sequence, bool reads) override {
    Reader& reader = readers_.emplace_back();
    const std::string name = absl::StrCat("reader ", readers_.size());
    if (!reads) control_.HoldStreams(name, world_.now_ns() + kNsPerS);
    const auto take = [this, &reader](const EventRecord& event) {
      reader.seen.sequences.push_back(event.sequence);
      reader.seen.reasons += event.reason;
      signalled_ = true;
    };
    reader.stream = control_.OpenEvents({reader.alive, name}, {.follow = follow, .after_sequence = after_sequence},
                                        take, [this, &reader](const absl::Status& status) {
                                          reader.seen.end = status;
                                          signalled_ = true;
                                        });
    return readers_.size() - 1;
  }
  void Read(size_t) override {}  // a held stream goes on by itself
  void CloseEvents(size_t reader) override { control_.CloseStream(readers_[reader].stream); }
  SeenEvents SeenBy(size_t reader) override { return readers_[reader].seen; }

  bool Await(const std::function<bool()>& condition) override {
    const uint64_t until_ns = world_.now_ns() + 10 * kNsPerS;
    while (!condition()) {
      while (!signalled_) {
        if (!world_.RunOne(until_ns)) return false;
      }
      signalled_ = false;
    }
    return true;
  }

 private:
  struct Reader {
    std::shared_ptr<bool> alive = std::make_shared<bool>(true);
    WatcherId stream;
    SeenEvents seen;
  };

  sim::World world_{1};
  sim::SimControl control_;
  bool signalled_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::shared_ptr<bool> watching_;
  std::vector<std::optional<Answer>> answers_;
  Seen seen_;
  std::deque<Reader> readers_;
  std::unique_ptr<sim::SimControlHost> host_;
};

INSTANTIATE_TEST_SUITE_P(Hosts, ControlHostSuite,
                         ::testing::Values(HostKind{"Grpc", [] { return std::make_unique<GrpcHost>(); }},
                                           HostKind{"Sim", [] { return std::make_unique<SimHost>(); }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace shoal::scheduler
