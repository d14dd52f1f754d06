// Names that people and programs give to jobs, groups, servers, nodes, tenants and identities. Pure; any thread.
#ifndef SHOAL_CORE_NAME_H_
#define SHOAL_CORE_NAME_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

inline constexpr size_t kMaxNameBytes = 200;
// What a name is made of, in words.
inline constexpr char kNameCharacters[] = "ASCII letters, digits and the characters . _ - : /";

// OK if `name` has 1 to kMaxNameBytes bytes, all of them of kNameCharacters. InvalidArgument says which name it is
// (`what`: "job name"), what is wrong with it and where, and what is allowed; the text itself is safe to be shown.
absl::Status CheckName(absl::string_view what, const std::string& name);

}  // namespace shoal

#endif  // SHOAL_CORE_NAME_H_
