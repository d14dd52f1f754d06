#include "server/lease/registration_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace shoal {
namespace {

constexpr uint64_t kFirstRetryDelayNs = 100 * kNsPerMs;
constexpr uint64_t kMaxRetryDelayNs = 1000 * kNsPerMs;
constexpr uint64_t kReportIntervalNs = 5 * kNsPerS;
constexpr uint64_t kReportIntervalOfNewTextNs = kNsPerS;
constexpr uint64_t kMinCallTimeoutMs = 1000;
constexpr uint64_t kMaxCallTimeoutMs = 5000;
constexpr uint64_t kRegisterTimeoutMs = 2000;

// Whether the same call can succeed later without anybody mending this server.
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

std::string Seconds(uint64_t duration_ns) { return absl::StrFormat("%.1f s", static_cast<double>(duration_ns) / 1e9); }

// A step of splitmix64.
uint64_t NextRandom(uint64_t* state) {
  uint64_t mixed = *state += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  return mixed ^ mixed >> 31;
}

}  // namespace

RegistrationMachine::RegistrationMachine(std::string scheduler, uint64_t start_timeout_ms, uint64_t random_seed,
                                         Now now)
    : scheduler_(std::move(scheduler)),
      start_timeout_ms_(start_timeout_ms),
      start_deadline_ns_(now.monotonic_ns + start_timeout_ms * kNsPerMs),
      random_(random_seed) {}

RegistrationStep RegistrationMachine::Next(Now now) {
  if (!failure_.ok()) return {.kind = RegistrationStep::Kind::kGiveUp};
  if (!was_registered_ && now.monotonic_ns >= start_deadline_ns_) {
    failure_ = absl::DeadlineExceededError(
        absl::StrCat("not registered with the scheduler at ", scheduler_, " within ",
                     Seconds(start_timeout_ms_ * kNsPerMs), ": ", Text(last_failure_),
                     ". Is shoal-scheduler running there, and is the address right? --timeout says how long to try"));
    return {.kind = RegistrationStep::Kind::kGiveUp};
  }
  if (asked_to_drain_ && !holds_lease_) return {.kind = RegistrationStep::Kind::kLeft};
  if (now.monotonic_ns < next_call_ns_) {
    const uint64_t until = was_registered_ ? next_call_ns_ : std::min(next_call_ns_, start_deadline_ns_);
    return {.kind = RegistrationStep::Kind::kWait, .wait_until_ns = until};
  }
  if (holds_lease_) {
    return {.kind = RegistrationStep::Kind::kRenew,
            .timeout_ms = std::clamp(lease_.ttl_ms / 3, kMinCallTimeoutMs, kMaxCallTimeoutMs)};
  }
  uint64_t timeout_ms = kRegisterTimeoutMs;
  if (!was_registered_) {
    timeout_ms = std::min(timeout_ms, (start_deadline_ns_ - now.monotonic_ns + kNsPerMs - 1) / kNsPerMs);
  }
  return {.kind = RegistrationStep::Kind::kRegister, .timeout_ms = timeout_ms};
}

void RegistrationMachine::OnRegistered(const absl::StatusOr<ServerLease>& answer, Now now) {
  if (!answer.ok()) {
    if (!was_registered_ && !MayPass(answer.status())) {
      failure_ = absl::Status(answer.status().code(), absl::StrCat("the scheduler at ", scheduler_,
                                                                   " refused this server: ", Text(answer.status())));
      return;
    }
    return OnFailure(answer.status(), now);
  }
  if (was_registered_) {
    Report(absl::StrCat("registered again with the scheduler at ", scheduler_, ", epoch ", answer->epoch.value()));
    if (answer->token_key != lease_.token_key) {
      Report(absl::StrCat("WARNING: the scheduler at ", scheduler_,
                          " signs with another key now: it lost its state (start it with --state-file). Open groups go "
                          "on; new ones need tokens of the new key"));
    }
  }
  lease_ = *answer;
  was_registered_ = true;
  holds_lease_ = true;
  failures_in_row_ = 0;
  next_call_ns_ = now.monotonic_ns + RenewalIntervalNs();
}

void RegistrationMachine::OnRenewed(const absl::StatusOr<LeaseRenewal>& answer, Now now) {
  if (absl::IsAborted(answer.status())) {
    failure_ = answer.status();
    return;
  }
  if (absl::IsNotFound(answer.status())) {
    Report(absl::StrCat("the scheduler at ", scheduler_, " does not know this server: ", Text(answer.status())));
    holds_lease_ = false;
    next_call_ns_ = now.monotonic_ns;
    return;
  }
  if (!answer.ok()) return OnFailure(answer.status(), now);
  if (failures_in_row_ > 0) {
    Report(
        absl::StrCat("the scheduler at ", scheduler_, " is back after ", Seconds(now.monotonic_ns - outage_since_ns_)));
  }
  lease_.ttl_ms = answer->ttl_ms;
  lease_.epoch = answer->epoch;
  asked_to_drain_ = asked_to_drain_ || answer->drain;
  failures_in_row_ = 0;
  next_call_ns_ = now.monotonic_ns + RenewalIntervalNs();
}

void RegistrationMachine::OnFailure(const absl::Status& status, Now now) {
  last_failure_ = status;
  if (failures_in_row_++ == 0) outage_since_ns_ = now.monotonic_ns;
  ReportOutage(status, now);
  next_call_ns_ = now.monotonic_ns + RetryDelayNs();
}

void RegistrationMachine::ReportOutage(const absl::Status& status, Now now) {
  std::string text = Text(status);
  const uint64_t interval_ns = text == last_reported_text_ ? kReportIntervalNs : kReportIntervalOfNewTextNs;
  if (failures_in_row_ > 1 && now.monotonic_ns - last_report_ns_ < interval_ns) return;
  Report(was_registered_ ? absl::StrCat("no lease from the scheduler at ", scheduler_, " for ",
                                        Seconds(now.monotonic_ns - outage_since_ns_), ", open groups go on: ", text)
                         : absl::StrCat("waiting for scheduler at ", scheduler_, ": ", text));
  last_report_ns_ = now.monotonic_ns;
  last_reported_text_ = std::move(text);
}

// Twice as long each time, up to a second, and spread over the upper half of that.
uint64_t RegistrationMachine::RetryDelayNs() {
  const uint64_t delay_ns = std::min(kFirstRetryDelayNs << std::min(failures_in_row_ - 1, 8u), kMaxRetryDelayNs);
  return delay_ns / 2 + NextRandom(&random_) % (delay_ns / 2);
}

std::vector<std::string> RegistrationMachine::TakeReports() { return std::exchange(reports_, {}); }

}  // namespace shoal
