#include "scheduler/insight/slow_ranks.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace shoal::scheduler {
namespace {

uint64_t PerOp(uint64_t ns, uint64_t ops) { return ns / std::max<uint64_t>(ops, 1); }

// The lower one of the two in the middle. There is at least one.
double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

size_t CountServers(const GroupState& group) {
  std::set<ServerId> servers;
  for (const Shard& shard : group.shards) servers.insert(shard.server);
  return servers.size();
}

}  // namespace

void SlowRanks::OnWindow(const LateWindow& window) {
  Suspect& suspect = suspects_[{window.group, window.rank}];
  // Of an epoch that is over, and of the servers that the group had then, nothing counts.
  std::erase_if(suspect, [&](const auto& entry) { return entry.second.window.epoch != window.epoch; });
  Seen& seen = suspect[{window.server, window.io_thread}];
  const bool is_new = seen.window.number != window.number;
  const bool follows = window.times.Follows(seen.window.times.end_ns);
  seen.window = window;
  if (!is_new) return;
  seen.late = seen.late.Next(window.times, Share(window.waited_ns, window.times.length_ns),
                             Share(window.late_ops, window.ops), kLeastShare, follows);
}

void SlowRanks::Forget(JobRank rank) {
  verdicts_.erase(rank);
  over_.erase(rank);
  away_.Forget(rank);
  gone_.insert(rank);
}

bool SlowRanks::DropStale(Suspect* suspect, const GroupState& group, Now now) const {
  std::erase_if(*suspect, [&](const auto& entry) {
    const LateWindow& window = entry.second.window;
    return window.epoch != group.epoch || now.monotonic_ns > window.times.StaleNs();
  });
  return !suspect->empty();
}

const SlowRanks::Seen* SlowRanks::FindSlowest(const Suspect& suspect, const GroupState& group, JobRank rank) const {
  const bool was_told = WasTold(rank);
  std::set<ServerId> servers;  // that find it slow
  const Seen* slowest = nullptr;
  for (const auto& [key, seen] : suspect) {
    if (!seen.late.IsSlow(kLeastShare, was_told)) continue;
    servers.insert(key.first);
    if (slowest == nullptr || seen.late.waited_share > slowest->late.waited_share) slowest = &seen;
  }
  return servers.size() * 2 > CountServers(group) ? slowest : nullptr;
}

bool SlowRanks::WasTold(JobRank rank) const {
  const auto verdict = verdicts_.find(rank);
  return verdict != verdicts_.end() && verdict->second.told.has_value();
}

std::optional<double> SlowRanks::MedianAway(const std::vector<JobRank>& ranks, uint64_t span_ns, Now now) const {
  std::vector<double> shares;
  for (const JobRank rank : ranks) {
    if (const std::optional<double> share = away_.Of(rank, span_ns, now); share.has_value()) shares.push_back(*share);
  }
  if (shares.size() < 2) return std::nullopt;
  return MedianOf(std::move(shares));
}

void SlowRanks::AddFindingsOnNode(const std::vector<JobRank>& ranks, uint64_t heartbeat_ns, Now now,
                                  std::map<JobRank, Finding>* findings) const {
  using Spans = std::array<AwaySpan, 2>;
  std::map<JobRank, Spans> known;
  std::array<std::vector<double>, 2> shares;
  for (const JobRank rank : ranks) {
    const std::optional<Spans> spans = away_.NewestTwo(rank, kSpanOnNodeNs, heartbeat_ns, now);
    // With one of them missing, what the others say is of another time.
    if (!spans.has_value()) return;
    known.emplace(rank, *spans);
    for (size_t i = 0; i < spans->size(); ++i) shares[i].push_back((*spans)[i].Share());
  }
  const std::array<double, 2> medians = {MedianOf(shares[0]), MedianOf(shares[1])};
  for (const auto& [rank, spans] : known) {
    const double of_thresholds = WasTold(rank) ? kOfThoseTold : 1;
    Finding finding{.since_ns = spans[1].began_ns};
    bool is_late = true;
    for (size_t i = spans.size(); i-- > 0;) {
      // So long had the median rank an op under way while this rank had none.
      finding.waited_share = std::max(0.0, spans[i].Share() - medians[i]);
      finding.waited_ns_per_op =
          PerOp(static_cast<uint64_t>(finding.waited_share * static_cast<double>(spans[i].counted_ns)), spans[i].ops);
      is_late = is_late && finding.waited_share >= of_thresholds * kLeastShare &&
                static_cast<double>(finding.waited_ns_per_op) >= of_thresholds * kLeastLateOnNodeNs;
    }
    if (!is_late) continue;
    const auto [found, is_first] = findings->try_emplace(rank, finding);
    if (!is_first && found->second.waited_share < finding.waited_share) found->second = finding;
  }
}

void SlowRanks::AddFinding(const Suspect& suspect, const Seen& slowest, const GroupState& group, Now now,
                           std::map<JobRank, Finding>* findings) const {
  const LateWindow& window = slowest.window;
  const std::vector<JobRank>& ranks = group.RanksOfWhole();
  const double waited = slowest.late.waited_share;
  // Two windows are as long as two steps at least, so that it does not matter where in a step a heartbeat comes.
  const uint64_t span_ns = 2 * window.times.length_ns;
  const std::optional<double> median_away = MedianAway(ranks, span_ns, now);
  // By how much a rank is away for longer than the others.
  const auto away_more = [&](JobRank rank) -> std::optional<double> {
    const std::optional<double> share = away_.Of(rank, span_ns, now);
    if (!share.has_value() || !median_away.has_value()) return std::nullopt;
    return *share - *median_away;
  };
  const double began_late = Share(window.began_late_ns, window.times.length_ns);
  // Where ops take longer than the rank is late, waits for one chunk after the other make up nearly all of an op: then
  // its calls explain by how much it began late, and no more.
  const auto is_compute = [&](double more) {
    return more >= waited / 2 || (began_late >= kLeastShare && more >= began_late / 2);
  };
  JobRank who = group.ranks[window.rank.value()];
  std::optional<double> away = away_more(who);
  if (group.rail.has_value()) {
    // A rail's part comes late if any rank of the node is late: the one that was away for longer than others, if there
    // is one, and otherwise the rail's own.
    for (const Rank rank : group.rail->layout.RanksOfNode(window.rank.value())) {
      const JobRank candidate = ranks[rank.value()];
      const std::optional<double> more = away_more(candidate);
      if (!more.has_value() || !is_compute(*more) || *more <= away.value_or(0)) continue;
      who = candidate;
      away = more;
    }
  }
  Finding finding{.waited_share = waited,
                  .waited_ns_per_op = PerOp(window.waited_ns, window.ops),
                  .since_ns = slowest.late.since_ns};
  if (away.has_value() ? !is_compute(*away) : began_late < waited / 2) {
    if (window.alone_by_network) return;
    // Servers see a link differently, as it carries the traffic of a server on the rank's node as well: most decide.
    size_t wide = 0;
    size_t known = 0;
    for (const auto& [key, seen] : suspect) {
      const LateWindow& each = seen.window;
      if (each.spacing_ns == 0 || each.median_spacing_ns == 0) continue;
      ++known;
      if (static_cast<double>(each.spacing_ns) >= kWideSpacing * static_cast<double>(each.median_spacing_ns)) ++wide;
    }
    // Without a spacing, as of ops that have one chunk, nothing tells the way there from the way back.
    const bool is_wide = known > 0 && 2 * wide >= known;
    finding.cause = is_wide ? SlowCause::kSlowLink : SlowCause::kSlowReader;
  }
  const auto [found, is_first] = findings->try_emplace(who, finding);
  if (!is_first && found->second.waited_share < waited) found->second = finding;
}

std::vector<SlowRanks::Change> SlowRanks::Judge(const FindGroup& find_group,
                                                const std::set<std::vector<JobRank>>& on_one_node, uint64_t settle_ns,
                                                Now now) {
  std::map<JobRank, Finding> findings;
  for (auto suspect = suspects_.begin(); suspect != suspects_.end();) {
    const GroupState* const group = find_group(suspect->first.first);
    if (group == nullptr || !DropStale(&suspect->second, *group, now)) {
      suspect = suspects_.erase(suspect);
      continue;
    }
    const JobRank own = group->ranks[suspect->first.second.value()];
    if (gone_.contains(own)) {
      suspect = suspects_.erase(suspect);
      continue;
    }
    if (const Seen* const slowest = FindSlowest(suspect->second, *group, own); slowest != nullptr) {
      AddFinding(suspect->second, *slowest, *group, now, &findings);
    }
    ++suspect;
  }
  gone_.clear();  // no server is believed that tells of them
  for (const std::vector<JobRank>& ranks : on_one_node) AddFindingsOnNode(ranks, settle_ns, now, &findings);
  std::vector<Change> changes;
  for (auto verdict = verdicts_.begin(); verdict != verdicts_.end();) {
    const auto& [rank, of_rank] = *verdict;
    const bool is_over = !findings.contains(rank) && now.monotonic_ns - of_rank.found_ns >= of_rank.hold_ns;
    if (is_over && of_rank.told.has_value()) {
      changes.push_back({*of_rank.told, /*is_over=*/true});
      over_[rank] = {now.monotonic_ns, std::clamp(2 * of_rank.hold_ns, kFirstHoldNs, kLongestHoldNs)};
    }
    verdict = is_over ? verdicts_.erase(verdict) : std::next(verdict);
  }
  for (const auto& [rank, finding] : findings) {
    const auto [found, is_first] = verdicts_.try_emplace(rank);
    Verdict& verdict = found->second;
    if (is_first || verdict.cause != finding.cause) {
      verdict.cause = finding.cause;
      verdict.cause_since_ns = now.monotonic_ns;
    }
    if (verdict.told.has_value()) {
      verdict.told->waited_share = finding.waited_share;
      verdict.told->waited_ns_per_op = finding.waited_ns_per_op;
    }
    verdict.found_ns = now.monotonic_ns;
    const bool is_news = !verdict.told.has_value() || (verdict.told->cause != finding.cause &&
                                                       now.monotonic_ns >= verdict.told_ns + verdict.next_cause_ns);
    if (!is_news || now.monotonic_ns - verdict.cause_since_ns < settle_ns) continue;
    const uint64_t since_unix_ms =
        verdict.told.has_value() ? verdict.told->since_unix_ms : UnixMsOf(finding.since_ns, now);
    if (verdict.told.has_value()) {
      verdict.next_cause_ns = std::min(2 * verdict.next_cause_ns, kLongestHoldNs);
    } else if (const auto over = over_.find(rank); over != over_.end()) {
      if (now.monotonic_ns - over->second.at_ns <= kOftenNs) verdict.hold_ns = over->second.next_hold_ns;
      over_.erase(over);
    }
    verdict.told = SlowRank{rank, finding.waited_share, finding.waited_ns_per_op, finding.cause, since_unix_ms};
    verdict.told_ns = now.monotonic_ns;
    changes.push_back({*verdict.told, /*is_over=*/false});
  }
  return changes;
}

std::vector<SlowRank> SlowRanks::slow() const {
  std::vector<SlowRank> ranks;
  for (const auto& [rank, verdict] : verdicts_) {
    if (verdict.told.has_value()) ranks.push_back(*verdict.told);
  }
  return ranks;
}

std::optional<JobRank> SlowRanks::FindLateAtOne(ServerId server, double least_share,
                                                const FindGroup& find_group) const {
  std::optional<JobRank> most_late;
  double waited_share = least_share;
  for (const auto& [of_group, suspect] : suspects_) {
    const GroupState* const group = find_group(of_group.first);
    if (group == nullptr || CountServers(*group) < 2) continue;
    const auto is_late = [&](const auto& entry) { return entry.second.late.IsSlow(kLeastShare, /*was_told=*/false); };
    for (const auto& entry : suspect) {
      const double share = entry.second.late.waited_share;
      if (!is_late(entry) || share < waited_share) continue;
      const bool is_late_elsewhere = std::ranges::any_of(
          suspect, [&](const auto& other) { return other.first.first != entry.first.first && is_late(other); });
      if (entry.first.first != server || is_late_elsewhere) continue;
      most_late = group->ranks[of_group.second.value()];
      waited_share = share;
    }
  }
  return most_late;
}

}  // namespace shoal::scheduler
