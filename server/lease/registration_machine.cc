#include "server/lease/registration_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/duration_text.h"
#include "core/wait_report.h"

namespace shoal {
namespace {

constexpr uint64_t kReportIntervalNs = 5 * kNsPerS;
constexpr uint64_t kReportIntervalOfNewTextNs = kNsPerS;
constexpr uint64_t kShortestRenewalIntervalNs = 100 * kNsPerMs;
constexpr uint64_t kMinCallTimeoutMs = 1000;
constexpr uint64_t kMaxCallTimeoutMs = 5000;
constexpr uint64_t kRegisterTimeoutMs = 2000;
constexpr uint64_t kDeregisterTimeoutMs = 2000;
constexpr char kAskedToDrain[] = "shoalctl drain";

// Whether the same call can succeed later without a change of this server.
bool MayPass(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAlreadyExists:  // the other server's lease may run out
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kCancelled:  // by a scheduler that stops
      return true;
    default:
      return false;
  }
}

std::string Text(const absl::Status& status) {
  return status.message().empty() ? absl::StatusCodeToString(status.code()) : std::string(status.message());
}

}  // namespace

RegistrationMachine::RegistrationMachine(RegistrationOptions options, Now now)
    : options_(std::move(options)),
      start_deadline_ns_(now.monotonic_ns + options_.start_timeout_ms * kNsPerMs),
      jitter_(options_.random_seed) {}

bool RegistrationMachine::TakeAnswer(LeaseCallId call) {
  if (call_ != call) return false;
  call_.reset();
  return true;
}

LeaseCallId RegistrationMachine::NextCall(uint64_t timeout_ms, Now now) {
  call_ = LeaseCallId(++calls_);
  call_timeout_ms_ = timeout_ms;
  call_overdue_ns_ = now.monotonic_ns + timeout_ms * kNsPerMs + kCallOverdueNs;
  return *call_;
}

void RegistrationMachine::OnEvent(const RegisterAnswered& event, Now now, RegistrationActions* actions) {
  if (!TakeAnswer(event.call)) return;
  const absl::StatusOr<ServerLease>& answer = event.lease;
  if (leave_requested_) {
    // It was registered in spite of the cancellation, so it has to be deregistered.
    if (answer.ok()) lease_ = *answer;
    was_registered_ = was_registered_ || answer.ok();
    return;
  }
  if (was_registered_ && absl::IsAborted(answer.status())) return GiveUp(answer.status(), actions);
  if (!answer.ok()) {
    if (!was_registered_ && !MayPass(answer.status())) {
      return GiveUp(absl::Status(answer.status().code(), absl::StrCat("the scheduler at ", options_.scheduler,
                                                                      " refused this server: ", Text(answer.status()))),
                    actions);
    }
    return OnFailure(answer.status(), now, actions);
  }
  const bool token_key_changed = !was_registered_ || answer->token_key != lease_.token_key;
  if (was_registered_) {
    actions->push_back(LeaseReport{EventKind::kLeaseGrantedAgain,
                                   absl::StrCat("registered again with the scheduler at ", options_.scheduler,
                                                ", epoch ", answer->epoch.value())});
    if (token_key_changed) {
      actions->push_back(LeaseReport{
          EventKind::kTokenKeyChanged,
          absl::StrCat("the scheduler at ", options_.scheduler,
                       " signs with another key now, so it has lost its state; start it with --state-file to keep the "
                       "state. Open groups continue; new groups need tokens signed with the new key")});
    }
  }
  lease_ = *answer;
  was_registered_ = true;
  holds_lease_ = true;
  failures_in_row_ = 0;
  last_answer_ = absl::OkStatus();
  retry_pace_.Reset();
  next_call_ns_ = now.monotonic_ns + RenewalIntervalNs();
  actions->push_back(LeaseGranted{lease_, token_key_changed});
}

void RegistrationMachine::OnEvent(const RenewAnswered& event, Now now, RegistrationActions* actions) {
  if (!TakeAnswer(event.call) || leave_requested_) return;
  const absl::StatusOr<LeaseRenewal>& answer = event.renewal;
  if (absl::IsAborted(answer.status())) return GiveUp(answer.status(), actions);
  if (absl::IsNotFound(answer.status())) {
    actions->push_back(LeaseReport{
        EventKind::kLeaseUnknown,
        absl::StrCat("the scheduler at ", options_.scheduler, " does not know this server: ", Text(answer.status()))});
    holds_lease_ = false;
    next_call_ns_ = now.monotonic_ns;
    return;
  }
  if (!answer.ok()) return OnFailure(answer.status(), now, actions);
  if (failures_in_row_ > 0) {
    actions->push_back(LeaseReport{EventKind::kLeaseRenewedAgain,
                                   absl::StrCat("the scheduler at ", options_.scheduler, " answers again after ",
                                                Seconds(now.monotonic_ns - outage_since_ns_))});
  }
  lease_.ttl_ms = answer->ttl_ms;
  lease_.epoch = answer->epoch;
  failures_in_row_ = 0;
  last_answer_ = absl::OkStatus();
  retry_pace_.Reset();
  next_call_ns_ =
      rank_became_absent_ ? last_renewal_ns_ + kShortestRenewalIntervalNs : now.monotonic_ns + RenewalIntervalNs();
  actions->push_back(LeaseRenewed{lease_.ttl_ms, answer->key_period, answer->scheduler_is_colocated});
  if (answer->trace.has_value()) actions->push_back(ServerTraceAsked{lease_.server, *answer->trace});
  if (answer->drain == asked_to_drain_ || groups_ended_) return;
  asked_to_drain_ = answer->drain;
  if (asked_to_drain_) {
    actions->push_back(
        LeaseReport{EventKind::kDrainAsked, "an operator asked this server to leave; it opens no new group"});
    actions->push_back(DrainAsked{});
  } else {
    actions->push_back(
        LeaseReport{EventKind::kDrainWithdrawn, "an operator asked this server to stay; it takes groups in again"});
    actions->push_back(DrainWithdrawn{});
  }
}

void RegistrationMachine::OnEvent(const DeregisterAnswered& event, Now, RegistrationActions* actions) {
  if (!TakeAnswer(event.call)) return;
  deregister_reason_.reset();
  const bool is_known = !event.status.ok() && !absl::IsNotFound(event.status);
  if (is_known) {
    actions->push_back(
        LeaseReport{EventKind::kLeaveUntold,
                    absl::StrCat("could not tell the scheduler at ", options_.scheduler, " that this server leaves (",
                                 Text(event.status), "); the scheduler will notice when the lease runs out")});
  }
  // A drained server whose process goes on tries once more when that wants to leave.
  if (!is_known || leave_requested_) Leave(actions);
}

void RegistrationMachine::OnEvent(const LeaveRequested& event, Now, RegistrationActions* actions) {
  if (left_ || leave_requested_) return;
  leave_requested_ = true;
  if (!was_registered_ && !call_.has_value()) return Leave(actions);
  // What was asked before must not be done after it: the call under way ends first.
  if (deregister_reason_.has_value()) return;
  deregister_reason_ = event.reason;
  if (call_.has_value()) actions->push_back(CancelLeaseCall{*call_});
}

void RegistrationMachine::OnEvent(const GroupsEnded&, Now, RegistrationActions*) {
  if (!asked_to_drain_ || leave_requested_ || std::exchange(groups_ended_, true)) return;
  deregister_reason_ = kAskedToDrain;
}

void RegistrationMachine::OnEvent(const RankBecameAbsent&, Now, RegistrationActions*) {
  rank_became_absent_ = true;
  // While the lease is not held, or a call has failed, the next one is near.
  if (holds_lease_ && !call_.has_value() && failures_in_row_ == 0) {
    next_call_ns_ = std::min(next_call_ns_, last_renewal_ns_ + kShortestRenewalIntervalNs);
  }
}

void RegistrationMachine::Tick(Now now, RegistrationActions* actions) {
  if (left_) return;
  if (call_.has_value()) return EndOverdueCall(now, actions);
  if (deregister_reason_.has_value()) {
    if (!was_registered_) return Leave(actions);
    actions->push_back(DeregisterCall{.call = NextCall(kDeregisterTimeoutMs, now),
                                      .server = lease_.server,
                                      .incarnation = options_.registration.incarnation,
                                      .reason = *deregister_reason_,
                                      .timeout_ms = kDeregisterTimeoutMs});
    return;
  }
  if (gave_up_ || groups_ended_) return;
  if (!was_registered_ && now.monotonic_ns >= start_deadline_ns_) {
    const bool may_be_nobody = absl::IsUnavailable(last_failure_) || absl::IsDeadlineExceeded(last_failure_);
    const std::string check =
        may_be_nobody ? "If nobody answers there, check that shoal-scheduler is running and that the address is right; "
                      : "";
    return GiveUp(
        absl::DeadlineExceededError(absl::StrCat("not registered with the scheduler at ", options_.scheduler,
                                                 " within ", Seconds(options_.start_timeout_ms * kNsPerMs), ": ",
                                                 Text(last_failure_), ". ", check, "--timeout sets how long to try")),
        actions);
  }
  if (asked_to_drain_ && !holds_lease_) return Leave(actions);
  if (now.monotonic_ns >= next_call_ns_) Call(now, actions);
}

void RegistrationMachine::EndOverdueCall(Now now, RegistrationActions* actions) {
  if (now.monotonic_ns < call_overdue_ns_) return;
  call_overdue_ns_ = kNoDeadline;
  actions->push_back(CancelLeaseCall{*call_});
}

void RegistrationMachine::Call(Now now, RegistrationActions* actions) {
  if (holds_lease_) {
    last_renewal_ns_ = now.monotonic_ns;
    rank_became_absent_ = false;
    const uint64_t timeout_ms = std::clamp(RenewalIntervalNs() / kNsPerMs, kMinCallTimeoutMs, kMaxCallTimeoutMs);
    actions->push_back(RenewCall{.call = NextCall(timeout_ms, now),
                                 .server = lease_.server,
                                 .incarnation = options_.registration.incarnation,
                                 .asked_at_ns = now.monotonic_ns,
                                 .timeout_ms = timeout_ms});
    return;
  }
  uint64_t timeout_ms = kRegisterTimeoutMs;
  if (!was_registered_) {
    timeout_ms = std::min(timeout_ms, (start_deadline_ns_ - now.monotonic_ns + kNsPerMs - 1) / kNsPerMs);
  }
  actions->push_back(
      RegisterCall{.call = NextCall(timeout_ms, now), .registration = options_.registration, .timeout_ms = timeout_ms});
}

uint64_t RegistrationMachine::NextDeadlineNs() const {
  if (left_) return kNoDeadline;
  if (call_.has_value()) return call_overdue_ns_;
  if (deregister_reason_.has_value()) return 0;
  if (gave_up_ || groups_ended_) return kNoDeadline;
  if (asked_to_drain_ && !holds_lease_) return 0;
  return was_registered_ ? next_call_ns_ : std::min(next_call_ns_, start_deadline_ns_);
}

void RegistrationMachine::OnFailure(const absl::Status& status, Now now, RegistrationActions* actions) {
  const bool was_cancelled_as_overdue = call_overdue_ns_ == kNoDeadline;
  NoteFailure(was_cancelled_as_overdue ? absl::DeadlineExceededError("no answer in time") : status);
  if (failures_in_row_++ == 0) outage_since_ns_ = now.monotonic_ns;
  ReportOutage(last_failure_, now, actions);
  // A scheduler that was started again grants its known servers one lease to show up, however short that is.
  const uint64_t longest_ns = was_registered_ ? RenewalIntervalNs() : kNoDeadline;
  next_call_ns_ = now.monotonic_ns + std::min(retry_pace_.Next(&jitter_), longest_ns);
}

// What the scheduler has said tells more than that it has not said anything since.
void RegistrationMachine::NoteFailure(const absl::Status& newest) {
  if (!absl::IsDeadlineExceeded(newest)) {
    last_failure_ = newest;
    last_answer_ = newest;
    return;
  }
  // The end of the start has cut that call short.
  const bool had_no_time = !was_registered_ && call_timeout_ms_ < kRegisterTimeoutMs;
  if (had_no_time && !last_failure_.ok()) return;
  last_failure_ = last_answer_.ok() ? newest
                                    : absl::DeadlineExceededError(absl::StrCat(
                                          Text(newest), "; the last answer before that was: ", Text(last_answer_)));
}

void RegistrationMachine::ReportOutage(const absl::Status& status, Now now, RegistrationActions* actions) {
  std::string text = Text(status);
  const uint64_t interval_ns = text == last_reported_text_ ? kReportIntervalNs : kReportIntervalOfNewTextNs;
  if (failures_in_row_ > 1 && now.monotonic_ns - last_report_ns_ < interval_ns) return;
  const std::string scheduler = absl::StrCat("the scheduler at ", options_.scheduler);
  const WaitReport start(start_deadline_ns_ - options_.start_timeout_ms * kNsPerMs, start_deadline_ns_);
  actions->push_back(LeaseReport{
      EventKind::kLeaseMissing,
      was_registered_ ? absl::StrCat("no lease from ", scheduler, " for ", Seconds(now.monotonic_ns - outage_since_ns_),
                                     ", open groups continue: ", text)
                      : absl::StrCat(start.WaitedFor(scheduler, now.monotonic_ns), ": ", text)});
  last_report_ns_ = now.monotonic_ns;
  last_reported_text_ = std::move(text);
}

void RegistrationMachine::GiveUp(absl::Status why, RegistrationActions* actions) {
  gave_up_ = true;
  actions->push_back(LeaseGivenUp{std::move(why)});
}

void RegistrationMachine::Leave(RegistrationActions* actions) {
  left_ = true;
  actions->push_back(LeftCluster{});
}

}  // namespace shoal
