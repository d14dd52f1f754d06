// How human-readable texts name a rank of a group: its own process, other ranks and the scheduler do it alike. Pure.
#ifndef SHOAL_CORE_RANK_TEXT_H_
#define SHOAL_CORE_RANK_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/ids.h"

namespace shoal {

// "rank 1 (rank 3 of the job) on node-b". Both lists are by rank of the group; what they lack is left out.
inline std::string RankOnNode(Rank rank, const std::vector<JobRank>& job_ranks, const std::vector<std::string>& nodes) {
  std::string text = absl::StrCat("rank ", rank.value());
  if (rank.value() >= job_ranks.size()) return text;
  const JobRank job_rank = job_ranks[rank.value()];
  if (job_rank.value() != rank.value()) absl::StrAppend(&text, " (rank ", job_rank.value(), " of the job)");
  if (rank.value() < nodes.size()) absl::StrAppend(&text, " on ", nodes[rank.value()]);
  return text;
}

// "{rank 1}": a rank of a rail in the words of a server, which does not know whom that number means to the user.
inline std::string MarkedRank(Rank rank) { return absl::StrCat("{rank ", rank.value(), "}"); }

// The text with `name` in place of each rank that is marked so. What else looks like a mark stays as it is.
inline std::string NameMarkedRanks(absl::string_view text, const std::function<std::string(Rank)>& name) {
  constexpr absl::string_view kMark = "{rank ";
  std::string named;
  for (size_t at = text.find(kMark); at != absl::string_view::npos; at = text.find(kMark)) {
    const size_t end = text.find('}', at);
    const size_t digits = at + kMark.size();
    uint32_t rank = 0;
    const bool is_mark = end != absl::string_view::npos && absl::SimpleAtoi(text.substr(digits, end - digits), &rank);
    absl::StrAppend(&named, text.substr(0, at), is_mark ? name(Rank(rank)) : std::string(kMark));
    text.remove_prefix(is_mark ? end + 1 : digits);
  }
  return absl::StrCat(named, text);
}

// For a reader who knows no better names, such as that of a server's log: "rank 1 of the rail".
inline std::string WithoutMarks(absl::string_view text) {
  return NameMarkedRanks(text, [](Rank rank) { return absl::StrCat("rank ", rank.value(), " of the rail"); });
}

}  // namespace shoal

#endif  // SHOAL_CORE_RANK_TEXT_H_
