// The scheduler's control host over gRPC and under virtual time: both pass the one suite.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "scheduler/rpc/grpc_control_host.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "sim/sim_control.h"
#include "tests/conformance/control_host/control_host_suite.h"

namespace shoal::scheduler {
namespace {

constexpr std::chrono::seconds kPatience{10};

class GrpcHost : public HostUnderTest {
 public:
  GrpcHost()
      : host_(*GrpcControlHost::Listen("127.0.0.1:0", /*reflection=*/false)),
        stub_(v1::Scheduler::NewStub(OpenSchedulerChannel(*SchedulerTarget(host_->address())))) {
    host_->SetWake([this] { Signal(); });
  }
  ~GrpcHost() override {
    CloseWatch();
    host_->Stop();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_calls_ == 0; });
  }

  ControlHost* host() override { return host_.get(); }
  void CloseHost() override { host_->Stop(); }

  size_t StartHeartbeat(uint32_t rank, uint64_t timeout_ms) override {
    const std::lock_guard lock(mutex_);
    Call& call = calls_.emplace_back();
    call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
    call.request.set_job_id(5);
    call.request.set_rank(rank);
    ++open_calls_;
    stub_->async()->HeartbeatWorker(&call.context, &call.request, &call.response, [this, &call](grpc::Status status) {
      const std::lock_guard ended(mutex_);
      call.answer = status.ok()
                        ? Answer(call.response.lease_ttl_ms())
                        : absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
      --open_calls_;
      signalled_ = true;
      changed_.notify_all();
    });
    return calls_.size() - 1;
  }
  std::optional<Answer> AnswerTo(size_t call) override {
    const std::lock_guard lock(mutex_);
    return calls_[call].answer;
  }

  void OpenWatch(JobId job) override {
    watch_ = std::make_unique<Watch>();
    const WatchOpened opened = OpenedBy(job);
    watch_->request.set_job_id(opened.job.value());
    watch_->request.set_rank(opened.rank.value());
    watch_->request.set_incarnation(opened.incarnation.value());
    watch_->reader = stub_->Watch(&watch_->context, watch_->request);
    watch_->thread = std::thread([this] { Read(); });
  }
  void CloseWatch() override {
    if (watch_ == nullptr) return;
    watch_->context.TryCancel();
    watch_->thread.join();
    watch_.reset();
  }
  Seen SeenByWatch() override {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

  bool Await(const std::function<bool()>& condition) override {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_until(lock, until, [this] { return signalled_; })) return false;
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

  void Signal() {
    const std::lock_guard lock(mutex_);
    signalled_ = true;
    changed_.notify_all();
  }

  void Read() {
    v1::WatchResponse response;
    while (watch_->reader->Read(&response)) {
      const std::lock_guard lock(mutex_);
      if (response.has_map()) seen_.newest_epoch = response.map().epoch();
      for (const v1::RankLost& lost : response.lost_ranks()) seen_.lost_ranks.push_back(lost.rank());
      signalled_ = true;
      changed_.notify_all();
    }
    watch_->reader->Finish();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool signalled_ = false;  // under mutex_, as are the next ones
  size_t open_calls_ = 0;
  std::deque<Call> calls_;
  Seen seen_;
  const std::unique_ptr<GrpcControlHost> host_;
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
  std::unique_ptr<Watch> watch_;
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
    control_.OpenWatch({watching_, "watcher"}, OpenedBy(job), take, /*ended=*/[] {});
  }
  void CloseWatch() override { watching_.reset(); }
  Seen SeenByWatch() override { return seen_; }

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
  sim::World world_{1};
  sim::SimControl control_;
  bool signalled_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::shared_ptr<bool> watching_;
  std::vector<std::optional<Answer>> answers_;
  Seen seen_;
  std::unique_ptr<sim::SimControlHost> host_;
};

INSTANTIATE_TEST_SUITE_P(Hosts, ControlHostSuite,
                         ::testing::Values(HostKind{"Grpc", [] { return std::make_unique<GrpcHost>(); }},
                                           HostKind{"Sim", [] { return std::make_unique<SimHost>(); }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace shoal::scheduler
