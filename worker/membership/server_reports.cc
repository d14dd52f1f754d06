#include "worker/membership/server_reports.h"

#include <algorithm>

#include "core/failure_detection.h"

namespace shoal {
namespace {

constexpr uint64_t kTimeoutNs = kReportTimeoutNs;
constexpr uint64_t kRetryNs = 100 * kNsPerMs;

}  // namespace

void ServerReports::Add(const ServerTrouble& trouble) {
  const auto first = waiting_.begin() + (call_ == CallId() || waiting_.empty() ? 0 : 1);
  const auto older = std::find_if(first, waiting_.end(), [&](const ServerTrouble& other) {
    return other.group == trouble.group && other.server == trouble.server;
  });
  if (older != waiting_.end()) {
    *older = trouble;
  } else {
    waiting_.push_back(trouble);
  }
}

void ServerReports::OnAnswer(const absl::Status& status, Now now) {
  call_ = CallId();
  if (absl::IsUnavailable(status)) {
    retry_ns_ = now.monotonic_ns + kRetryNs;
    return;
  }
  retry_ns_ = 0;
  waiting_.pop_front();
}

void ServerReports::Stop(MembershipActions* actions) {
  calls_->Cancel(&call_, actions);
  waiting_.clear();
}

void ServerReports::Tick(const MemberId& member, Now now, MembershipActions* actions) {
  if (waiting_.empty() || call_ != CallId() || now.monotonic_ns < retry_ns_) return;
  call_ = calls_->Start(CallOwner::kReports, ReportServerCall{member, waiting_.front()}, now.monotonic_ns + kTimeoutNs,
                        actions);
}

uint64_t ServerReports::NextDeadlineNs() const {
  return waiting_.empty() || call_ != CallId() ? kNoDeadline : retry_ns_;
}

}  // namespace shoal
