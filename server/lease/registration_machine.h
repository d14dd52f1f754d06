// What a server decides about its place in the cluster: when to register, to renew the lease, to try again, to give up,
// and what to tell people about it.
//
// Pure: answers and time in, the next thing to do out. One thread. It never gives up once it was registered, unless
// another process took its place or it was asked to leave: the data plane keeps running while the scheduler is away
// (invariant I6).
#ifndef SHOAL_SERVER_LEASE_REGISTRATION_MACHINE_H_
#define SHOAL_SERVER_LEASE_REGISTRATION_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/now.h"
#include "server/lease/control_link.h"

namespace shoal {

struct RegistrationStep {
  enum class Kind { kWait, kRegister, kRenew, kGiveUp, kLeft };

  Kind kind = Kind::kWait;
  uint64_t wait_until_ns = 0;  // kWait
  uint64_t timeout_ms = 0;     // of the call that kRegister and kRenew ask for
};

class RegistrationMachine {
 public:
  // `scheduler` is for texts. The first registration must succeed within start_timeout_ms of `now`. `random_seed`
  // spreads the retries of servers that lost the scheduler at the same moment.
  RegistrationMachine(std::string scheduler, uint64_t start_timeout_ms, uint64_t random_seed, Now now);

  // What to do now. After kRegister or kRenew, hand in the answer before asking again.
  RegistrationStep Next(Now now);
  void OnRegistered(const absl::StatusOr<ServerLease>& answer, Now now);
  void OnRenewed(const absl::StatusOr<LeaseRenewal>& answer, Now now);

  // True from the first registration on, also while the scheduler is away.
  bool was_registered() const { return was_registered_; }
  // The scheduler wants the server to leave. It renews its lease until the caller lets it; kLeft: it is out.
  bool asked_to_drain() const { return asked_to_drain_; }
  // The last one that was granted.
  const ServerLease& lease() const { return lease_; }
  // Why kGiveUp. The scheduler's refusal at the start; DeadlineExceeded: it did not answer in time (the text says what
  // happened instead); Aborted: another process took this server's place.
  const absl::Status& failure() const { return failure_; }

  // Lines for the log since the last call, oldest first.
  std::vector<std::string> TakeReports();

 private:
  void OnFailure(const absl::Status& status, Now now);
  void Report(std::string line) { reports_.push_back(std::move(line)); }
  void ReportOutage(const absl::Status& status, Now now);
  uint64_t RetryDelayNs();
  uint64_t RenewalIntervalNs() const { return lease_.ttl_ms * kNsPerMs / 3; }

  const std::string scheduler_;
  const uint64_t start_timeout_ms_;
  const uint64_t start_deadline_ns_;
  uint64_t random_;
  bool was_registered_ = false;
  bool holds_lease_ = false;  // as far as this side knows
  bool asked_to_drain_ = false;
  ServerLease lease_;
  uint64_t next_call_ns_ = 0;
  uint32_t failures_in_row_ = 0;
  uint64_t outage_since_ns_ = 0;
  uint64_t last_report_ns_ = 0;
  std::string last_reported_text_;
  absl::Status last_failure_;
  absl::Status failure_;
  std::vector<std::string> reports_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LEASE_REGISTRATION_MACHINE_H_
