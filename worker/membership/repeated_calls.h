// What is told to the scheduler again and again: when the next time is, and when the scheduler will never act on it
// (docs/failover.md, "Loops between parts that may disagree"). Pure.
#ifndef SHOAL_WORKER_MEMBERSHIP_REPEATED_CALLS_H_
#define SHOAL_WORKER_MEMBERSHIP_REPEATED_CALLS_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "core/now.h"

namespace shoal {

// NotFound alone is a refusal: the scheduler knows no such job, rank or group. Any other error says that it can't
// answer now: it starts, is overloaded, does not lead, or another version runs there for a while.
inline bool IsRefusal(const absl::Status& answer) { return absl::IsNotFound(answer); }

// Whether a call has been refused for good, which takes two refusals without another answer between them (an error is
// none): a scheduler that led, stood still and goes on may refuse once, before it learns that another one leads.
class RefusalsInARow {
 public:
  // True: refused for good.
  bool Note(const absl::Status& answer) {
    if (answer.ok()) refused_ = false;
    return IsRefusal(answer) && std::exchange(refused_, true);
  }

 private:
  bool refused_ = false;
};

// How long after its `answers`th answer a call is repeated: from a twelfth of the lease to half of it.
inline uint64_t RepeatAfterNs(uint32_t answers, uint64_t lease_ttl_ms) {
  const uint64_t lease_ns = lease_ttl_ms * kNsPerMs;
  return std::min((lease_ns / 12) << std::min(answers - 1, 8u), lease_ns / 2);
}

}  // namespace shoal

#endif  // SHOAL_WORKER_MEMBERSHIP_REPEATED_CALLS_H_
