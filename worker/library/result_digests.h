// What the results of a rank's ops were, as digests, while an operator compares those of all ranks (`shoalctl verify`).
//
// Thread: any. Without a comparison nothing is computed or kept. A digest is a CRC of 64 bits (ECMA-182, reflected)
// over the bytes of the tensor: it tells two results apart that are different by chance, and is no protection against
// anybody.
#ifndef SHOAL_WORKER_LIBRARY_RESULT_DIGESTS_H_
#define SHOAL_WORKER_LIBRARY_RESULT_DIGESTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "process/mutex.h"
#include "worker/library/caller_records.h"

namespace shoal {

class ResultDigests {
 public:
  static constexpr size_t kMost = 16384;  // the newest are kept

  // Looks at results from now on.
  void Start();
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  // The op has succeeded with this tensor, which nobody changes now.
  void Add(const GroupInfo& group, const HostTensor& tensor);
  // An op of a tensor on a device has begun, of which no digest is taken.
  void CountOnDevice();
  // How many results since Start are left out, how many ops on devices there were, if any, and a line for each of the
  // other results, the oldest first: as many of the newest as fit in so many bytes.
  std::string Stop(size_t most_bytes);

 private:
  std::atomic<bool> is_on_ = false;
  Mutex mutex_;
  std::deque<std::string> lines_ SHOAL_GUARDED_BY(mutex_);
  uint64_t dropped_ SHOAL_GUARDED_BY(mutex_) = 0;  // for want of room
  uint64_t on_devices_ SHOAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_RESULT_DIGESTS_H_
