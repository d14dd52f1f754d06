// Sliding window of chunks in flight from one worker to one shard.
//
// Positions count the chunks that a worker pushes to the shard, in push order: 0, 1, 2, ... At most `credit` positions
// from the oldest unfinished one on may be open, so the window always holds the oldest unfinished chunk: two workers
// that push in the same order can't block each other, whatever the credit (a window that counted chunks alone could).
// One thread; no allocation after Open.
#ifndef SHOAL_CORE_CREDIT_WINDOW_H_
#define SHOAL_CORE_CREDIT_WINDOW_H_

#include <cstdint>
#include <vector>

namespace shoal {

class CreditWindow {
 public:
  // credit >= 1.
  void Open(uint32_t credit);

  uint32_t credit() const { return static_cast<uint32_t>(finished_.size()); }
  bool CanPush() const { return next_ < oldest_ + finished_.size(); }
  bool Empty() const { return next_ == oldest_; }
  uint64_t in_flight() const { return next_ - oldest_; }
  // The oldest position that is not finished, pushed or not.
  uint64_t oldest() const { return oldest_; }

  // Opens the next position; CanPush() must hold. Positions p and q share a cell of the caller's own table exactly when
  // p % credit() == q % credit(), and are never open at the same time.
  uint64_t Push();

  // `position` was pushed and is not finished.
  void Finish(uint64_t position);

 private:
  uint64_t oldest_ = 0;
  uint64_t next_ = 0;
  std::vector<bool> finished_;
};

}  // namespace shoal

#endif  // SHOAL_CORE_CREDIT_WINDOW_H_
