// How much of its groups a rank tells the scheduler with one call: more would be refused. Pure.
#ifndef SHOAL_CORE_TOLD_GROUPS_H_
#define SHOAL_CORE_TOLD_GROUPS_H_

#include <cstddef>

namespace shoal {

inline constexpr size_t kMaxGroupsToldAtOnce = 4096;

}  // namespace shoal

#endif  // SHOAL_CORE_TOLD_GROUPS_H_
