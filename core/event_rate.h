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

  // Whether the log should say that events of the kind are left out from now on. Like the sum, every ten seconds at
  // most, or what is said of a steady flood would be a flood itself.
  bool BeginsToLeaveOut(EventKind kind, uint64_t now_ns) {
    Bucket& bucket = buckets_[static_cast<size_t>(kind)];
    return bucket.left_out == 1 && MayTell(&bucket, now_ns);
  }
  // How many of the kind were left out since the log told so; 0: none, or it is too early to tell.
  uint64_t TakeLeftOut(EventKind kind, uint64_t now_ns) {
    Bucket& bucket = buckets_[static_cast<size_t>(kind)];
    return bucket.left_out > 0 && MayTell(&bucket, now_ns) ? std::exchange(bucket.left_out, 0) : 0;
  }

 private:
  static constexpr uint64_t kNsPerEvent = kNsPerS / kEventsPerS;
  static constexpr uint64_t kTellPeriodNs = 10 * kNsPerS;

  struct Bucket {
    uint64_t full_at_ns = 0;
    uint64_t left_out = 0;
    uint64_t tell_at_ns = 0;  // not before
  };

  static bool MayTell(Bucket* bucket, uint64_t now_ns) {
    if (now_ns < bucket->tell_at_ns) return false;
    bucket->tell_at_ns = now_ns + kTellPeriodNs;
    return true;
  }

  std::array<Bucket, kEventKindCount> buckets_{};
};

}  // namespace shoal

#endif  // SHOAL_CORE_EVENT_RATE_H_
