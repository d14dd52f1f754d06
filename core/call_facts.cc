#include "core/call_facts.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "core/utf8.h"

namespace shoal {
namespace {

constexpr size_t kMostOutcomeBytes = 400;

}  // namespace

CallFacts FactsOf(const Caller& caller, const std::string& from, absl::string_view method) {
  CallFacts call;
  call.who = caller.is_known() ? caller.identity : "anybody";
  if (caller.is_known()) call.role = RoleText(caller);
  call.from = from;
  call.call = std::string(method.substr(method.rfind('/') + 1));
  return call;
}

void SetOutcome(const absl::Status& outcome, CallFacts* call) {
  call->is_refused = absl::IsPermissionDenied(outcome);
  call->outcome = outcome.ok()
                      ? "ok"
                      : MakePrintable(absl::StrCat(absl::StatusCodeToString(outcome.code()), ": ", outcome.message()),
                                      kMostOutcomeBytes);
}

EventKind KindOf(const CallFacts& call) { return call.is_refused ? EventKind::kCallRefused : EventKind::kCallMade; }

std::string WhoText(const CallFacts& call) {
  return call.role.empty() ? call.who : absl::StrCat(call.who, " (", call.role, ")");
}

std::string CallText(const CallFacts& call) {
  return absl::StrCat(call.call, call.object.empty() ? "" : " of ", call.object, call.from.empty() ? "" : " from ",
                      call.from, ": ", call.outcome,
                      call.left_out == 0 ? "" : absl::StrCat(" (", call.left_out, " more were not told)"));
}

}  // namespace shoal
