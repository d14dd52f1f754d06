#include "worker/membership/heartbeats.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/failure_detection.h"
#include "core/no_leader.h"
#include "worker/membership/scheduler_wait.h"

namespace shoal {
namespace {

// Of a period: how soon a heartbeat that was not answered in a whole period is repeated, and how long a heartbeat waits
// for the newest statistics.
constexpr uint64_t kShortPartsOfPeriod = 8;
// Of a period: how soon one is repeated that a scheduler refused because it knows of no leader. Where none leads all
// ranks do this for seconds.
constexpr uint64_t kRefusedPartsOfPeriod = 4;
// So many schedulers are asked in a row if each is cut off from the leader, and if each knows of none: it may be the
// only one that does not.
constexpr uint32_t kAskedAtOnceIfLeaderIsSilent = 4;
constexpr uint32_t kAskedAtOnceIfNobodyLeads = 2;

uint64_t PeriodNs(uint64_t lease_ttl_ms) { return HeartbeatPeriodNs(lease_ttl_ms * kNsPerMs); }

}  // namespace

void Heartbeats::Start(const MemberId& member, const std::string& job_name, uint64_t lease_ttl_ms, Now now,
                       MembershipActions* actions) {
  calls_->Cancel(&call_, actions);
  ReportSchedulerIsBack(now, actions);  // its answer to the join is why this is called
  is_unknown_ = false;
  refused_in_row_ = 0;
  end_ = absl::OkStatus();
  member_ = member;
  job_name_ = job_name;
  period_ns_ = PeriodNs(lease_ttl_ms);
  Pause(now.monotonic_ns + period_ns_);
}

void Heartbeats::Stop(MembershipActions* actions) {
  calls_->Cancel(&call_, actions);
  phase_ = Phase::kStopped;
  scheduler_wait_.reset();
}

void Heartbeats::Pause(uint64_t until_ns) {
  phase_ = Phase::kPausing;
  due_ns_ = until_ns;
}

void Heartbeats::OnStatistics(const WorkerCounters& counters, Now now, MembershipActions* actions) {
  counters_ = counters;
  if (phase_ == Phase::kReadingStatistics) Send(now, actions);
}

void Heartbeats::Send(Now now, MembershipActions* actions) {
  phase_ = Phase::kCalling;
  sent_ns_ = now.monotonic_ns;
  // The first one over new connections comes when a period or more of the lease has passed, and may meet silence again,
  // of another scheduler: half a period leaves time for a third attempt within the lease. Those after that give a slow
  // scheduler its time.
  const uint64_t patience_ns = unanswered_in_row_ == 1 ? period_ns_ / 2 : period_ns_;
  call_ = calls_->Start(CallOwner::kHeartbeats, HeartbeatCall{member_, counters_, sent_ns_}, sent_ns_ + patience_ns,
                        actions);
}

void Heartbeats::OnAnswer(const absl::StatusOr<SchedulerAnswer>& answer, Now now, MembershipActions* actions) {
  call_ = CallId();
  const auto* const renewed = answer.ok() ? std::get_if<HeartbeatAnswer>(&*answer) : nullptr;
  if (absl::IsUnavailable(answer.status())) {
    OnSilence(answer.status(), now);
    if (IsRefusedByFollower(answer.status())) return OnRefusedByFollower(answer.status(), now);
    refused_in_row_ = 0;
    const uint64_t soon_ns = now.monotonic_ns + period_ns_ / kShortPartsOfPeriod;
    // A call that broke may be repeated at the usual pace. But silence takes the lease.
    return Pause(answer.status().message() == kNoAnswer ? soon_ns : std::max(sent_ns_ + period_ns_, soon_ns));
  }
  refused_in_row_ = 0;
  ReportSchedulerIsBack(now, actions);
  if (absl::IsNotFound(answer.status())) return OnUnknown(answer.status(), now);
  // An answer that makes no sense is none.
  if (renewed != nullptr && renewed->lease_ttl_ms > 0) {
    is_unknown_ = false;
    period_ns_ = PeriodNs(renewed->lease_ttl_ms);
    ReportGroupWaits(*renewed, now, actions);
    for (const std::string& line : renewed->news) actions->emplace_back(MembershipNotice{line});
    if (!renewed->ticket.bytes.empty()) actions->emplace_back(TicketCame{renewed->ticket});
    if (renewed->trace.has_value()) actions->emplace_back(TraceAsked{member_, *renewed->trace});
  }
  Pause(sent_ns_ + period_ns_);
}

void Heartbeats::OnNewConnections(Now now, MembershipActions* actions) {
  if (phase_ != Phase::kCalling) return;
  calls_->Cancel(&call_, actions);
  OnSilence(absl::UnavailableError(kNoAnswer), now);
  // The lease has run since the last answer: the old ones may have been silent all that time.
  Pause(now.monotonic_ns + period_ns_ / kShortPartsOfPeriod);
}

void Heartbeats::OnSilence(const absl::Status& why, Now now) {
  if (!scheduler_wait_.has_value()) scheduler_wait_ = WaitReport(now.monotonic_ns, kNoDeadline);
  scheduler_wait_reason_ = std::string(why.message());
  if (IsRefusedByFollower(why)) {
    unanswered_in_row_ = 0;  // the next one goes over the same connections
  } else {
    // A call that broke takes the next one to new connections as well, and a period of the lease is over by then.
    unanswered_in_row_ = why.message() == kNoAnswer ? unanswered_in_row_ + 1 : 1;
  }
}

// Calls take turns with the schedulers. A later heartbeat may meet the same one again and again, when the worker's
// other calls come in the same rhythm; one that follows at once goes to the next, unless another call comes in between.
void Heartbeats::OnRefusedByFollower(const absl::Status& why, Now now) {
  const bool is_silent = why.message() == kLeaderIsSilent;
  const uint32_t asked_at_once = is_silent ? kAskedAtOnceIfLeaderIsSilent : kAskedAtOnceIfNobodyLeads;
  const bool others_may_answer = ++refused_in_row_ % asked_at_once != 0;
  Pause(others_may_answer ? now.monotonic_ns : now.monotonic_ns + period_ns_ / kRefusedPartsOfPeriod);
}

void Heartbeats::OnUnknown(const absl::Status& why, Now now) {
  // A scheduler that led, stood still and goes on may say so once, before it learns that another one leads.
  if (!std::exchange(is_unknown_, true)) return Pause(now.monotonic_ns + period_ns_ / kShortPartsOfPeriod);
  end_ = absl::FailedPreconditionError(absl::StrCat("the scheduler at ", *scheduler_,
                                                    " ended this worker's membership in job \"", job_name_,
                                                    "\": ", why.message(), "; connect again"));
  phase_ = Phase::kStopped;
}

void Heartbeats::OnRefusal(Now now) {
  if (phase_ == Phase::kPausing && !is_unknown_) due_ns_ = std::min(due_ns_, now.monotonic_ns);
}

void Heartbeats::ReportSchedulerIsBack(Now now, MembershipActions* actions) {
  if (scheduler_wait_.has_value() && scheduler_wait_->reported()) {
    actions->emplace_back(MembershipNotice{
        absl::StrCat("the scheduler at ", *scheduler_, " is back after ", scheduler_wait_->Elapsed(now.monotonic_ns))});
  }
  scheduler_wait_.reset();
  unanswered_in_row_ = 0;
}

void Heartbeats::ReportGroupWaits(const HeartbeatAnswer& answer, Now now, MembershipActions* actions) {
  if (answer.waits.empty()) return group_wait_.reset();
  // The scheduler tells only of waits that have lasted.
  if (!group_wait_.has_value()) group_wait_ = WaitReport(now.monotonic_ns, now.monotonic_ns);
  if (!group_wait_->TakeDue(now.monotonic_ns)) return;
  for (const std::string& wait : answer.waits) actions->emplace_back(MembershipNotice{wait});
}

void Heartbeats::Tick(Now now, MembershipActions* actions) {
  if (phase_ == Phase::kStopped) return;
  if (scheduler_wait_.has_value() && scheduler_wait_->TakeDue(now.monotonic_ns)) {
    actions->emplace_back(MembershipNotice{absl::StrCat(
        scheduler_wait_->WaitedFor(absl::StrCat("the scheduler at ", *scheduler_), now.monotonic_ns), " (",
        scheduler_wait_reason_, "): open groups go on; new groups, and moves to other servers, have to wait for it")});
  }
  if (phase_ == Phase::kCalling || now.monotonic_ns < due_ns_) return;
  if (phase_ == Phase::kReadingStatistics) return Send(now, actions);
  phase_ = Phase::kReadingStatistics;
  due_ns_ = now.monotonic_ns + period_ns_ / kShortPartsOfPeriod;
  actions->emplace_back(ReadStatistics{});
}

uint64_t Heartbeats::NextDeadlineNs() const {
  if (phase_ == Phase::kStopped) return kNoDeadline;
  const uint64_t notice_ns = scheduler_wait_.has_value() ? scheduler_wait_->due_ns() : kNoDeadline;
  return phase_ == Phase::kCalling ? notice_ns : std::min(notice_ns, due_ns_);
}

}  // namespace shoal
