// Checks of what peers send to the scheduler, and how its messages write lists. Pure; any thread.
#ifndef SHOAL_SCHEDULER_MACHINE_REQUEST_CHECKS_H_
#define SHOAL_SCHEDULER_MACHINE_REQUEST_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/ids.h"
#include "core/name.h"
#include "core/told_groups.h"
#include "scheduler/machine/scheduler_requests.h"

namespace shoal::scheduler {

inline constexpr size_t kMaxTextBytes = 300;
inline constexpr uint32_t kMaxWorldSize = 65536;
inline constexpr uint32_t kMaxIoThreads = 256;  // addresses of one server
inline constexpr uint64_t kMaxGroupWaitMs = 3'600'000;
inline constexpr size_t kMaxGroupsClosedAtOnce = kMaxGroupsToldAtOnce;  // by a rank that leaves: of each kind

// FailedPrecondition names both versions, and the side that has to be updated. `peer_oldest`: as for CanSpeakWith.
absl::Status CheckControlVersion(uint32_t peer_version, uint32_t peer_oldest, const std::string& peer_software,
                                 const std::string& who);

// Names are of core/name.h. InvalidArgument says which field is wrong, its value and the values that it accepts. Sizes
// are checked as well.
absl::Status CheckRequest(const RegisterServer& request);
absl::Status CheckRequest(const JoinJob& request);
// `world_size` of an open job: how many ranks it has had.
absl::Status CheckRequest(const JoinGroup& request, uint32_t world_size);
// "rank 3 of job "gpt"", or the process that joins an open job.
std::string WhoJoins(const JoinJob& request);
absl::Status CheckRequest(const CloseGroups& request);
absl::Status CheckRequest(const LeaveJob& request);

// Makes text from a peer safe for logs, terminals and other peers: MakePrintable (core/utf8.h) of at most
// kMaxTextBytes.
std::string CleanText(const std::string& text);

// "0, 1, 2 and 13 more".
std::string RankList(const std::vector<JobRank>& ranks);
std::string NameList(const std::vector<std::string>& names);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MACHINE_REQUEST_CHECKS_H_
