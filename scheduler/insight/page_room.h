// How much of a list one answer to an operator has: proto/shoal/v1/status.proto says what callers can rely on. Pure;
// any thread.
#ifndef SHOAL_SCHEDULER_INSIGHT_PAGE_ROOM_H_
#define SHOAL_SCHEDULER_INSIGHT_PAGE_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/machine/scheduler_responses.h"

namespace shoal::scheduler {

// Of the answer's protobuf message. The largest thing that is listed in one piece, a group of 65536 ranks that waits
// for nearly all of them, has a third of that: so a page that is still empty has room for it.
inline constexpr size_t kMaxPageBytes = size_t{2} << 20;

class PageRoom {
 public:
  // False: that much is not left, and nothing is taken.
  bool Take(size_t bytes);

 private:
  static constexpr size_t kMostTokenBytes = 512;

  size_t left_bytes_ = kMaxPageBytes - kMostTokenBytes;
};

// What these have in an answer at most: protobuf's numbers are counted with their greatest length.
size_t MostBytes(const ServerView& server);
size_t MostBytes(const RankView& rank);
size_t MostBytes(const GroupView& group);
size_t MostBytes(const SlowRank& rank);
size_t MostBytes(const SlowServer& server);
// Without all of the above.
size_t MostBytesOfJobAlone(const JobView& job);

// A number in a page token. InvalidArgument: `text`, a part of the token or all of it, is none.
absl::StatusOr<uint64_t> NumberInToken(const std::string& text, const std::string& token);
// InvalidArgument, with what to do.
absl::Status BadPageToken(const std::string& token);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_INSIGHT_PAGE_ROOM_H_
