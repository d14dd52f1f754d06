// How many events of each kind a log takes: a burst, then so many a second. The rest is counted, so that a log can say
// what it left out. Pure; one thread.
#ifndef SHOAL_CORE_EVENT_RATE_H_
#define SHOAL_CORE_EVENT_RATE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/log_event.h"
#include "core/now.h"

namespace shoal {

inline constexpr uint64_t kEventBurst = 200;
inline constexpr uint64_t kEventsPerS = 20;

class EventRate {
 public:
  // Whether the log takes one more event of the kind; if not, it is counted. `now_ns`: monotonic clock.
  bool Admit(EventKind kind, uint64_t now_ns) {
    Bucket& bucket = buckets_[static_cast<size_t>(kind)];
    const uint64_t spent_ns = kEventBurst * kNsPerEvent;
    // The bucket is kept as the time at which it is full again.
    bucket.full_at_ns = std::max(bucket.full_at_ns, now_ns);
    if (bucket.full_at_ns - now_ns + kNsPerEvent > spent_ns) {
      ++bucket.left_out;
      return false;
    }
    bucket.full_at_ns += kNsPerEvent;
    return true;
  }

  // How many of the kind were left out since this was asked last.
  uint64_t TakeLeftOut(EventKind kind) { return std::exchange(buckets_[static_cast<size_t>(kind)].left_out, 0); }
  // Whether the newest event of the kind was the first to be left out.
  bool BeganToLeaveOut(EventKind kind) const { return buckets_[static_cast<size_t>(kind)].left_out == 1; }

 private:
  static constexpr uint64_t kNsPerEvent = kNsPerS / kEventsPerS;

  struct Bucket {
    uint64_t full_at_ns = 0;
    uint64_t left_out = 0;
  };
  std::array<Bucket, kEventKindCount> buckets_{};
};

}  // namespace shoal

#endif  // SHOAL_CORE_EVENT_RATE_H_
