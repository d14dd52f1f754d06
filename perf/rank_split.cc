#include "perf/rank_split.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace shoal {

absl::StatusOr<RankSplit> RankSplit::Parse(const std::string& text) {
  RankSplit split;
  if (text.empty()) return split;
  const absl::string_view view = text;
  if (absl::StartsWith(view, "mod:")) split.by_ = By::kRemainder;
  if (absl::StartsWith(view, "div:")) split.by_ = By::kQuotient;
  if (!split.splits() || !absl::SimpleAtoi(view.substr(4), &split.divisor_) || split.divisor_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is no split; write mod:N for groups of the ranks with equal rank % N, or div:N for those ",
        "with equal rank / N, with N of at least 1"));
  }
  return split;
}

uint32_t RankSplit::GroupOf(uint32_t rank) const {
  switch (by_) {
    case By::kNothing:
      return 0;
    case By::kRemainder:
      return rank % divisor_;
    case By::kQuotient:
      return rank / divisor_;
  }
  return 0;
}

std::vector<uint32_t> RankSplit::RanksWith(uint32_t rank, uint32_t world_size) const {
  std::vector<uint32_t> ranks;
  for (uint32_t other = 0; other < world_size; ++other) {
    if (GroupOf(other) == GroupOf(rank)) ranks.push_back(other);
  }
  return ranks;
}

}  // namespace shoal
