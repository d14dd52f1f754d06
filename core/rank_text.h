// How a rank of a group is named in texts for people: the same by its own process, other ranks and the scheduler. Pure.
#ifndef SHOAL_CORE_RANK_TEXT_H_
#define SHOAL_CORE_RANK_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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

}  // namespace shoal

#endif  // SHOAL_CORE_RANK_TEXT_H_
