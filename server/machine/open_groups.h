// Which groups are open on a server, for the lines that name the ranks it waits for before it ends.
//
// Pure functions on the caller's values; any thread.
#ifndef SHOAL_SERVER_MACHINE_OPEN_GROUPS_H_
#define SHOAL_SERVER_MACHINE_OPEN_GROUPS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/ids.h"

namespace shoal {

struct ServedGroup {
  JobId job;
  std::set<Rank> ranks;  // that are in it, or whose connection broke just now
};

using OpenGroups = std::map<GroupId, ServedGroup>;

// A group is open on each I/O thread that owns chunks of it.
void AddOpenGroups(const OpenGroups& more, OpenGroups* sum);

// "group 5 of job 2 (ranks 0, 3), group 7 of job 2 (rank 1) and 4 more groups"; empty if there is none.
std::string DescribeOpenGroups(const OpenGroups& groups);

}  // namespace shoal

#endif  // SHOAL_SERVER_MACHINE_OPEN_GROUPS_H_
