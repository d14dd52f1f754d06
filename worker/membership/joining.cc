#include "worker/membership/joining.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// A scheduler that stands still takes the call and says nothing: that is to be noticed before the deadline. One that
// has heard the call may stand still, or break, before its answer is out: then a lease is running that this process
// does not know of. So the first attempts are short, and only silence makes the next one longer.
constexpr uint64_t kFirstAttemptNs = kNsPerS;
constexpr uint64_t kLongestAttemptNs = 5 * kNsPerS;
constexpr uint64_t kServerPollNs = 100 * kNsPerMs;

}  // namespace

void Joining::Begin(uint64_t deadline_ns, Now now, MembershipActions* actions) {
  started_ns_ = now.monotonic_ns;
  deadline_ns_ = deadline_ns;
  attempt_ns_ = kFirstAttemptNs;
  servers_wait_ = WaitReport(started_ns_, deadline_ns);
  Ask(now, actions);
}

void Joining::Ask(Now now, MembershipActions* actions) {
  phase_ = Phase::kAsking;
  if (!scheduler_wait_.has_value()) scheduler_wait_.emplace(*scheduler_, now.monotonic_ns, deadline_ns_);
  call_ = calls_->Start(CallOwner::kJoining, JoinJobCall{*member_, min_servers_},
                        std::min(deadline_ns_, now.monotonic_ns + attempt_ns_), actions);
}

void Joining::Pause(uint64_t ns, Now now) {
  phase_ = Phase::kPausing;
  pause_until_ns_ = std::min(now.monotonic_ns + ns, deadline_ns_);
}

void Joining::Fail(absl::Status why, bool is_to_leave) {
  phase_ = Phase::kFailed;
  failure_ = std::move(why);
  is_to_leave_ = is_to_leave;
}

std::string Joining::Missing() const {
  return absl::StrCat(joined_->server_count, " of ", min_servers_,
                      " reduction servers registered with the scheduler at ", *scheduler_, " after ",
                      TimeUntilDeadline(started_ns_, deadline_ns_));
}

void Joining::OnAnswer(const absl::StatusOr<SchedulerAnswer>& answer, Now now, MembershipActions* actions) {
  call_ = CallId();
  if (absl::IsUnavailable(answer.status())) {
    if (answer.status().message() == kNoAnswer) attempt_ns_ = std::min(2 * attempt_ns_, kLongestAttemptNs);
    scheduler_wait_->OnBroken(answer.status());
    return Pause(pace_.Next(jitter_), now);
  }
  scheduler_wait_.reset();
  pace_.Reset();
  attempt_ns_ = kFirstAttemptNs;
  if (!answer.ok()) return Fail(answer.status(), false);
  const auto* const joined = std::get_if<JoinedJob>(&*answer);
  if (joined == nullptr) {
    return Fail(absl::InternalError("the scheduler's answer does not belong to this call"), joined_.has_value());
  }
  if (joined->lease_ttl_ms == 0) {
    return Fail(absl::InternalError("the scheduler's answer has a lease of 0 ms"), joined_.has_value());
  }
  joined_ = *joined;
  // Older schedulers do not repeat it.
  if (!member_->open.has_value()) joined_->rank = member_->rank;
  if (joined->colocate_server && !server_asked_) {
    server_asked_ = true;
    phase_ = Phase::kStartingServer;
    const uint64_t left_ns = deadline_ns_ - std::min(now.monotonic_ns, deadline_ns_);
    actions->emplace_back(RunColocatedServer{joined->id, std::max<uint64_t>(left_ns / kNsPerMs, 1)});
    return;
  }
  counted_ = true;
  if (joined->server_count >= min_servers_ || joined->needs_no_servers) {
    phase_ = Phase::kJoined;
    return;
  }
  Pause(kServerPollNs, now);
}

void Joining::OnServerStarted(const absl::Status& status, Now now, MembershipActions* actions) {
  if (!status.ok()) return Fail(status, true);
  // Only with that server the job may have as many as are asked for.
  Ask(now, actions);
}

void Joining::GiveUp(MembershipActions* actions) {
  calls_->Cancel(&call_, actions);
  phase_ = Phase::kIdle;
}

void Joining::Tick(Now now, MembershipActions* actions) {
  if (!under_way()) return;
  if (scheduler_wait_.has_value()) scheduler_wait_->Tick(now, actions);
  if (phase_ != Phase::kPausing) return;
  if (counted_ && servers_wait_.TakeDue(now.monotonic_ns)) {
    actions->emplace_back(MembershipNotice{absl::StrCat(servers_wait_.WaitedFor("reduction servers", now.monotonic_ns),
                                                        ": ", joined_->server_count, " of ", min_servers_,
                                                        " are registered with the scheduler at ", *scheduler_)});
  }
  if (now.monotonic_ns < pause_until_ns_) return;
  if (now.monotonic_ns < deadline_ns_) return Ask(now, actions);
  // When the time ran out during a later call, what the earlier one said is the better answer.
  if (!counted_) return Fail(scheduler_wait_->Error(), joined_.has_value());
  Fail(absl::DeadlineExceededError(absl::StrCat(Missing(), ": start more, or ask for fewer")), true);
}

uint64_t Joining::NextDeadlineNs() const {
  if (!under_way()) return kNoDeadline;
  uint64_t next_ns = scheduler_wait_.has_value() ? scheduler_wait_->NextDeadlineNs() : kNoDeadline;
  if (phase_ != Phase::kPausing) return next_ns;
  if (counted_) next_ns = std::min(next_ns, servers_wait_.due_ns());
  return std::min(next_ns, pause_until_ns_);
}

}  // namespace shoal
