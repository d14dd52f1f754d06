// What a scheduler that does not lead says of a call that it can't pass on. It is there and well, and another one may
// know better: a caller that has a lease to keep asks again soon, over the connections that it has, which take turns.
// Pure; any thread.
#ifndef SHOAL_CORE_NO_LEADER_H_
#define SHOAL_CORE_NO_LEADER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

// It knows of no leader: there is none, or it is cut off from where that is written.
inline constexpr char kNobodyLeads[] = "no scheduler leads at the moment; try again";
// The one that passed the call on took it for the leader.
inline constexpr char kLeadsNoLonger[] = "this scheduler no longer leads; try again";
// The lead has changed while the call was under way.
inline constexpr char kAnotherLeads[] = "another scheduler leads now; try again";

// It knows which one leads, and is cut off from that one.
inline constexpr char kLeaderIsSilent[] = "the scheduler that leads does not answer this one; try again";

inline bool IsRefusedByFollower(const absl::Status& status) {
  const absl::string_view text = status.message();
  return absl::IsUnavailable(status) &&
         (text == kNobodyLeads || text == kLeadsNoLonger || text == kAnotherLeads || text == kLeaderIsSilent);
}

}  // namespace shoal

#endif  // SHOAL_CORE_NO_LEADER_H_
