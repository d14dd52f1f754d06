// Renews a member's lease: a heartbeat is due every third of it, and one that is not answered is repeated before it is
// over (docs/failover.md, F3 and F16). Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_HEARTBEATS_H_
#define SHOAL_WORKER_MEMBERSHIP_HEARTBEATS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/now.h"
#include "core/wait_report.h"
#include "worker/membership/call_book.h"

namespace shoal {

class Heartbeats {
 public:
  // Both outlive it.
  Heartbeats(const std::string* scheduler, CallBook* calls) : scheduler_(scheduler), calls_(calls) {}

  // The lease was granted now, for the first time or again.
  void Start(const MemberId& member, const std::string& job_name, uint64_t lease_ttl_ms, Now now,
             MembershipActions* actions);
  void Stop(MembershipActions* actions);
  void OnStatistics(const WorkerCounters& counters, Now now, MembershipActions* actions);
  void OnAnswer(const absl::StatusOr<SchedulerAnswer>& answer, Now now, MembershipActions* actions);
  // One that waits for its answer over the old ones is repeated over the new ones.
  void OnNewConnections(Now now, MembershipActions* actions);
  // A scheduler refused another call because this process is no member: the next heartbeat asks at once.
  void OnRefusal(Now now);
  void Tick(Now now, MembershipActions* actions);
  uint64_t NextDeadlineNs() const;

  // OK, or how the scheduler ended the membership.
  const absl::Status& end() const { return end_; }

 private:
  enum class Phase : uint8_t { kStopped, kPausing, kReadingStatistics, kCalling };

  void Send(Now now, MembershipActions* actions);
  void Pause(uint64_t until_ns);
  // No answer came, the call broke, or a follower refused it.
  void OnSilence(const absl::Status& why, Now now);
  void OnRefusedByFollower(const absl::Status& why, Now now);
  void OnUnknown(const absl::Status& why, Now now);
  // Of the groups that wait for others, as the scheduler tells.
  void ReportGroupWaits(const HeartbeatAnswer& answer, Now now, MembershipActions* actions);
  void ReportSchedulerIsBack(Now now, MembershipActions* actions);

  const std::string* const scheduler_;
  CallBook* const calls_;
  MemberId member_;
  std::string job_name_;
  WorkerCounters counters_;  // the newest known

  Phase phase_ = Phase::kStopped;
  uint64_t period_ns_ = 0;
  uint64_t due_ns_ = 0;  // of what the phase waits for
  uint64_t sent_ns_ = 0;
  CallId call_;
  uint32_t unanswered_in_row_ = 0;  // one that broke counts as the first
  uint32_t refused_in_row_ = 0;     // by schedulers that are cut off from the leader
  bool is_unknown_ = false;         // the scheduler has said once that it knows no such member
  absl::Status end_;
  std::optional<WaitReport> scheduler_wait_;
  std::string scheduler_wait_reason_;
  std::optional<WaitReport> group_wait_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_HEARTBEATS_H_
