// How long to wait before something is tried again: twice as long each time, up to a limit, with random jitter, so that
// processes do not try together. Pure: what is random comes from a seed.
#ifndef SHOAL_CORE_RETRY_PACE_H_
#define SHOAL_CORE_RETRY_PACE_H_

#include <algorithm>
#include <cstdint>

#include "core/hash.h"

namespace shoal {

// Random numbers from a seed.
class Jitter {
 public:
  explicit Jitter(uint64_t seed) : seed_(seed) {}
  // Between half of `ns` and all of it.
  uint64_t Of(uint64_t ns) { return ns / 2 + StableHash({seed_, ++drawn_}) % (ns / 2 + 1); }

 private:
  uint64_t seed_;
  uint64_t drawn_ = 0;
};

class RetryPace {
 public:
  RetryPace(uint64_t first_ns, uint64_t longest_ns)
      : first_ns_(first_ns), longest_ns_(longest_ns), next_ns_(first_ns) {}

  // The next wait.
  uint64_t Next(Jitter* jitter) {
    const uint64_t wait_ns = jitter->Of(next_ns_);
    next_ns_ = std::min(2 * next_ns_, longest_ns_);
    return wait_ns;
  }
  // It went well: the next failure begins anew.
  void Reset() { next_ns_ = first_ns_; }

 private:
  uint64_t first_ns_;
  uint64_t longest_ns_;
  uint64_t next_ns_;
};

}  // namespace shoal

#endif  // SHOAL_CORE_RETRY_PACE_H_
