// Which numbers events get. Pure; one thread.
//
// Numbers grow by one from event to event of a scheduler, and are higher than those of all that led before it: which
// numbers they may have given out is part of the saved state.
#ifndef SHOAL_SCHEDULER_MACHINE_EVENT_NUMBERS_H_
#define SHOAL_SCHEDULER_MACHINE_EVENT_NUMBERS_H_

#include <cstdint>

namespace shoal::scheduler {

// Reserved at a time: a scheduler that follows another one leaves so many numbers out at most.
inline constexpr uint64_t kEventNumbersReserved = 1024;
// More than any scheduler gave out that did not save how many.
inline constexpr uint64_t kEventNumbersOfOlderReleases = uint64_t{1} << 20;

class EventNumbers {
 public:
  explicit EventNumbers(uint64_t reserved) : newest_(reserved), expected_(reserved), reserved_(reserved) {}

  // One more event will get a number. True: for that, more numbers were reserved, which must be saved first.
  bool Expect() {
    if (++expected_ <= reserved_) return false;
    reserved_ = expected_ + kEventNumbersReserved - 1;
    return true;
  }
  // All numbers up to this one may be given out.
  uint64_t reserved() const { return reserved_; }

  uint64_t Next() { return ++newest_; }
  // For an event that can't wait until a number is saved. Who asks for what came after that number is not told of it.
  uint64_t newest() const { return newest_; }

 private:
  uint64_t newest_;
  uint64_t expected_;  // the highest number once all that are expected have theirs
  uint64_t reserved_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_EVENT_NUMBERS_H_
