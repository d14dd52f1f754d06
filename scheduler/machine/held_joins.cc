#include "scheduler/machine/held_joins.h"

#include <algorithm>

namespace shoal::scheduler {

bool HeldJoins::HasFor(JobId job, JobRank rank) const {
  return std::ranges::any_of(joins_,
                             [&](const HeldJoin& held) { return held.job == job && held.request.rank == rank; });
}

std::vector<HeldJoin> HeldJoins::TakeFor(JobId job, JobRank rank) {
  std::vector<HeldJoin> taken;
  std::erase_if(joins_, [&](const HeldJoin& held) {
    if (held.job != job || held.request.rank != rank) return false;
    taken.push_back(held);
    return true;
  });
  return taken;
}

void HeldJoins::Forget(RequestHandle handle) {
  std::erase_if(joins_, [&](const HeldJoin& held) { return held.handle == handle; });
}

}  // namespace shoal::scheduler
