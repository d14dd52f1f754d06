// What a server decides about its place in the cluster: when to register, to renew the lease, to try again, to give up
// and to leave, and what to report about it.
//
// Pure: answers, commands and time in, calls and outcomes out. One thread. One call is under way at a time. Once it was
// registered it never gives up, unless another process took its place or it was asked to leave: the data plane keeps
// running while the scheduler is away (invariant I6).
#ifndef SHOAL_SERVER_LEASE_REGISTRATION_MACHINE_H_
#define SHOAL_SERVER_LEASE_REGISTRATION_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/failure_detection.h"
#include "core/now.h"
#include "core/retry_pace.h"
#include "server/lease/lease_actions.h"
#include "server/lease/lease_events.h"

namespace shoal {

struct RegistrationOptions {
  std::string scheduler;          // its address, for texts
  uint64_t start_timeout_ms = 0;  // the first registration must succeed within this time
  uint64_t random_seed = 0;       // spreads the retries of servers that lost the scheduler at the same moment
  ServerRegistration registration;
};

class RegistrationMachine {
 public:
  RegistrationMachine(RegistrationOptions options, Now now);

  // An answer to a call that is not under way is ignored.
  void OnEvent(const RegisterAnswered& event, Now now, RegistrationActions* actions);
  void OnEvent(const RenewAnswered& event, Now now, RegistrationActions* actions);
  void OnEvent(const DeregisterAnswered& event, Now now, RegistrationActions* actions);
  void OnEvent(const LeaveRequested& event, Now now, RegistrationActions* actions);
  void OnEvent(const GroupsEnded& event, Now now, RegistrationActions* actions);
  void OnEvent(const RankBecameAbsent& event, Now now, RegistrationActions* actions);
  // Does what time asks for. Call it after events and when NextDeadlineNs() has come; earlier is harmless.
  void Tick(Now now, RegistrationActions* actions);
  // On the monotonic clock; kNoDeadline: nothing is due.
  uint64_t NextDeadlineNs() const;
  // A call was asked for and its answer has not come in.
  bool is_calling() const { return call_.has_value(); }

 private:
  // Whether this ends the call under way.
  bool TakeAnswer(LeaseCallId call);
  LeaseCallId NextCall(uint64_t timeout_ms, Now now);
  void EndOverdueCall(Now now, RegistrationActions* actions);
  void Call(Now now, RegistrationActions* actions);
  void OnFailure(const absl::Status& status, Now now, RegistrationActions* actions);
  void NoteFailure(const absl::Status& newest);
  void ReportOutage(const absl::Status& status, Now now, RegistrationActions* actions);
  void GiveUp(absl::Status why, RegistrationActions* actions);
  void Leave(RegistrationActions* actions);
  uint64_t RenewalIntervalNs() const { return HeartbeatPeriodNs(lease_.ttl_ms * kNsPerMs); }

  const RegistrationOptions options_;
  const uint64_t start_deadline_ns_;
  Jitter jitter_;
  RetryPace retry_pace_{100 * kNsPerMs, kNsPerS};
  bool was_registered_ = false;
  bool holds_lease_ = false;  // as far as this side knows
  bool gave_up_ = false;
  bool asked_to_drain_ = false;
  bool groups_ended_ = false;
  bool leave_requested_ = false;
  std::optional<std::string> deregister_reason_;  // it is to be deregistered
  bool left_ = false;
  ServerLease lease_;
  std::optional<LeaseCallId> call_;         // under way
  uint64_t call_overdue_ns_ = kNoDeadline;  // when to cancel it; kNoDeadline: it was cancelled for that
  uint64_t call_timeout_ms_ = 0;            // of the newest one
  uint64_t calls_ = 0;                      // so far
  uint64_t next_call_ns_ = 0;
  uint64_t last_renewal_ns_ = 0;     // asked for
  bool rank_became_absent_ = false;  // since then
  uint32_t failures_in_row_ = 0;
  uint64_t outage_since_ns_ = 0;
  uint64_t last_report_ns_ = 0;
  std::string last_reported_text_;
  absl::Status last_failure_;
  absl::Status last_answer_;  // that was no success, since the last one that was; OK: none
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LEASE_REGISTRATION_MACHINE_H_
