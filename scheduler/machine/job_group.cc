#include "scheduler/machine/job_group.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/token.h"

namespace shoal::scheduler {

bool JobGroup::HasRank(JobRank rank) const { return std::ranges::find(state_.ranks, rank) != state_.ranks.end(); }

bool JobGroup::Close(JobRank rank) {
  state_.gone.insert(rank);
  return state_.gone.size() == state_.ranks.size();
}

void JobGroup::LoseRank(JobRank rank, std::string wish, Now now) {
  state_.lost.insert(rank);
  LeaveOutClosed();
  Wish(std::move(wish), now);
}

// They would tell the servers of the next epoch neither what they have nor that they have left.
void JobGroup::LeaveOutClosed() {
  std::set<JobRank> all = state_.lost;  // one that is about to be gone is among them
  all.insert(state_.gone.begin(), state_.gone.end());
  if (all.size() <= Roster::kMaxLost) state_.lost = std::move(all);
}

Roster JobGroup::NextRoster() const {
  std::vector<Rank> lost;
  for (uint32_t i = 0; i < state_.ranks.size(); ++i) {
    if (state_.lost.contains(state_.ranks[i])) lost.emplace_back(i);
  }
  return Roster(static_cast<uint32_t>(state_.ranks.size()), std::move(lost));
}

bool JobGroup::NeedsNextRoster() const {
  const Roster next = NextRoster();
  const absl::StatusOr<Roster> present = DecodeRoster(next.size(), state_.sealed_roster);
  return !present.ok() || *present != next;
}

bool JobGroup::Fail(std::string failure, bool ends_with_aborted) {
  if (!state_.failure.empty()) return false;
  state_.failure = std::move(failure);
  state_.ends_with_aborted = ends_with_aborted;
  return true;
}

void JobGroup::NoteLost(const ExcludedServer& server, std::string wish, Now now) {
  NoteReport(server.server, std::move(wish), now);
  reported_ = server.server;
  state_.excluded.push_back(server);
}

void JobGroup::NoteReachedAgain(ServerId server, std::string wish, Now now) {
  NoteReport(server, std::move(wish), now);
  reported_ = ServerId();
}

void JobGroup::NoteReport(ServerId server, std::string wish, Now now) {
  Wish(std::move(wish), now);
  ForgetExclusion(server);
}

void JobGroup::Wish(std::string wish, Now now) {
  if (wish_.empty() && (pace_.IsSettled(now) || !wanted_since_ns_.has_value())) wanted_since_ns_ = now.monotonic_ns;
  wish_ = std::move(wish);
}

void JobGroup::ForgetExclusion(ServerId server) {
  std::erase_if(state_.excluded, [&](const ExcludedServer& each) { return each.server == server; });
}

bool JobGroup::ForgetRefusal(ServerId server) {
  return std::erase_if(state_.excluded,
                       [&](const ExcludedServer& each) { return each.server == server && !each.refusal.empty(); }) != 0;
}

void JobGroup::MoveTo(const ShardMap& map, std::vector<ExcludedServer> excluded, std::vector<std::byte> sealed_roster,
                      Now now) {
  // A rank that has closed it does not know of ops that are done without it, where such are done.
  if (state_.min_ranks > 0 && state_.sealed_roster != sealed_roster) state_.all_committed = false;
  state_.sealed_roster = std::move(sealed_roster);
  state_.epoch = map.epoch();
  state_.shards = map.shards();
  state_.excluded = std::move(excluded);
  if (wish_.empty() && pace_.IsSettled(now)) wanted_since_ns_.reset();
  pace_.Note(now);
  wish_.clear();
}

}  // namespace shoal::scheduler
