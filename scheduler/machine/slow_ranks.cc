#include "scheduler/machine/slow_ranks.h"

#include <algorithm>

namespace shoal::scheduler {
namespace {

double Share(uint64_t part_ns, uint64_t whole_ns) {
  return whole_ns == 0 ? 0 : static_cast<double>(part_ns) / static_cast<double>(whole_ns);
}

bool IsLate(const LateWindow& window, double least_share, double least_late_ops) {
  return Share(window.waited_ns, window.length_ns) >= least_share &&
         window.late_ops >= least_late_ops * static_cast<double>(window.ops);
}

}  // namespace

std::string_view SlowCauseName(SlowCause cause) {
  switch (cause) {
    case SlowCause::kLateCompute:
      return "late-compute";
    case SlowCause::kSlowReader:
      return "slow-reader";
    case SlowCause::kSlowLink:
      return "slow-link";
  }
  return "";
}

std::string_view SlowCauseText(SlowCause cause) {
  switch (cause) {
    case SlowCause::kLateCompute:
      return "it calls its collectives later than the other ranks: look at its computation and its data loading";
    case SlowCause::kSlowReader:
      return "results reach it late: look at what its node receives, and at whether its threads get processor time";
    case SlowCause::kSlowLink:
      return "what it sends arrives slowly: look at its node's network link";
  }
  return "";
}

void SlowRanks::OnWindow(JobRank rank, const LateWindow& window) {
  Seen& seen = suspects_[rank].windows[{window.group, window.server}];
  const bool is_new = seen.window.number != window.number;
  // A server tells its newest window with a heartbeat, and a rank that is not late at all is not told.
  const uint64_t start_ns = window.end_ns - std::min(window.end_ns, window.length_ns);
  const bool follows = start_ns <= seen.window.end_ns + 2 * window.length_ns + kNsPerS;
  seen.window = window;
  if (!is_new) return;
  seen.late = IsLate(window, kLeastShare, kLeastLateOps);
  if (!seen.late || !follows) seen.late_in_row = 0;
  seen.late_in_row += seen.late ? 1 : 0;
}

void SlowRanks::Forget(JobRank rank) {
  suspects_.erase(rank);
  away_share_.erase(rank);
}

std::optional<double> SlowRanks::AwayMoreThanOthers(JobRank rank) const {
  const auto own = away_share_.find(rank);
  std::vector<double> others;
  for (const auto& [other, share] : away_share_) {
    if (other != rank) others.push_back(share);
  }
  if (own == away_share_.end() || others.empty()) return std::nullopt;
  const auto middle = others.begin() + static_cast<std::ptrdiff_t>((others.size() - 1) / 2);
  std::nth_element(others.begin(), middle, others.end());
  return own->second - *middle;
}

std::optional<SlowRanks::Finding> SlowRanks::Find(JobRank rank, const Suspect& suspect) const {
  std::map<GroupId, size_t> servers;  // that find it late
  const LateWindow* longest = nullptr;
  bool is_sure = false;
  for (const auto& [key, seen] : suspect.windows) {
    if (!seen.late) continue;
    const bool is_majority = ++servers[key.first] * 2 > seen.window.servers_of_group;
    is_sure |= is_majority && (seen.late_in_row >= 2 || IsLate(seen.window, kClearShare, kClearLateOps));
    if (longest == nullptr ||
        Share(seen.window.waited_ns, seen.window.length_ns) > Share(longest->waited_ns, longest->length_ns)) {
      longest = &seen.window;
    }
  }
  if (!is_sure) return std::nullopt;
  const double waited = Share(longest->waited_ns, longest->length_ns);
  const double began_late = Share(longest->began_late_ns, longest->length_ns);
  const bool was_away = AwayMoreThanOthers(rank).value_or(began_late) >= waited / 2;
  if (was_away) return Finding{waited, SlowCause::kLateCompute};
  // Without a spacing, as of ops that have one chunk, how late it began has to do.
  const bool is_wide = longest->spacing_ns != 0 && longest->median_spacing_ns != 0
                           ? Share(longest->spacing_ns, longest->median_spacing_ns) >= kWideSpacing
                           : began_late < waited / 2;
  return Finding{waited, is_wide ? SlowCause::kSlowLink : SlowCause::kSlowReader};
}

std::vector<SlowRanks::Change> SlowRanks::Judge(uint64_t settle_ns, Now now) {
  std::vector<Change> changes;
  for (auto suspect = suspects_.begin(); suspect != suspects_.end();) {
    const JobRank rank = suspect->first;
    Suspect& state = suspect->second;
    std::erase_if(state.windows, [&](const auto& entry) {
      const LateWindow& window = entry.second.window;
      return now.monotonic_ns > window.end_ns + window.length_ns + kStaleNs;
    });
    const std::optional<Finding> finding = Find(rank, state);
    if (!finding.has_value()) {
      state.cause.reset();
      if (state.told.has_value()) changes.push_back({*state.told, /*is_over=*/true});
      state.told.reset();
      suspect = state.windows.empty() ? suspects_.erase(suspect) : std::next(suspect);
      continue;
    }
    if (state.cause != finding->cause) {
      state.cause = finding->cause;
      state.cause_since_ns = now.monotonic_ns;
    }
    if (state.told.has_value()) state.told->waited_share = finding->waited_share;
    const bool is_settled = now.monotonic_ns - state.cause_since_ns >= settle_ns;
    if (is_settled && (!state.told.has_value() || state.told->cause != finding->cause)) {
      const uint64_t since_unix_ms = state.told.has_value() ? state.told->since_unix_ms : now.unix_ms;
      state.told = SlowRank{rank, finding->waited_share, finding->cause, since_unix_ms};
      changes.push_back({*state.told, /*is_over=*/false});
    }
    ++suspect;
  }
  return changes;
}

std::vector<SlowRank> SlowRanks::slow() const {
  std::vector<SlowRank> ranks;
  for (const auto& [rank, suspect] : suspects_) {
    if (suspect.told.has_value()) ranks.push_back(*suspect.told);
  }
  return ranks;
}

}  // namespace shoal::scheduler
