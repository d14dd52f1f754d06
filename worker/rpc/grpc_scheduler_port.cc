#include "worker/rpc/grpc_scheduler_port.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "core/overloaded.h"
#include "process/clock.h"
#include "process/scheduler_address.h"
#include "proto/scheduler_channel.h"
#include "shoal/v1/scheduler.grpc.pb.h"
#include "worker/rpc/membership_messages.h"

namespace shoal {
namespace {

gpr_timespec AsGprTime(uint64_t deadline_ns) {
  if (deadline_ns == kNoDeadline) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(static_cast<int64_t>(NsUntil(deadline_ns)), GPR_TIMESPAN));
}

// What the port's contract makes of gRPC's codes.
absl::Status AsPortStatus(const grpc::Status& status, bool cancelled, const std::string& address) {
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      // gRPC's own words: the deadline passed here. The scheduler's words name whom it waited for.
      if (status.error_message() == "Deadline Exceeded") return absl::UnavailableError(kNoAnswer);
      break;
    case grpc::StatusCode::UNAVAILABLE:
      return absl::UnavailableError(ShortReason(status.error_message()));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::FailedPreconditionError(absl::StrCat("what answers at ", address,
                                                        " is not a Shoal scheduler of this version (",
                                                        status.error_message(), "); check the address"));
    case grpc::StatusCode::CANCELLED:
      return cancelled ? absl::CancelledError("the call was cancelled") : absl::UnavailableError(kNoAnswer);
    default:
      break;
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

class GrpcSchedulerPort::Connection {
 public:
  Connection(const std::string& target, const Credentials& credentials)
      : stub_(v1::Scheduler::NewStub(OpenSchedulerChannel(target, credentials))) {}

  v1::Scheduler::Stub* operator->() { return stub_.get(); }

 private:
  const std::unique_ptr<v1::Scheduler::Stub> stub_;
};

// What gRPC has a tag of. One tag of it is under way at any time, until it is done.
class GrpcSchedulerPort::Operation {
 public:
  virtual ~Operation() = default;
  // Its tag came back. True: it is done.
  virtual bool OnTag(bool ok, std::vector<SchedulerPortEvent>* events) = 0;
  // Of a call; the stream has none.
  virtual CallId call() const { return CallId(); }
  virtual WatchId watch() const { return WatchId(); }

  void Cancel() {
    cancelled_ = true;
    context_.TryCancel();
  }
  // As if its deadline had passed.
  void EndWithoutAnswer() { context_.TryCancel(); }

 protected:
  explicit Operation(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  const std::shared_ptr<Connection> connection_;
  grpc::ClientContext context_;
  bool cancelled_ = false;
};

template <typename Response>
class GrpcSchedulerPort::UnaryCall : public Operation {
 public:
  UnaryCall(std::shared_ptr<Connection> connection, CallId call, const std::string* address)
      : Operation(std::move(connection)), call_(call), address_(address) {}

  // `begin(stub, context)` starts it on the queue.
  template <typename Begin>
  void Start(uint64_t deadline_ns, const Begin& begin) {
    context_.set_deadline(AsGprTime(deadline_ns));
    reader_ = begin(*connection_, &context_);
    reader_->Finish(&response_, &status_, static_cast<Operation*>(this));
  }

  CallId call() const override { return call_; }

  bool OnTag(bool, std::vector<SchedulerPortEvent>* events) override {
    if (status_.ok() && !cancelled_) {
      events->emplace_back(CallEnded{call_, FromMessage(response_)});
    } else if (cancelled_) {
      events->emplace_back(CallEnded{call_, absl::CancelledError("the call was cancelled")});
    } else {
      events->emplace_back(CallEnded{call_, AsPortStatus(status_, cancelled_, *address_)});
    }
    return true;
  }

 private:
  const CallId call_;
  const std::string* const address_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader_;
  Response response_;
  grpc::Status status_;
};

class GrpcSchedulerPort::WatchStream : public Operation {
 public:
  WatchStream(std::shared_ptr<Connection> connection, WatchId watch)
      : Operation(std::move(connection)), watch_(watch) {}

  void Start(const MemberId& member, grpc::CompletionQueue* queue) {
    v1::WatchRequest request;
    request.set_job_id(member.job.value());
    request.set_rank(member.rank.value());
    request.set_incarnation(member.incarnation.value());
    reader_ = (*connection_)->AsyncWatch(&context_, request, queue, static_cast<Operation*>(this));
  }

  WatchId watch() const override { return watch_; }

  bool OnTag(bool ok, std::vector<SchedulerPortEvent>* events) override {
    if (step_ == Step::kFinishing) {
      if (!cancelled_) events->emplace_back(WatchEnded{watch_});
      return true;
    }
    if (!ok) {
      step_ = Step::kFinishing;
      reader_->Finish(&status_, static_cast<Operation*>(this));
      return false;
    }
    if (step_ == Step::kReading && !cancelled_) events->emplace_back(WatchNewsCame{watch_, FromMessage(response_)});
    step_ = Step::kReading;
    reader_->Read(&response_, static_cast<Operation*>(this));
    return false;
  }

 private:
  enum class Step : uint8_t { kStarting, kReading, kFinishing };

  const WatchId watch_;
  Step step_ = Step::kStarting;
  std::unique_ptr<grpc::ClientAsyncReader<v1::WatchResponse>> reader_;
  v1::WatchResponse response_;
  grpc::Status status_;
};

GrpcSchedulerPort::GrpcSchedulerPort(const std::string& address, const Credentials& credentials)
    : address_(address),
      target_(*SchedulerTarget(address)),
      credentials_(credentials),
      connection_(std::make_shared<Connection>(target_, credentials_)) {}

GrpcSchedulerPort::~GrpcSchedulerPort() {
  for (const auto& [operation, owned] : operations_) operation->Cancel();
  // A stream has another tag to come after its first, which a queue that is shut down does not take.
  while (!operations_.empty()) TakeOne(kNoDeadline);
  alarm_.Cancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

template <typename Request, typename Response, typename Begin>
void GrpcSchedulerPort::StartUnary(CallId call, const Request& request, uint64_t deadline_ns, Begin begin) {
  auto operation = std::make_unique<UnaryCall<Response>>(connection_, call, &address_);
  UnaryCall<Response>* const raw = operation.get();
  calls_[call] = {raw, deadline_ns == kNoDeadline ? kNoDeadline : deadline_ns + kCallOverdueNs};
  operations_[raw] = std::move(operation);
  raw->Start(deadline_ns, [&](Connection& connection, grpc::ClientContext* context) {
    return begin(connection, context, request, &queue_);
  });
}

void GrpcSchedulerPort::StartCall(CallId call, const SchedulerCall& what, uint64_t deadline_ns) {
  std::visit(Overloaded{
                 [&](const JoinJobCall& each) {
                   StartUnary<v1::JoinJobRequest, v1::JoinJobResponse>(
                       call, ToMessage(each), deadline_ns,
                       [](Connection& to, auto* context, const auto& request, auto* queue) {
                         return to->AsyncJoinJob(context, request, queue);
                       });
                 },
                 [&](const JoinGroupCall& each) {
                   StartUnary<v1::JoinGroupRequest, v1::JoinGroupResponse>(
                       call, ToMessage(each), deadline_ns,
                       [](Connection& to, auto* context, const auto& request, auto* queue) {
                         return to->AsyncJoinGroup(context, request, queue);
                       });
                 },
                 [&](const CloseGroupsCall& each) {
                   StartUnary<v1::CloseGroupsRequest, v1::CloseGroupsResponse>(
                       call, ToMessage(each), deadline_ns,
                       [](Connection& to, auto* context, const auto& request, auto* queue) {
                         return to->AsyncCloseGroups(context, request, queue);
                       });
                 },
                 [&](const HeartbeatCall& each) {
                   StartUnary<v1::HeartbeatWorkerRequest, v1::HeartbeatWorkerResponse>(
                       call, ToMessage(each), deadline_ns,
                       [](Connection& to, auto* context, const auto& request, auto* queue) {
                         return to->AsyncHeartbeatWorker(context, request, queue);
                       });
                 },
                 [&](const ReportServerCall& each) {
                   StartUnary<v1::ReportServerRequest, v1::ReportServerResponse>(
                       call, ToMessage(each), deadline_ns,
                       [](Connection& to, auto* context, const auto& request, auto* queue) {
                         return to->AsyncReportServer(context, request, queue);
                       });
                 },
                 [&](const LeaveJobCall& each) {
                   StartUnary<v1::LeaveJobRequest, v1::LeaveJobResponse>(
                       call, ToMessage(each), deadline_ns,
                       [](Connection& to, auto* context, const auto& request, auto* queue) {
                         return to->AsyncLeaveJob(context, request, queue);
                       });
                 },
             },
             what);
}

void GrpcSchedulerPort::CancelCall(CallId call) {
  const auto found = calls_.find(call);
  if (found != calls_.end()) found->second.operation->Cancel();
}

uint64_t GrpcSchedulerPort::EndOverdueCalls() {
  uint64_t next_ns = kNoDeadline;
  const uint64_t now_ns = MonotonicNs();
  for (auto& [id, call] : calls_) {
    if (call.overdue_ns <= now_ns) {
      call.overdue_ns = kNoDeadline;
      call.operation->EndWithoutAnswer();
    }
    next_ns = std::min(next_ns, call.overdue_ns);
  }
  return next_ns;
}

void GrpcSchedulerPort::OpenWatch(WatchId watch, const MemberId& member) {
  auto operation = std::make_unique<WatchStream>(connection_, watch);
  WatchStream* const raw = operation.get();
  watches_[watch] = raw;
  operations_[raw] = std::move(operation);
  raw->Start(member, &queue_);
}

void GrpcSchedulerPort::CloseWatch(WatchId watch) {
  const auto found = watches_.find(watch);
  if (found != watches_.end()) {
    found->second->Cancel();
    watches_.erase(found);
  }
  // What came of it and was not asked for yet.
  std::erase_if(arrived_, [&](const SchedulerPortEvent& event) {
    const auto* const news = std::get_if<WatchNewsCame>(&event);
    const auto* const end = std::get_if<WatchEnded>(&event);
    return (news != nullptr && news->watch == watch) || (end != nullptr && end->watch == watch);
  });
}

void GrpcSchedulerPort::UseNewConnections() { connection_ = std::make_shared<Connection>(target_, credentials_); }

std::span<const SchedulerPortEvent> GrpcSchedulerPort::Poll() {
  while (TakeOne(0)) {
  }
  polled_.clear();
  std::swap(polled_, arrived_);
  return polled_;
}

void GrpcSchedulerPort::SleepUntil(uint64_t deadline_ns) {
  if (arrived_.empty() && !woken_) TakeOne(std::min(deadline_ns, EndOverdueCalls()));
  woken_ = false;
}

void GrpcSchedulerPort::Wake() {
  if (!alarm_is_set_.exchange(true)) alarm_.Set(&queue_, gpr_inf_past(GPR_CLOCK_MONOTONIC), &alarm_);
}

bool GrpcSchedulerPort::TakeOne(uint64_t deadline_ns) {
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, AsGprTime(deadline_ns)) != grpc::CompletionQueue::GOT_EVENT) return false;
  if (tag == &alarm_) {
    alarm_is_set_ = false;
    woken_ = true;
    return true;
  }
  const auto found = operations_.find(static_cast<Operation*>(tag));
  if (!found->second->OnTag(ok, &arrived_)) return true;
  calls_.erase(found->second->call());
  watches_.erase(found->second->watch());
  operations_.erase(found);
  return true;
}

}  // namespace shoal
