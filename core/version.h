// Version numbers that peers compare.
#ifndef SHOAL_CORE_VERSION_H_
#define SHOAL_CORE_VERSION_H_

#include <cstdint>

namespace shoal {

inline constexpr char kSoftwareVersion[] = "0.1.0";
// Of proto/shoal/v1: grows with every change that an older peer would misread.
inline constexpr uint32_t kControlVersion = 3;

}  // namespace shoal

#endif  // SHOAL_CORE_VERSION_H_
