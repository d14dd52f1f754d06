#include "scheduler/machine/traces.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"

namespace shoal::scheduler {

absl::StatusOr<TraceStarted> Traces::Start(const Job& job, TraceKind kind, std::vector<TracedMember> members,
                                           uint64_t duration_ms, uint64_t begun_in_ms, Now now) {
  if (duration_ms < 1 || duration_ms > kMostTraceMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("a trace lasts 1 to ", kMostTraceMs, " ms, not ", duration_ms, " ms"));
  }
  const uint64_t patience_ns = kTraceSendPatienceMs * kNsPerMs;
  if (trace_.has_value() && now.monotonic_ns < trace_->ends_ns + patience_ns && !AllHaveSent(*trace_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("a trace of job \"", trace_->job_name, "\" is under way, for at most ",
                     Seconds(trace_->ends_ns + patience_ns - now.monotonic_ns), " more; try again then"));
  }
  const size_t taking_part = std::min(members.size(), kMostTraceMembers);
  // No two schedulers of a cluster give the same id, as they do not lead at the same time.
  last_id_ = std::max(last_id_ + 1, now.unix_ms);
  trace_ = Trace{.id = last_id_, .kind = kind, .job_name = job.name};
  trace_->most_bytes = std::min(kMostBytesOfTraceRecord, kMostBytesOfTrace / std::max<uint64_t>(taking_part, 1));
  trace_->ends_ns = now.monotonic_ns + (begun_in_ms + duration_ms) * kNsPerMs;
  for (size_t i = 0; i < taking_part; ++i) trace_->members.push_back({.who = std::move(members[i])});
  return TraceStarted{.trace = trace_->id,
                      .ends_in_ms = begun_in_ms + duration_ms,
                      .members = static_cast<uint32_t>(taking_part),
                      .left_out = static_cast<uint32_t>(members.size() - taking_part)};
}

bool Traces::AllHaveSent(const Trace& trace) {
  return std::all_of(trace.members.begin(), trace.members.end(),
                     [](const Member& member) { return member.record.has_value(); });
}

absl::StatusOr<const Traces::Trace*> Traces::Find(uint64_t id) const {
  if (trace_.has_value() && trace_->id == id) return &*trace_;
  return absl::NotFoundError(absl::StrCat(
      "there is no trace ", id,
      " here: the scheduler was started again, another trace has taken its place, or it is older than 5 minutes"));
}

std::optional<TraceRequest> Traces::RequestFor(const TraceMemberId& member, Now now) const {
  if (!trace_.has_value() || now.monotonic_ns >= trace_->ends_ns) return std::nullopt;
  const bool takes_part = std::any_of(trace_->members.begin(), trace_->members.end(),
                                      [&](const Member& each) { return each.who.id == member; });
  if (!takes_part) return std::nullopt;
  return TraceRequest{.id = trace_->id,
                      .kind = trace_->kind,
                      .left_ms = (trace_->ends_ns - now.monotonic_ns) / kNsPerMs,
                      .most_bytes = trace_->most_bytes};
}

absl::Status Traces::Take(const SendTrace& sent) {
  if (absl::StatusOr<const Trace*> found = Find(sent.trace); !found.ok()) return found.status();
  if (sent.record.size() > trace_->most_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the record has ", sent.record.size(), " bytes; at most ", trace_->most_bytes, " were asked for"));
  }
  for (Member& member : trace_->members) {
    if (member.who.id != sent.member || member.who.io_thread != sent.io_thread) continue;
    if (!member.record.has_value()) member.record = sent.record;
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("the sender has no part in the trace of job \"", trace_->job_name,
                                          "\", which is of its members when it began"));
}

absl::StatusOr<TraceView> Traces::View(const GetTrace& request,
                                       const std::function<bool(const TraceMemberId&)>& is_gone, Now now) const {
  const absl::StatusOr<const Trace*> found = Find(request.trace);
  if (!found.ok()) return found.status();
  const Trace& trace = **found;
  if (request.member > trace.members.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("the trace has ", trace.members.size(), " members, and no member ", request.member));
  }
  TraceView view{.trace = trace.id, .job_name = trace.job_name};
  if (now.monotonic_ns < trace.ends_ns) view.ends_in_ms = (trace.ends_ns - now.monotonic_ns) / kNsPerMs + 1;
  for (const Member& member : trace.members) {
    view.members.push_back(
        {.name = member.who.name, .has_sent = member.record.has_value(), .is_gone = is_gone(member.who.id)});
  }
  if (request.member > 0) view.record = trace.members[request.member - 1].record.value_or("");
  return view;
}

void Traces::Tick(Now now) {
  if (now.monotonic_ns >= NextDeadlineNs()) trace_.reset();
}

uint64_t Traces::NextDeadlineNs() const { return trace_.has_value() ? trace_->ends_ns + kTraceKeptNs : kNoDeadline; }

}  // namespace shoal::scheduler
