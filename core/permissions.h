// Which role may make which call to the scheduler: one table, which docs/security.md shows as well.
//
// Pure; any thread.
#ifndef SHOAL_CORE_PERMISSIONS_H_
#define SHOAL_CORE_PERMISSIONS_H_

#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/caller.h"

namespace shoal {

struct Permission {
  absl::string_view method;  // "/shoal.v1.Scheduler/JoinJob"; one that ends with / stands for all calls of a service
  absl::string_view roles;   // a letter for each role that may: v, o, s (server), w, S (scheduler)
  bool is_audited = false;   // it changes something, or gives something out, and is no sign of life
};

std::span<const Permission> AllPermissions();

// Null: the table does not have it.
const Permission* FindPermission(absl::string_view method);

// PermissionDenied says who called what, which role he has, and which it takes. A call that the table does not have is
// denied to everybody.
absl::Status CheckPermission(const Caller& caller, absl::string_view method);

}  // namespace shoal

#endif  // SHOAL_CORE_PERMISSIONS_H_
