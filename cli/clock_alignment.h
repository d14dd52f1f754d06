// Puts the clocks of several members on one, from what they sent each other.
//
// A frame arrives after it was sent. So what went one way says how far the receiver's clock is ahead of the sender's at
// most, what went back says how far at least, and the middle of the two is wrong by half of their distance at most: the
// best round trip of all, and the rounding of the times (F. Cristian, Probabilistic clock synchronization, Distributed
// Computing 3, 1989). Members that sent each other nothing are compared through others, along the way whose errors add
// up to the least.
//
// Clocks are taken to run equally fast: two that differ by 50 parts in a million are 50 microseconds apart after a
// second. Pure; any thread.
#ifndef SHOAL_CLI_CLOCK_ALIGNMENT_H_
#define SHOAL_CLI_CLOCK_ALIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::cli {

// Each by its own clock.
struct SeenFrame {
  size_t from = 0;
  size_t to = 0;
  int64_t sent_ns = 0;
  int64_t arrived_ns = 0;
};

struct AlignedClock {
  size_t reference = 0;   // the member whose clock this one is put on: one for all that are connected
  int64_t offset_ns = 0;  // to be added to the member's times
  int64_t error_ns = 0;   // at most
};

// Of members 0 to `members` - 1, which all frames name.
std::vector<AlignedClock> AlignClocks(size_t members, const std::vector<SeenFrame>& frames);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_CLOCK_ALIGNMENT_H_
