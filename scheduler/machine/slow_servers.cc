#include "scheduler/machine/slow_servers.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"

namespace shoal::scheduler {
namespace {

constexpr uint64_t kLongestWindowNs = 3600 * kNsPerS;

bool IsPossible(const ServerWaitsReport& report) {
  return report.window > 0 && report.window_ns > 0 && report.window_ns <= kLongestWindowNs && report.ops > 0 &&
         std::ranges::all_of(report.servers, [&](const ServerWaitReport& wait) {
           return wait.waited_ns <= report.window_ns && wait.late_ops <= report.ops;
         });
}

double Share(uint64_t part, uint64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

}  // namespace

std::string SlowServer::Advice() const {
  if (late_rank.has_value()) {
    return absl::StrCat("it waits for what rank ", late_rank->value(),
                        " sends, which reaches the other servers in time: look at the network between the two");
  }
  return "its results come later than those of the other servers: look at its node's network link, at what else that "
         "carries, and at whether its threads get processor time";
}

void SlowServers::OnReport(JobRank rank, const ServerWaitsReport& report, Now now) {
  if (!IsPossible(report)) return;
  Voice& voice = voices_[rank];
  if (voice.window == report.window) return;
  const uint64_t end_ns = now.monotonic_ns - std::min(report.ago_ms, now.monotonic_ns / kNsPerMs) * kNsPerMs;
  const uint64_t start_ns = end_ns - std::min(end_ns, report.window_ns);
  // A heartbeat tells the newest window alone.
  const bool follows = start_ns <= voice.end_ns + 2 * report.window_ns + kNsPerS;
  std::map<ServerId, Seen> seen;
  const size_t taken = std::min(report.servers.size(), kMostServersTaken);
  for (const ServerWaitReport& wait : std::span(report.servers).first(taken)) {
    Seen& of_server = seen[wait.server];
    of_server = {.waited_share = Share(wait.waited_ns, report.window_ns),
                 .late_ops_share = Share(wait.late_ops, report.ops)};
    if (!IsLate(of_server, /*was_told=*/true)) continue;
    const auto before = voice.seen.find(wait.server);
    const bool continues = follows && before != voice.seen.end() && before->second.late_in_row > 0;
    of_server.late_in_row = continues ? before->second.late_in_row + 1 : 1;
    of_server.late_since_ns = continues ? before->second.late_since_ns : start_ns;
  }
  voice = {.window = report.window, .length_ns = report.window_ns, .end_ns = end_ns, .seen = std::move(seen)};
}

bool SlowServers::IsLate(const Seen& seen, bool was_told) {
  const double of_thresholds = was_told ? kOfThoseTold : 1;
  return seen.waited_share >= of_thresholds * kLeastShare && seen.late_ops_share >= of_thresholds * kLeastLateOps;
}

std::map<ServerId, SlowServers::Finding> SlowServers::FindLate() const {
  std::map<ServerId, Finding> findings;
  for (const auto& [rank, voice] : voices_) {
    for (const auto& [server, seen] : voice.seen) {
      if (seen.late_in_row < kWindowsInRow || !IsLate(seen, told_.contains(server))) continue;
      Finding& finding = findings[server];
      ++finding.ranks;
      finding.waited_share_sum += seen.waited_share;
      finding.since_ns = std::min(finding.since_ns, seen.late_since_ns);
    }
  }
  std::erase_if(findings, [&](const auto& finding) { return 2 * finding.second.ranks <= voices_.size(); });
  return findings;
}

std::vector<SlowServers::Change> SlowServers::Judge(const FindServer& find_server, const FindLateRank& find_late_rank,
                                                    uint64_t settle_ns, Now now) {
  std::erase_if(voices_, [&](const auto& entry) {
    const Voice& voice = entry.second;
    return now.monotonic_ns > voice.end_ns + std::min(voice.length_ns, kLongestLengthNs) + kStaleNs;
  });
  std::map<ServerId, Finding> findings = FindLate();
  std::erase_if(findings, [&](const auto& finding) { return find_server(finding.first) == nullptr; });
  std::vector<Change> changes;
  std::erase_if(told_, [&](const auto& entry) {
    if (findings.contains(entry.first)) return false;
    changes.push_back({entry.second, /*is_over=*/true});
    return true;
  });
  std::erase_if(found_ns_, [&](const auto& entry) { return !findings.contains(entry.first); });
  for (const auto& [server, finding] : findings) {
    if (now.monotonic_ns < found_ns_.try_emplace(server, now.monotonic_ns).first->second + settle_ns) continue;
    const double waited_share = finding.waited_share_sum / static_cast<double>(finding.ranks);
    const auto [told, is_news] = told_.try_emplace(server);
    told->second.waited_share = waited_share;
    if (!is_news) continue;
    const ServerState& state = *find_server(server);
    const uint64_t ago_ms = (now.monotonic_ns - std::min(finding.since_ns, now.monotonic_ns)) / kNsPerMs;
    told->second = {.server = server,
                    .name = state.name,
                    .node = state.node,
                    .waited_share = waited_share,
                    .late_rank = find_late_rank(server),
                    .since_unix_ms = now.unix_ms - std::min(ago_ms, now.unix_ms)};
    changes.push_back({told->second, /*is_over=*/false});
  }
  return changes;
}

std::vector<SlowServer> SlowServers::slow() const {
  std::vector<SlowServer> servers;
  for (const auto& [id, server] : told_) servers.push_back(server);
  return servers;
}

}  // namespace shoal::scheduler
