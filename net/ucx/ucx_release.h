// Which releases of UCX can be mixed in one cluster: a process refuses others. Pure.
#ifndef SHOAL_NET_UCX_UCX_RELEASE_H_
#define SHOAL_NET_UCX_UCX_RELEASE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace shoal {

struct UcxRelease {
  uint32_t major = 0;
  uint32_t minor = 0;

  bool IsAtMost1Point(uint32_t limit) const { return major == 1 && minor <= limit; }
};

// Of "1.13.1"; nullopt: it is no such text.
inline std::optional<UcxRelease> ParseUcxRelease(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  UcxRelease release;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &release.major) || !absl::SimpleAtoi(parts[1], &release.minor)) {
    return std::nullopt;
  }
  return release;
}

// Releases of UCX whose processes can send each other large messages. UCX does not check it: between 1.22 and older
// ones connections were made, and the first rendezvous failed over a remote key that is not understood. Equal for
// releases that agree.
inline std::string ReleasesThatAgree(UcxRelease release) {
  return release.IsAtMost1Point(18) ? "1.18-or-older" : absl::StrCat(release.major, ".", release.minor);
}

}  // namespace shoal

#endif  // SHOAL_NET_UCX_UCX_RELEASE_H_
