// How human-readable texts write a duration. Pure.
#ifndef SHOAL_CORE_DURATION_TEXT_H_
#define SHOAL_CORE_DURATION_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace shoal {

// "12 s", "12.3 s": rounded down to a tenth of a second.
inline std::string Seconds(uint64_t duration_ns) {
  const uint64_t tenths = duration_ns / 100'000'000;
  return absl::StrCat(static_cast<double>(tenths) / 10.0, " s");
}

}  // namespace shoal

#endif  // SHOAL_CORE_DURATION_TEXT_H_
