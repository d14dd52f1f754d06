#include "proto/trace_sender.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "process/clock.h"
#include "process/scheduler_address.h"
#include "process/start_thread.h"
#include "proto/scheduler_channel.h"

namespace shoal {
namespace {

constexpr std::chrono::seconds kCallTimeout{5};
// Of a trace of the longest duration, under the longest lease.
constexpr uint64_t kLongestLeftMs = kMostTraceMs + 600'000;
constexpr uint64_t kRetryNs = 500 * kNsPerMs;

}  // namespace

TraceSender::TraceSender(std::string scheduler, std::vector<TraceSource> sources,
                         std::function<void(std::string)> report, const Credentials& credentials)
    : scheduler_(std::move(scheduler)),
      credentials_(credentials),
      sources_(std::move(sources)),
      report_(std::move(report)) {}

TraceSender::~TraceSender() { Stop(); }

void TraceSender::Begin(const TraceRequest& trace, const TraceMemberId& member) {
  const MutexLock lock(begin_mutex_);
  if (!takes_part_ || trace.id == last_trace_) return;
  EndLast();
  last_trace_ = trace.id;
  const uint64_t end_ns = DeadlineIn(std::min(trace.left_ms, kLongestLeftMs));
  Sources sources;
  for (const TraceSource& source : sources_) {
    if (source.kind == trace.kind) sources.push_back(&source);
  }
  for (const TraceSource* const source : sources) source->start();
  absl::StatusOr<std::thread> started =
      StartThread("shoal-trace", [this, trace, sources, member, end_ns] { Run(trace, sources, member, end_ns); });
  if (started.ok()) {
    thread_ = *std::move(started);
    return;
  }
  for (const TraceSource* const source : sources) source->stop(0);
  report_(absl::StrCat("takes no part in an operator's trace: ", started.status().message()));
}

void TraceSender::Stop() {
  const MutexLock lock(begin_mutex_);
  takes_part_ = false;
  EndLast();
}

void TraceSender::EndLast() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (call_ != nullptr) call_->TryCancel();
  }
  changed_.notify_all();
  thread_.join();
  const MutexLock lock(mutex_);
  stopping_ = false;
}

bool TraceSender::WaitUntil(uint64_t deadline_ns) {
  MutexLock lock(mutex_);
  return !changed_.wait_until(lock, AsTimePoint(deadline_ns), [this]() SHOAL_REQUIRES(mutex_) { return stopping_; });
}

void TraceSender::Run(const TraceRequest& trace, const Sources& sources, const TraceMemberId& member, uint64_t end_ns) {
  const uint64_t began_ns = MonotonicNs();
  if (!WaitUntil(end_ns)) {
    for (const TraceSource* const source : sources) source->stop(0);
    return;
  }
  v1::SendTraceRequest request;
  request.set_trace_id(trace.id);
  request.set_job_id(member.job.value());
  request.set_rank(member.rank.value());
  request.set_server_id(member.server.value());
  request.set_incarnation(member.incarnation.value());
  const double recorded_s = static_cast<double>(MonotonicNs() - began_ns) / 1e9;
  std::vector<std::string> records;
  for (const TraceSource* const source : sources) {
    std::string record = absl::StrCat(source->name, ", a trace (trace=", trace.id,
                                      absl::StrFormat(") ended: after %.3f s\n", recorded_s));
    record += source->stop(trace.most_bytes - std::min<uint64_t>(trace.most_bytes, record.size()));
    records.push_back(std::move(record));
  }
  const std::unique_ptr<v1::Scheduler::Stub> stub =
      v1::Scheduler::NewStub(OpenSchedulerChannel(*SchedulerTarget(scheduler_), credentials_));
  for (size_t i = 0; i < records.size(); ++i) {
    request.set_io_thread(static_cast<uint32_t>(i));
    request.set_record(std::move(records[i]));
    const absl::Status sent = Send(stub.get(), request, end_ns + kTraceSendPatienceMs * kNsPerMs);
    if (absl::IsCancelled(sent)) return;
    if (!sent.ok()) {
      return report_(absl::StrCat("could not send what it recorded for an operator's trace to the scheduler at ",
                                  scheduler_, ": ", sent.message()));
    }
  }
}

absl::Status TraceSender::Send(v1::Scheduler::Stub* stub, const v1::SendTraceRequest& request, uint64_t deadline_ns) {
  while (true) {
    absl::Status sent = SendOnce(stub, request);
    const bool may_pass = absl::IsUnavailable(sent) || absl::IsDeadlineExceeded(sent);
    if (!may_pass || MonotonicNs() + kRetryNs >= deadline_ns) return sent;
    if (!WaitUntil(MonotonicNs() + kRetryNs)) return absl::CancelledError("stopped");
  }
}

absl::Status TraceSender::SendOnce(v1::Scheduler::Stub* stub, const v1::SendTraceRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCallTimeout);
  {
    const MutexLock lock(mutex_);
    if (stopping_) return absl::CancelledError("stopped");
    call_ = &context;
  }
  v1::SendTraceResponse response;
  const grpc::Status status = stub->SendTrace(&context, request, &response);
  const MutexLock lock(mutex_);
  call_ = nullptr;
  if (stopping_) return absl::CancelledError("stopped");
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), ShortReason(status.error_message()));
}

}  // namespace shoal
