// Which ranks of a job reduce together: all of them, or groups of some, at the same time.
//
// The forms are those of nccl-tests (NCCL_TESTS_SPLIT): "mod:8" has the ranks with equal rank % 8 together, as the
// replicas of hybrid sharding are on nodes of 8 ranks; "div:8" those with equal rank / 8. Pure; any thread.
#ifndef SHOAL_PERF_RANK_SPLIT_H_
#define SHOAL_PERF_RANK_SPLIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

class RankSplit {
 public:
  // All ranks together.
  RankSplit() = default;
  // An empty text: all ranks together. InvalidArgument: the text says what may be written instead.
  static absl::StatusOr<RankSplit> Parse(const std::string& text);

  bool splits() const { return by_ != By::kNothing; }
  // From 0; a number that no rank has is nobody's group.
  uint32_t GroupOf(uint32_t rank) const;
  // Of the rank's group, ascending. `rank` is below `world_size`.
  std::vector<uint32_t> RanksWith(uint32_t rank, uint32_t world_size) const;

 private:
  enum class By : uint8_t { kNothing, kRemainder, kQuotient };

  By by_ = By::kNothing;
  uint32_t divisor_ = 1;
};

}  // namespace shoal

#endif  // SHOAL_PERF_RANK_SPLIT_H_
