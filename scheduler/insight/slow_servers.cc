#include "scheduler/insight/slow_servers.h"

#include <algorithm>

namespace shoal::scheduler {
namespace {

constexpr char kNobodySaysSo[] = "most of its ranks do not say any more that they wait for it";

bool IsPossible(const ServerWaitReport& report) {
  return report.window > 0 && report.window_ns > 0 && report.window_ns <= kLongestWindowNs && report.bursts > 0 &&
         std::ranges::all_of(report.servers, [&](const ServerWait& wait) {
           return wait.waited_ns <= report.window_ns && wait.late_bursts <= report.bursts;
         });
}

}  // namespace

void SlowServers::OnReport(JobRank rank, const ServerWaitReport& report, uint64_t heartbeat_ns, Now now) {
  if (!IsPossible(report)) return;
  Voice& voice = voices_[{report.group, rank}];
  if (voice.epoch != report.epoch) voice = {.epoch = report.epoch};
  if (voice.window == report.window) return;
  const WindowTimes times = {
      .end_ns = TimeOf(report, now), .length_ns = report.window_ns, .heartbeat_ns = heartbeat_ns};
  const bool follows = times.Follows(voice.times.end_ns);
  std::map<ServerId, LateWindows> seen;
  for (const ServerWait& wait : report.servers) {
    seen[wait.server] = voice.seen[wait.server].Next(times, Share(wait.waited_ns, report.window_ns),
                                                     Share(wait.late_bursts, report.bursts), kLeastShare, follows);
  }
  voice.window = report.window;
  voice.times = times;
  voice.seen = std::move(seen);
}

void SlowServers::Forget(JobRank rank) {
  std::erase_if(voices_, [rank](const auto& voice) { return voice.first.second == rank; });
}

void SlowServers::Clear() {
  voices_.clear();
  found_ns_.clear();
  told_.clear();
}

void SlowServers::DropOld(const View& view, Now now) {
  std::erase_if(voices_, [&](const auto& entry) {
    const GroupState* const group = view.find_group(entry.first.first);
    return group == nullptr || group->epoch != entry.second.epoch ||
           now.monotonic_ns > entry.second.times.end_ns + kForgottenNs;
  });
}

void SlowServers::AddFindings(Voices::const_iterator begin, Voices::const_iterator end, const View& view, Now now,
                              Findings* findings) const {
  const GroupState& group = *view.find_group(begin->first.first);
  std::set<ServerId> servers;
  for (const Shard& shard : group.shards) {
    if (told_.contains(shard.server)) servers.insert(shard.server);
  }
  for (auto voice = begin; voice != end; ++voice) {
    for (const auto& [server, seen] : voice->second.seen) servers.insert(server);
  }
  for (const ServerId server : servers) {
    ServerComparison comparison = view.compare(group, server);
    if (comparison.server == nullptr) {
      if (!comparison.why_not.empty()) findings->why_not[server] = std::move(comparison.why_not);
      continue;
    }
    const bool was_told = told_.contains(server);
    size_t ranks = 0;
    size_t waiting_ranks = 0;
    double shares = 0;
    Finding found = {.since_ns = UINT64_MAX};
    for (auto voice = begin; voice != end; ++voice) {
      if (comparison.biased.contains(voice->first.second)) continue;
      if (!was_told && now.monotonic_ns > voice->second.times.StaleNs()) continue;
      ++ranks;
      const auto seen = voice->second.seen.find(server);
      if (seen == voice->second.seen.end() || !seen->second.IsSlow(kLeastShare, was_told)) continue;
      ++waiting_ranks;
      shares += seen->second.waited_share;
      found.since_ns = std::min(found.since_ns, seen->second.since_ns);
      found.newest_ns = std::max(found.newest_ns, voice->second.times.end_ns);
    }
    if (ranks > 0) findings->heard.insert(server);
    if (2 * waiting_ranks <= ranks) continue;
    found.waited_share = shares / static_cast<double>(waiting_ranks);
    Finding& most = findings->slow[server];
    if (found.waited_share > most.waited_share) most = found;
  }
}

std::string SlowServers::WhyOver(const Verdict& verdict, const Findings& findings, const View& view, Now now) const {
  const ServerId server = verdict.server.server;
  const ServerState* const live = view.find_live(server);
  if (live == nullptr) return "it is not live any more";
  if (live->incarnation != verdict.server.incarnation) return "it was started anew";
  if (findings.slow.contains(server)) return "";
  if (const auto why_not = findings.why_not.find(server); why_not != findings.why_not.end()) return why_not->second;
  const bool is_old = now.monotonic_ns > verdict.confirmed_ns + kForgottenNs;
  return findings.heard.contains(server) || is_old ? kNobodySaysSo : "";
}

void SlowServers::Refresh(Verdict* verdict, const Finding& finding, const View& view, Now now,
                          std::vector<Change>* changes) {
  SlowServer& told = verdict->server;
  const ServerState& state = *view.find_live(told.server);
  told.name = state.name;
  told.node = state.node;
  told.waited_share = finding.waited_share;
  verdict->confirmed_ns = finding.newest_ns;
  const std::optional<JobRank> late_rank = view.find_late_rank(told.server, kExplains * finding.waited_share);
  if (late_rank == told.late_rank || now.monotonic_ns < verdict->told_ns + kNextCauseNs) return;
  told.late_rank = late_rank;
  verdict->told_ns = now.monotonic_ns;
  changes->push_back({told});
}

std::vector<SlowServers::Change> SlowServers::Judge(const View& view, uint64_t settle_ns, Now now) {
  DropOld(view, now);
  Findings findings;
  for (auto begin = voices_.cbegin(); begin != voices_.cend();) {
    const auto end = voices_.upper_bound({begin->first.first, JobRank(UINT32_MAX)});
    AddFindings(begin, end, view, now, &findings);
    begin = end;
  }
  std::vector<Change> changes;
  std::erase_if(told_, [&](const auto& entry) {
    const std::string over = WhyOver(entry.second, findings, view, now);
    if (over.empty()) return false;
    changes.push_back({entry.second.server, over});
    // What was said of it says nothing of the next process that has its name.
    findings.slow.erase(entry.first);
    for (auto& [of, voice] : voices_) voice.seen.erase(entry.first);
    return true;
  });
  std::erase_if(found_ns_, [&](const auto& entry) { return !findings.slow.contains(entry.first); });
  for (const auto& [server, finding] : findings.slow) {
    if (const auto told = told_.find(server); told != told_.end()) {
      Refresh(&told->second, finding, view, now, &changes);
      continue;
    }
    if (now.monotonic_ns < found_ns_.try_emplace(server, now.monotonic_ns).first->second + settle_ns) continue;
    found_ns_.erase(server);
    const ServerState& state = *view.find_live(server);
    const SlowServer slow = {.server = server,
                             .incarnation = state.incarnation,
                             .name = state.name,
                             .node = state.node,
                             .waited_share = finding.waited_share,
                             .late_rank = view.find_late_rank(server, kExplains * finding.waited_share),
                             .since_unix_ms = UnixMsOf(finding.since_ns, now)};
    told_[server] = {.server = slow, .told_ns = now.monotonic_ns, .confirmed_ns = finding.newest_ns};
    changes.push_back({slow});
  }
  return changes;
}

std::vector<SlowServer> SlowServers::slow() const {
  std::vector<SlowServer> servers;
  servers.reserve(told_.size());
  for (const auto& [id, verdict] : told_) servers.push_back(verdict.server);
  return servers;
}

}  // namespace shoal::scheduler
