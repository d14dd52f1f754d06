// Who calls the scheduler: an identity that was proved, and the role that it has.
//
// An identity is a name from a certificate: a URI ("spiffe://prod.example/shoal/worker/vision") or a DNS name. Without
// a file of rules, URIs of this form have a role, and nothing else has one:
//
//   spiffe://DOMAIN/shoal/ROLE            ROLE: viewer, operator, server or scheduler
//   spiffe://DOMAIN/shoal/worker/TENANT
//
// With a file of rules (--identities), its first line that fits counts, and no other form has a role. A line is
// "IDENTITY ROLE" or "IDENTITY worker TENANT"; an IDENTITY that ends with * fits everything that begins so. Empty lines
// and lines that begin with # are left out.
//
// Identities and tenants are names as of core/name.h: an identity with any other character has no role.
//
// Pure values; any thread.
#ifndef SHOAL_CORE_CALLER_H_
#define SHOAL_CORE_CALLER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

enum class Role : uint8_t { kViewer, kOperator, kServer, kWorker, kScheduler };
inline constexpr std::array<Role, 5> kRoles = {Role::kViewer, Role::kOperator, Role::kServer, Role::kWorker,
                                               Role::kScheduler};

absl::string_view RoleName(Role role);
std::optional<Role> RoleFromName(absl::string_view name);

// Nobody is known, and nothing is refused on his account, if `identity` is empty: the scheduler asks for none.
struct Caller {
  std::string identity;
  Role role = Role::kViewer;
  std::string tenant;  // of a worker

  bool is_known() const { return !identity.empty(); }
  friend bool operator==(const Caller&, const Caller&) = default;
};

// "worker of tenant vision"
std::string RoleText(const Caller& caller);
// "spiffe://prod.example/shoal/worker/vision (worker of tenant vision)"
std::string CallerText(const Caller& caller);

class IdentityRules {
 public:
  // Those of the default form.
  IdentityRules() = default;
  // Of a file with this text. InvalidArgument names the line and says what is wrong with it.
  static absl::StatusOr<IdentityRules> Parse(absl::string_view text);

  // nullopt: it has no role.
  std::optional<Caller> Find(absl::string_view identity) const;
  // Of the first of these names that has a role.
  std::optional<Caller> FindFirst(const std::vector<std::string>& identities) const;

 private:
  struct Rule {
    std::string identity;  // without the *
    bool is_prefix = false;
    Role role = Role::kViewer;
    std::string tenant;
  };

  std::optional<std::vector<Rule>> rules_;  // nullopt: the default form
};

}  // namespace shoal

#endif  // SHOAL_CORE_CALLER_H_
