#include "scheduler/leading/forwarding_host.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "core/no_leader.h"
#include "process/clock.h"
#include "process/listen_address.h"
#include "process/mutex.h"
#include "process/start_thread.h"
#include "proto/scheduler_channel.h"
#include "scheduler/rpc/control_messages.h"
#include "scheduler/rpc/control_server.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "shoal/v1/status.grpc.pb.h"

namespace shoal::scheduler {
namespace {

using grpc::ByteBuffer;

constexpr char kForwardedKey[] = "shoal-forwarded";
// gRPC's own health service (grpc.health.v1), which a scheduler serves as soon as it listens. An empty message asks for
// the process as a whole.
constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

// When the newest call began to which the leader has said anything: it is there, also if it is slow to answer the
// question whether it is. Any thread.
class LeaderSigns {
 public:
  void NoteAnswered(uint64_t begun_ns) {
    uint64_t known_ns = answered_begun_ns_;
    while (known_ns < begun_ns && !answered_begun_ns_.compare_exchange_weak(known_ns, begun_ns)) continue;
  }
  bool HasAnsweredOneSince(uint64_t ns) const { return answered_begun_ns_ >= ns; }

 private:
  std::atomic<uint64_t> answered_begun_ns_ = 0;
};

// One call: what arrives on one side is sent on the other. A message is read when the one before it has been sent.
// Both sides keep the call until gRPC is done with them. Towards the leader the call is held open until the leader says
// no more: until then a message of either side may still come, and gRPC must not have ended the call when it does.
class ForwardedCall : public std::enable_shared_from_this<ForwardedCall> {
 public:
  ForwardedCall(const std::shared_ptr<grpc::Channel>& leader, std::shared_ptr<LeaderSigns> signs)
      : leader_(leader), signs_(std::move(signs)), begun_ns_(MonotonicNs()) {}

  // The caller's identity is empty where callers are not asked for theirs.
  grpc::ServerGenericBidiReactor* Begin(grpc::GenericCallbackServerContext* from, const CallOrigin& origin) {
    caller_.call = shared_from_this();
    callee_.call = shared_from_this();
    to_.set_deadline(from->deadline());
    to_.AddMetadata(kForwardedKey, "1");
    if (origin.caller.is_known()) to_.AddMetadata(Doorkeeper::kCallerKey, origin.caller.identity);
    to_.AddMetadata(Doorkeeper::kFromKey, origin.from);
    leader_.PrepareBidiStreamingCall(&to_, from->method(), grpc::StubOptions(), &callee_);
    callee_.StartRead(&from_leader_);
    callee_.AddHold();  // until LeaderHasEnded
    callee_.StartCall();
    caller_.StartRead(&from_caller_);
    return &caller_;
  }

  // The caller is told why. Any thread.
  void GiveUp(const char* why) {
    given_up_because_ = why;
    to_.TryCancel();
  }

 private:
  struct Caller : grpc::ServerGenericBidiReactor {
    std::shared_ptr<ForwardedCall> call;

    void OnReadDone(bool ok) override { call->CallerSaid(ok); }
    void OnWriteDone(bool ok) override { call->CallerHeard(ok); }
    void OnCancel() override { call->to_.TryCancel(); }
    void OnDone() override { const std::shared_ptr<ForwardedCall> last = std::move(call); }
  };
  struct Callee : grpc::ClientBidiReactor<ByteBuffer, ByteBuffer> {
    std::shared_ptr<ForwardedCall> call;

    void OnReadDone(bool ok) override { call->LeaderSaid(ok); }
    void OnWriteDone(bool ok) override { call->LeaderHeard(ok); }
    void OnDone(const grpc::Status& status) override {
      const std::shared_ptr<ForwardedCall> last = std::move(call);
      last->LeaderEnded(status);
    }
  };

  void CallerSaid(bool ok) {
    const MutexLock lock(mutex_);
    if (leader_has_ended_) return;  // it has ended the call
    ok ? callee_.StartWrite(&from_caller_) : callee_.StartWritesDone();
  }
  void LeaderHeard(bool ok) {
    const MutexLock lock(mutex_);
    if (ok && !leader_has_ended_) caller_.StartRead(&from_caller_);
  }
  void LeaderSaid(bool ok) {
    if (ok) signs_->NoteAnswered(begun_ns_);
    const MutexLock lock(mutex_);
    ok ? caller_.StartWrite(&from_leader_) : LeaderHasEnded();
  }
  void CallerHeard(bool ok) {
    const MutexLock lock(mutex_);
    if (ok) return callee_.StartRead(&from_leader_);
    to_.TryCancel();
    LeaderHasEnded();
  }
  // Once, since one read or one write to the caller is under way until then.
  void LeaderHasEnded() SHOAL_REQUIRES(mutex_) {
    leader_has_ended_ = true;
    callee_.RemoveHold();
  }
  // Nothing is under way in either direction any more but what the caller may still say.
  void LeaderEnded(const grpc::Status& status) {
    // A caller that gave up does not hear this, so it was this scheduler that cancelled the call.
    caller_.Finish(status.error_code() == grpc::StatusCode::CANCELLED
                       ? grpc::Status(grpc::StatusCode::UNAVAILABLE, given_up_because_.load())
                       : status);
  }

  grpc::GenericStub leader_;
  const std::shared_ptr<LeaderSigns> signs_;
  const uint64_t begun_ns_;
  grpc::ClientContext to_;
  ByteBuffer from_caller_;
  ByteBuffer from_leader_;
  Mutex mutex_;
  bool leader_has_ended_ SHOAL_GUARDED_BY(mutex_) = false;
  std::atomic<const char*> given_up_because_ = kAnotherLeads;
  Caller caller_;
  Callee callee_;
};

class RefusedCall : public grpc::ServerGenericBidiReactor {
 public:
  explicit RefusedCall(const grpc::Status& why) { Finish(why); }
  void OnDone() override { delete this; }
};

// Whether the scheduler at the other end of the channel answers, asked at most for so long. Another thread can end the
// wait with `context`.
bool Answers(const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext* context) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const grpc::Slice nothing;
  const auto call = stub.PrepareUnaryCall(context, kHealthCheck, ByteBuffer(&nothing, 1), &queue);
  call->StartCall();
  ByteBuffer health;
  grpc::Status status;
  call->Finish(&health, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  const auto overdue = context->deadline() + std::chrono::nanoseconds(kCallOverdueNs);
  if (queue.AsyncNext(&tag, &ok, overdue) != grpc::CompletionQueue::GOT_EVENT) {
    context->TryCancel();
    queue.Next(&tag, &ok);
  }
  // Anything else comes from a scheduler.
  return status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED &&
         status.error_code() != grpc::StatusCode::UNAVAILABLE && status.error_code() != grpc::StatusCode::CANCELLED;
}

}  // namespace

class ForwardingHost::Service : public grpc::CallbackGenericService {
 public:
  Service(uint64_t lease_ttl_ms, std::shared_ptr<Doorkeeper> doorkeeper)
      : lease_ttl_ns_(lease_ttl_ms * kNsPerMs), doorkeeper_(std::move(doorkeeper)) {}

  // ResourceExhausted: there is no further thread.
  absl::Status StartProbing() {
    absl::StatusOr<std::thread> started = StartThread("shoal-follow", [this] { ProbeLeader(); });
    if (!started.ok()) return started.status();
    prober_ = *std::move(started);
    return absl::OkStatus();
  }

  // The port that is listened on; 0 if it can't be.
  int Start(const std::string& listen) {
    grpc::EnableDefaultHealthCheckService(true);  // a setting of the whole process that gRPC offers no other way
    grpc::ServerBuilder builder;
    int port = 0;
    ListenOn(listen, &builder, &port, doorkeeper_);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) return 0;
    if (auto* health = server_->GetHealthCheckService()) {
      health->SetServingStatus(v1::Scheduler::service_full_name(), true);
      health->SetServingStatus(v1::Status::service_full_name(), true);
    }
    return port;
  }

  void Stop() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      leader_ = nullptr;
      GiveCallsUp(kAnotherLeads);
      if (probe_ != nullptr) probe_->TryCancel();
    }
    changed_.notify_all();
    if (prober_.joinable()) prober_.join();
    if (server_ == nullptr) return;
    if (auto* health = server_->GetHealthCheckService()) health->Shutdown();
    server_->Shutdown(std::chrono::system_clock::now() + kStopPatience);
    server_->Wait();
    server_.reset();
  }

  void SetLeader(const std::string& address) {
    const MutexLock lock(mutex_);
    if (address == leader_address_) return;
    leader_address_ = address;
    // A leader that was stopped, or cut off, would keep them.
    GiveCallsUp(kAnotherLeads);
    leader_answers_ = true;
    leader_ = address.empty() ? nullptr : OpenSchedulerChannel(address, CredentialsToLeader());
    if (probe_ != nullptr) probe_->TryCancel();
    changed_.notify_all();
  }

  bool leader_answers() const {
    const MutexLock lock(mutex_);
    return leader_answers_;
  }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    const absl::StatusOr<CallOrigin> origin = Doorkeeper::Admit(doorkeeper_.get(), *context, context->method());
    if (!origin.ok()) return new RefusedCall(ToGrpcStatus(origin.status()));
    const MutexLock lock(mutex_);
    if (leader_ == nullptr) {
      return new RefusedCall({grpc::StatusCode::UNAVAILABLE, kNobodyLeads});
    }
    if (context->client_metadata().contains(kForwardedKey)) {
      return new RefusedCall({grpc::StatusCode::UNAVAILABLE, kLeadsNoLonger});
    }
    if (!leader_answers_) return new RefusedCall({grpc::StatusCode::UNAVAILABLE, kLeaderIsSilent});
    std::erase_if(calls_, [](const std::weak_ptr<ForwardedCall>& call) { return call.expired(); });
    const auto call = std::make_shared<ForwardedCall>(leader_, signs_);
    calls_.push_back(call);
    return call->Begin(context, *origin);
  }

 private:
  Credentials CredentialsToLeader() const {
    return doorkeeper_ == nullptr ? Credentials() : doorkeeper_->credentials();
  }

  // The callers repeat their calls.
  void GiveCallsUp(const char* why) SHOAL_REQUIRES(mutex_) {
    for (const std::weak_ptr<ForwardedCall>& each : calls_) {
      if (const std::shared_ptr<ForwardedCall> call = each.lock()) call->GiveUp(why);
    }
    calls_.clear();
  }

  void ProbeLeader() {
    const std::chrono::nanoseconds period(LeaderProbePeriodNs(lease_ttl_ns_));
    const std::chrono::nanoseconds timeout(LeaderProbeTimeoutNs(lease_ttl_ns_));
    MutexLock lock(mutex_);
    while (!stopping_) {
      const std::shared_ptr<grpc::Channel> leader = leader_;
      if (leader == nullptr) {
        changed_.wait(lock);
        continue;
      }
      const uint64_t asked_ns = MonotonicNs();
      grpc::ClientContext probe;
      probe.set_deadline(std::chrono::system_clock::now() + timeout);
      probe_ = &probe;
      lock.unlock();
      const bool answers = Answers(leader, &probe);
      const bool is_there = answers || signs_->HasAnsweredOneSince(asked_ns);
      lock.lock();
      probe_ = nullptr;
      if (stopping_ || leader_ != leader) continue;
      NoteLeader(is_there);
      const std::shared_ptr<grpc::Channel> next = leader_;
      // One that has not answered the question is asked again soon.
      const std::chrono::nanoseconds pause = answers ? period : is_there ? std::chrono::nanoseconds(0) : period / 4;
      changed_.wait_for(lock, pause, [&]() SHOAL_REQUIRES(mutex_) { return stopping_ || leader_ != next; });
    }
  }

  void NoteLeader(bool is_there) SHOAL_REQUIRES(mutex_) {
    leader_answers_ = is_there;
    if (is_there) return;
    GiveCallsUp(kLeaderIsSilent);
    // After a silence TCP would find out late that the path works again: the next question goes over a new connection.
    leader_ = OpenSchedulerChannel(leader_address_, CredentialsToLeader());
  }

  const uint64_t lease_ttl_ns_;
  const std::shared_ptr<Doorkeeper> doorkeeper_;
  const std::shared_ptr<LeaderSigns> signs_ = std::make_shared<LeaderSigns>();
  mutable Mutex mutex_;
  std::condition_variable changed_;  // leader_ or stopping_
  bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
  std::string leader_address_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> leader_ SHOAL_GUARDED_BY(mutex_);
  bool leader_answers_ SHOAL_GUARDED_BY(mutex_) = true;
  grpc::ClientContext* probe_ SHOAL_GUARDED_BY(mutex_) = nullptr;  // the question that waits for its answer
  std::vector<std::weak_ptr<ForwardedCall>> calls_ SHOAL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
  std::thread prober_;
};

absl::StatusOr<std::unique_ptr<ForwardingHost>> ForwardingHost::Listen(const std::string& listen, uint64_t lease_ttl_ms,
                                                                       std::shared_ptr<Doorkeeper> doorkeeper) {
  if (absl::Status status = CheckListenAddress(listen); !status.ok()) return status;
  std::unique_ptr<ForwardingHost> host(new ForwardingHost(lease_ttl_ms, std::move(doorkeeper)));
  if (absl::Status status = host->service_->StartProbing(); !status.ok()) return status;
  const int port = host->service_->Start(listen);
  if (port == 0) return CannotListen(listen);
  host->address_ = WithPort(listen, port);
  return host;
}

ForwardingHost::ForwardingHost(uint64_t lease_ttl_ms, std::shared_ptr<Doorkeeper> doorkeeper)
    : service_(std::make_unique<Service>(lease_ttl_ms, std::move(doorkeeper))) {}

ForwardingHost::~ForwardingHost() { Stop(); }

void ForwardingHost::SetLeader(const std::string& address) { service_->SetLeader(address); }

bool ForwardingHost::leader_answers() const { return service_->leader_answers(); }

void ForwardingHost::Stop() { service_->Stop(); }

}  // namespace shoal::scheduler
