#include "scheduler/insight/traces.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"

namespace shoal::scheduler {

// A large job may have more members than take part: its servers come first, as there are few of them.
std::vector<Traces::Member> Traces::MembersToTrace(const Job& job, const ServerRegistry& servers, TraceKind kind) {
  std::set<ServerId> used;
  for (const auto& [id, group] : job.groups.all()) {
    if (kind == TraceKind::kDigests) break;  // servers have no results
    for (const Shard& shard : group.state().shards) used.insert(shard.server);
  }
  std::vector<Member> members;
  for (const ServerId id : used) {
    const ServerState* const server = servers.FindLive(id);
    if (server == nullptr) continue;
    for (uint32_t i = 0; i < server->addresses.size(); ++i) {
      members.push_back({.name = absl::StrCat("I/O thread ", i, " of server ", server->name),
                         .id = {.server = id, .incarnation = server->incarnation},
                         .io_thread = i});
    }
  }
  for (const auto& [rank, worker] : job.workers) {
    if (worker.state.phase != MemberPhase::kLive) continue;
    members.push_back({.name = absl::StrCat("rank ", rank.value(), " on ", worker.state.node),
                       .id = {.job = job.id, .rank = rank, .incarnation = worker.state.incarnation}});
  }
  return members;
}

absl::StatusOr<TraceStarted> Traces::Start(const TraceJob& request, const Job& job, const ServerRegistry& servers,
                                           uint64_t begun_in_ms, Now now) {
  if (request.kind >= kTraceKinds) {
    return absl::InvalidArgumentError(
        absl::StrCat("this scheduler does not know traces of kind ", request.kind, "; update it"));
  }
  const uint64_t duration_ms = request.duration_ms;
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
  const auto kind = static_cast<TraceKind>(request.kind);
  std::vector<Member> members = MembersToTrace(job, servers, kind);
  const size_t left_out = members.size() - std::min(members.size(), kMostTraceMembers);
  members.resize(members.size() - left_out);
  // No two schedulers of a cluster give the same id, as they do not lead at the same time.
  last_id_ = std::max(last_id_ + 1, now.unix_ms);
  trace_ = Trace{.id = last_id_, .kind = kind, .job_name = job.name};
  trace_->most_bytes = std::min(kMostBytesOfTraceRecord, kMostBytesOfTrace / std::max<uint64_t>(members.size(), 1));
  trace_->ends_ns = now.monotonic_ns + (begun_in_ms + duration_ms) * kNsPerMs;
  trace_->members = std::move(members);
  return TraceStarted{.trace = trace_->id,
                      .ends_in_ms = begun_in_ms + duration_ms,
                      .members = static_cast<uint32_t>(trace_->members.size()),
                      .left_out = static_cast<uint32_t>(left_out)};
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
                                      [&](const Member& each) { return each.id == member; });
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
    if (member.id != sent.member || member.io_thread != sent.io_thread) continue;
    if (!member.record.has_value()) member.record = sent.record;
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("the sender has no part in the trace of job \"", trace_->job_name,
                                          "\", which is of its members when it began"));
}

absl::StatusOr<TraceView> Traces::View(const GetTrace& request, const JobRegistry& jobs, const ServerRegistry& servers,
                                       Now now) const {
  const absl::StatusOr<const Trace*> found = Find(request.trace);
  if (!found.ok()) return found.status();
  const Trace& trace = **found;
  if (request.member > trace.members.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("the trace has ", trace.members.size(), " members, and no member ", request.member));
  }
  TraceView view{.trace = trace.id, .job_name = trace.job_name};
  if (now.monotonic_ns < trace.ends_ns) view.ends_in_ms = (trace.ends_ns - now.monotonic_ns) / kNsPerMs + 1;
  const auto is_gone = [&](const TraceMemberId& id) {
    if (id.job != JobId()) return !jobs.FindMember(id.job, id.rank, id.incarnation).ok();
    const ServerState* const server = servers.FindLive(id.server);
    return server == nullptr || server->incarnation != id.incarnation;
  };
  for (const Member& member : trace.members) {
    view.members.push_back({.name = member.name, .has_sent = member.record.has_value(), .is_gone = is_gone(member.id)});
  }
  if (request.member > 0) view.record = trace.members[request.member - 1].record.value_or("");
  return view;
}

void Traces::Tick(Now now) {
  if (now.monotonic_ns >= NextDeadlineNs()) trace_.reset();
}

uint64_t Traces::NextDeadlineNs() const { return trace_.has_value() ? trace_->ends_ns + kTraceKeptNs : kNoDeadline; }

}  // namespace shoal::scheduler
