#include "core/caller.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/name.h"
#include "core/utf8.h"

namespace shoal {
namespace {

constexpr std::array<absl::string_view, kRoles.size()> kNames = {"viewer", "operator", "server", "worker", "scheduler"};

std::optional<Caller> OfDefaultForm(absl::string_view identity) {
  absl::string_view rest = identity;
  if (!absl::ConsumePrefix(&rest, "spiffe://")) return std::nullopt;
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
  if (parts.size() < 3 || parts[0].empty() || parts[1] != "shoal") return std::nullopt;
  const std::optional<Role> role = RoleFromName(parts[2]);
  if (!role.has_value() || parts.size() != (*role == Role::kWorker ? 4u : 3u) || parts.back().empty()) {
    return std::nullopt;
  }
  return Caller{std::string(identity), *role, *role == Role::kWorker ? std::string(parts[3]) : ""};
}

}  // namespace

absl::string_view RoleName(Role role) { return kNames[static_cast<size_t>(role)]; }

std::optional<Role> RoleFromName(absl::string_view name) {
  for (const Role role : kRoles) {
    if (RoleName(role) == name) return role;
  }
  return std::nullopt;
}

std::string RoleText(const Caller& caller) {
  return absl::StrCat(RoleName(caller.role),
                      caller.role == Role::kWorker ? absl::StrCat(" of tenant ", caller.tenant) : "");
}

std::string CallerText(const Caller& caller) { return absl::StrCat(caller.identity, " (", RoleText(caller), ")"); }

absl::StatusOr<IdentityRules> IdentityRules::Parse(absl::string_view text) {
  IdentityRules parsed;
  parsed.rules_.emplace();
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0].front() == '#') continue;
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, " of the identities (\"",
                                                     EscapeUnprintable(std::string(line)), "\") ", what,
                                                     "; write IDENTITY ROLE, where ROLE is viewer, operator, server "
                                                     "or scheduler, or IDENTITY worker TENANT"));
    };
    const std::optional<Role> role = words.size() < 2 ? std::nullopt : RoleFromName(words[1]);
    if (!role.has_value()) return wrong("names no role");
    if (words.size() != (*role == Role::kWorker ? 3u : 2u)) {
      return wrong(*role == Role::kWorker ? "has to name one tenant" : "has too many words");
    }
    absl::string_view identity = words[0];
    const bool is_prefix = absl::ConsumeSuffix(&identity, "*");
    absl::Status status =
        is_prefix && identity.empty() ? absl::OkStatus() : CheckName("identity", std::string(identity));
    if (status.ok() && *role == Role::kWorker) status = CheckName("tenant", std::string(words[2]));
    if (!status.ok()) return wrong(absl::StrCat("can't be used: ", status.message()));
    parsed.rules_->push_back({.identity = std::string(identity),
                              .is_prefix = is_prefix,
                              .role = *role,
                              .tenant = *role == Role::kWorker ? std::string(words[2]) : ""});
  }
  return parsed;
}

std::optional<Caller> IdentityRules::Find(absl::string_view identity) const {
  if (!CheckName("identity", std::string(identity)).ok()) return std::nullopt;
  if (!rules_.has_value()) return OfDefaultForm(identity);
  for (const Rule& rule : *rules_) {
    if (rule.is_prefix ? absl::StartsWith(identity, rule.identity) : identity == rule.identity) {
      return Caller{std::string(identity), rule.role, rule.tenant};
    }
  }
  return std::nullopt;
}

std::optional<Caller> IdentityRules::FindFirst(const std::vector<std::string>& identities) const {
  for (const std::string& identity : identities) {
    if (std::optional<Caller> caller = Find(identity); caller.has_value()) return caller;
  }
  return std::nullopt;
}

}  // namespace shoal
