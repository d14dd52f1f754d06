// How a worker comes into its job: asks until a scheduler answers, runs a colocated server if it is told to, waits for
// as many servers as it wants. Pure.
//
// Asking again under the same incarnation changes nothing at the scheduler; it counts the servers.
#ifndef SHOAL_WORKER_MEMBERSHIP_JOINING_H_
#define SHOAL_WORKER_MEMBERSHIP_JOINING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/now.h"
#include "core/retry_pace.h"
#include "core/wait_report.h"
#include "worker/membership/call_book.h"
#include "worker/membership/scheduler_wait.h"

namespace shoal {

class Joining {
 public:
  enum class Phase : uint8_t {
    kIdle,            // not begun, or given up
    kAsking,          // a call is under way
    kPausing,         // until the next call
    kStartingServer,  // waits for OnServerStarted
    kJoined,
    kFailed,  // see failure(); the job may have to be left
  };

  // All outlive it.
  Joining(const std::string* scheduler, const JobMember* member, uint32_t min_servers, CallBook* calls, Jitter* jitter)
      : scheduler_(scheduler), member_(member), min_servers_(min_servers), calls_(calls), jitter_(jitter) {}

  void Begin(uint64_t deadline_ns, Now now, MembershipActions* actions);
  void OnAnswer(const absl::StatusOr<SchedulerAnswer>& answer, Now now, MembershipActions* actions);
  void OnServerStarted(const absl::Status& status, Now now, MembershipActions* actions);
  void GiveUp(MembershipActions* actions);
  void Tick(Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const;

  Phase phase() const { return phase_; }
  bool under_way() const {
    return phase_ == Phase::kAsking || phase_ == Phase::kPausing || phase_ == Phase::kStartingServer;
  }
  // What the scheduler answered last; nullopt: nothing yet. From the first answer on this process is a member.
  const std::optional<JoinedJob>& joined() const { return joined_; }
  // Of kFailed: why.
  const absl::Status& failure() const { return failure_; }
  // Of kFailed: the scheduler takes this process for a member.
  bool is_to_leave() const { return is_to_leave_; }

 private:
  void Ask(Now now, MembershipActions* actions);
  void Pause(uint64_t ns, Now now);
  void Fail(absl::Status why, bool is_to_leave);
  std::string Missing() const;

  const std::string* const scheduler_;
  const JobMember* const member_;
  const uint32_t min_servers_;
  CallBook* const calls_;
  Jitter* const jitter_;

  Phase phase_ = Phase::kIdle;
  CallId call_;
  uint64_t started_ns_ = 0;
  uint64_t deadline_ns_ = 0;
  uint64_t pause_until_ns_ = 0;
  uint64_t attempt_ns_ = 0;  // what the next call may take
  RetryPace pace_{50 * kNsPerMs, kNsPerS};
  std::optional<SchedulerWait> scheduler_wait_;  // since the last answer
  WaitReport servers_wait_;
  std::optional<JoinedJob> joined_;
  bool counted_ = false;  // the last answer says how many servers there are, the own one included
  bool server_asked_ = false;
  absl::Status failure_;
  bool is_to_leave_ = false;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_JOINING_H_
