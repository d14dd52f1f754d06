#include "server/machine/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {

bool HeldHellos::TryHold(const Hello& hello) {
  Forget(hello.peer, hello.header.group);  // this one is newer
  const auto of_peer = std::ranges::count_if(held_, [&](const Hello& each) { return each.peer == hello.peer; });
  if (held_.size() == kMax || static_cast<size_t>(of_peer) == kMaxOfPeer) return false;
  held_.push_back(hello);
  return true;
}

void HeldHellos::Forget(PeerId peer, std::optional<GroupId> group) {
  std::erase_if(held_, [&](const Hello& hello) {
    return hello.peer == peer && hello.header.group == group.value_or(hello.header.group);
  });
}

std::optional<Hello> HeldHellos::TakeDue(Now now) {
  if (held_.empty() || now.monotonic_ns < held_.front().refuse_at_ns) return std::nullopt;
  const Hello hello = held_.front();
  held_.pop_front();
  return hello;
}

std::deque<Hello> HeldHellos::TakeAll() { return std::exchange(held_, {}); }

bool Admission::ChangeKey(const TokenKey& key) { return std::exchange(key_, key) != key; }

absl::StatusOr<Roster> Admission::Check(const Hello& hello, const GroupTable& groups, Now now, Refusal* refusal) const {
  const GroupToken& token = hello.token;
  *refusal = Refusal::kBadToken;
  if (absl::Status status = CheckToken(key_, token, now.unix_ms / 1000); !status.ok()) return status;
  if (token.group != hello.header.group || token.epoch > hello.header.epoch || token.rank != hello.header.rank) {
    return absl::InvalidArgumentError("the hello names another group or rank than its token, or an older epoch");
  }
  absl::StatusOr<Roster> roster =
      CheckRoster(key_, token.group, hello.header.epoch, token.group_size, hello.sealed_roster);
  if (!roster.ok()) return roster;
  if (!roster->Has(token.rank)) {
    return absl::PermissionDeniedError(
        absl::StrCat("rank ", token.rank.value(), " is not in epoch ", hello.header.epoch.value(), " of the group"));
  }
  const std::optional<uint32_t> index = groups.IndexOf(token.group);
  const absl::Status status = index.has_value() ? CheckOpenGroup(hello, *roster, *groups.at(*index), refusal)
                                                : CheckNewGroup(hello, groups, refusal);
  if (!status.ok()) return status;
  return roster;
}

absl::Status Admission::CheckNewGroup(const Hello& hello, const GroupTable& groups, Refusal* refusal) const {
  if (const auto* const ended = groups.FindEnded(hello.token.group, hello.header.epoch); ended != nullptr) {
    *refusal = ended->refusal;
    return absl::AbortedError(ended->why);
  }
  if (!draining_) return absl::OkStatus();
  *refusal = Refusal::kDraining;
  return absl::UnavailableError(absl::StrCat("server ", server_name_, " is draining and opens no new group"));
}

absl::Status Admission::CheckOpenGroup(const Hello& hello, const Roster& roster, const ServerGroup& group,
                                       Refusal* refusal) {
  if (!group.Agrees(hello.token)) {
    return absl::InvalidArgumentError("the token describes the group differently from the other ranks' tokens");
  }
  const Epoch epoch = hello.header.epoch;
  if (group.FailureBinds(epoch)) {
    *refusal = group.failure_refusal();
    return absl::AbortedError(group.failure());
  }
  if (epoch > group.epoch()) return absl::OkStatus();
  if (epoch < group.epoch()) {
    *refusal = Refusal::kStaleEpoch;
    return absl::AbortedError(absl::StrCat("the group is in epoch ", group.epoch().value(), " already"));
  }
  if (roster != group.roster()) {
    return absl::InvalidArgumentError("the hello has other ranks in the epoch than those that came before it");
  }
  const Rank rank = hello.token.rank;
  if (group.rank_state(rank).presence != ServerGroup::Presence::kExpected) {
    *refusal = Refusal::kRankTaken;
    return absl::AlreadyExistsError(
        absl::StrCat(group.NameOf(rank), " of the group has said hello on another connection already"));
  }
  return absl::OkStatus();
}

}  // namespace shoal
