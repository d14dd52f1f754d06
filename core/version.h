// Version numbers that peers compare.
#ifndef SHOAL_CORE_VERSION_H_
#define SHOAL_CORE_VERSION_H_

#include <cstdint>

namespace shoal {

inline constexpr char kSoftwareVersion[] = "0.1.0";
// Of proto/shoal/v1: grows with every change that an older peer would misread. What peers that know nothing of it
// ignore, as a new field, changes nothing (docs/adr/0023).
inline constexpr uint32_t kControlVersion = 3;
// The oldest one that this release can speak as well, schedulers and members. It is at least one below kControlVersion
// after that has grown. Of version 2 only builds with wire version 4 can open groups; in it, requests for groups are
// given up without a reason (CloseGroupsRequest).
inline constexpr uint32_t kOldestControlVersion = 2;

// Whether two releases have a version that both can speak. `peer_oldest` 0: the peer speaks `peer_version` alone.
constexpr bool CanSpeakWith(uint32_t peer_version, uint32_t peer_oldest, uint32_t version = kControlVersion,
                            uint32_t oldest = kOldestControlVersion) {
  return peer_version >= oldest && (peer_oldest == 0 ? peer_version : peer_oldest) <= version;
}

}  // namespace shoal

#endif  // SHOAL_CORE_VERSION_H_
