#include "worker/membership/server_reports.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"

namespace shoal {
namespace {

constexpr uint64_t kRetryNs = 100 * kNsPerMs;

}  // namespace

void ServerReports::Add(const ServerTrouble& trouble) {
  const auto older = std::find_if(reports_.begin(), reports_.end(), [&](const Report& report) {
    return report.trouble.group == trouble.group && report.trouble.server == trouble.server;
  });
  if (older != reports_.end()) {
    *older = {.trouble = trouble};
  } else {
    reports_.push_back({.trouble = trouble});
  }
}

void ServerReports::OnMoved(GroupId group, Epoch epoch) {
  std::erase_if(reports_,
                [&](const Report& report) { return report.trouble.group == group && report.trouble.epoch < epoch; });
}

void ServerReports::OnEnded(GroupId group) {
  std::erase_if(reports_, [&](const Report& report) { return report.trouble.group == group; });
}

absl::Status ServerReports::NeverMoved(const ServerTrouble& trouble, JobRank rank, const absl::Status& refusal) const {
  return absl::FailedPreconditionError(absl::StrCat("it can't go on with one of its servers (", trouble.reason,
                                                    "), and the scheduler at ", *scheduler_, " gives rank ",
                                                    rank.value(), " of job \"", self_->job_name, "\" on node ",
                                                    self_->node, " no other: ", refusal.message()));
}

void ServerReports::OnAnswer(const absl::Status& status, const JoinedJob& joined, Now now, MembershipActions* actions) {
  call_ = CallId();
  if (absl::IsUnavailable(status)) retry_ns_ = now.monotonic_ns + kRetryNs;
  const auto report = std::find_if(reports_.begin(), reports_.end(), [](const Report& each) { return each.is_asked; });
  if (report == reports_.end()) return;  // a newer one has taken its place, or it is over
  report->is_asked = false;
  if (absl::IsUnavailable(status)) return;
  report->due_ns = now.monotonic_ns + jitter_->Of(RepeatAfterNs(++report->answers, joined.lease_ttl_ms));
  if (!report->refusals.Note(status)) return;
  const ServerTrouble trouble = report->trouble;
  OnEnded(trouble.group);
  actions->emplace_back(GiveGroupUpCommand{trouble.group, NeverMoved(trouble, joined.rank, status)});
}

void ServerReports::Stop(MembershipActions* actions) {
  calls_->Cancel(&call_, actions);
  reports_.clear();
}

void ServerReports::Tick(const MemberId& member, Now now, MembershipActions* actions) {
  if (call_ != CallId() || now.monotonic_ns < retry_ns_) return;
  const auto due = std::find_if(reports_.begin(), reports_.end(),
                                [&](const Report& report) { return report.due_ns <= now.monotonic_ns; });
  if (due == reports_.end()) return;
  due->is_asked = true;
  call_ = calls_->Start(CallOwner::kReports, ReportServerCall{member, due->trouble},
                        now.monotonic_ns + kReportTimeoutNs, actions);
}

uint64_t ServerReports::NextDeadlineNs() const {
  if (call_ != CallId()) return kNoDeadline;
  uint64_t next_ns = kNoDeadline;
  for (const Report& report : reports_) next_ns = std::min(next_ns, report.due_ns);
  return std::max(next_ns, retry_ns_);
}

}  // namespace shoal
