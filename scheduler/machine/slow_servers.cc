#include "scheduler/machine/slow_servers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal::scheduler {
namespace {

constexpr char kNobodySaysSo[] = "most of its ranks do not say any more that they wait for it";

bool IsPossible(const ServerWaitReport& report) {
  return report.window > 0 && report.window_ns > 0 && report.window_ns <= kLongestWindowNs && report.bursts > 0 &&
         std::ranges::all_of(report.servers, [&](const ServerWait& wait) {
           return wait.waited_ns <= report.window_ns && wait.late_bursts <= report.bursts;
         });
}

double Share(uint64_t part, uint64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

}  // namespace

std::string_view SlowServer::CauseName() const { return late_rank.has_value() ? "slow-way" : "slow-server"; }

std::string SlowServer::Advice() const {
  if (late_rank.has_value()) {
    return absl::StrCat("it waits for what rank ", late_rank->value(),
                        " sends, which reaches the other servers in time: look at the network between the two");
  }
  return "its results come later than those of the other servers: look at its node's network link, at what else that "
         "carries, and at whether its threads get processor time";
}

void SlowServers::OnReport(JobRank rank, const ServerWaitReport& report, uint64_t heartbeat_ns, Now now) {
  if (!IsPossible(report)) return;
  Voice& voice = voices_[{report.group, rank}];
  if (voice.epoch != report.epoch) voice = {.epoch = report.epoch};
  if (voice.window == report.window) return;
  const WindowTimes times = {
      .end_ns = TimeOf(report, now), .length_ns = report.window_ns, .heartbeat_ns = heartbeat_ns};
  const bool follows = times.Follows(voice.times.end_ns);
  std::map<ServerId, Seen> seen;
  for (const ServerWait& wait : report.servers) {
    Seen& of_server = seen[wait.server];
    of_server = {.waited_share = Share(wait.waited_ns, report.window_ns),
                 .late_share = Share(wait.late_bursts, report.bursts)};
    const auto before = voice.seen.find(wait.server);
    const LateWindows late_before = before == voice.seen.end() ? LateWindows() : before->second.late;
    of_server.late = late_before.Next(times, IsLate(of_server, /*was_told=*/true), follows);
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

bool SlowServers::IsLate(const Seen& seen, bool was_told) {
  const double of_thresholds = was_told ? kOfThoseTold : 1;
  return seen.waited_share >= of_thresholds * kLeastShare && seen.late_share >= of_thresholds * kLeastLateBursts;
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
      if (seen == voice->second.seen.end() || seen->second.late.in_row < kWindowsInRow ||
          !IsLate(seen->second, was_told)) {
        continue;
      }
      ++waiting_ranks;
      shares += seen->second.waited_share;
      found.since_ns = std::min(found.since_ns, seen->second.late.since_ns);
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
