#include "worker/machine/refusal_error.h"

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

absl::StatusCode CodeOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNoSlotMemory:
    case Refusal::kNoSlot:
    case Refusal::kGroupLackedMemory:
      return absl::StatusCode::kResourceExhausted;
    case Refusal::kBadToken:
      return absl::StatusCode::kUnauthenticated;
    case Refusal::kOtherVersion:
      return absl::StatusCode::kFailedPrecondition;
    case Refusal::kRankTaken:
      return absl::StatusCode::kAlreadyExists;
    case Refusal::kDraining:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kAborted;
  }
}

}  // namespace

absl::Status RefusalError(const std::string& server, const std::string& what, Refusal refusal,
                          const std::string& text) {
  return absl::Status(CodeOf(refusal), absl::StrCat(server, " refused ", what, " (", std::string(RefusalName(refusal)),
                                                    ")", text.empty() ? "" : ": ", text));
}

}  // namespace shoal
