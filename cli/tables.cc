#include "cli/tables.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/op_time_histogram.h"
#include "program/wrap_text.h"
#include "proto/status_text.h"

namespace shoal::cli {
namespace {

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string TroubleText(const v1::JobStatus& job) {
  std::vector<std::string> trouble = TroublesOf(job);
  if (trouble.size() > 2) {
    const size_t more = trouble.size() - 2;
    trouble.resize(2);
    trouble.push_back(absl::StrCat("and ", more, " more"));
  }
  return OrDash(absl::StrJoin(trouble, "; "));
}

constexpr size_t kLeastOfName = 8;     // characters, in a table that would else be too wide
constexpr size_t kColumnDistance = 2;  // spaces

std::vector<size_t> ColumnWidths(const std::vector<TableRow>& rows) {
  std::vector<size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], TextWidth(row[i]));
  }
  return widths;
}

// "shoal-ser...rack-7" of `most` characters, if it has more: what begins and what ends a name tells it from others.
std::string ShortenInTheMiddle(const std::string& text, size_t most) {
  const std::string left_out = "...";
  std::vector<size_t> begins;  // of characters
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) begins.push_back(i);
  }
  if (begins.size() <= most) return text;
  const size_t of_end = (most - left_out.size()) / 2;
  const size_t of_begin = most - left_out.size() - of_end;
  return absl::StrCat(text.substr(0, begins[of_begin]), left_out, text.substr(begins[begins.size() - of_end]));
}

// A table of which names are shortened, unless it is shown whole.
std::string TableText(std::vector<TableRow> rows, const std::vector<size_t>& name_columns, TableExtent extent) {
  return extent.wide ? AlignTable(rows) : FitTable(std::move(rows), name_columns);
}

bool IsGone(const v1::ServerStatus& server) { return server.state() == "lost" || server.state() == "left"; }

std::vector<const v1::ServerStatus*> ThoseThatAreThereFirst(const v1::ListServersResponse& servers) {
  std::vector<const v1::ServerStatus*> sorted;
  for (const v1::ServerStatus& server : servers.servers()) sorted.push_back(&server);
  std::ranges::stable_partition(sorted, [](const v1::ServerStatus* server) { return !IsGone(*server); });
  return sorted;
}

std::string NotShownText(uint64_t count, const std::string& what) {
  if (count == 0) return "";
  return absl::StrCat(Plural(count, what), " gone for more than an hour not shown (--all shows them)\n");
}

std::string AgoText(uint64_t age_ms) { return absl::StrCat(AgeText(age_ms), " ago"); }

// "0-127", "0,8,16,24 +12": in their order; those that the column has no room for are counted.
template <typename Ranks>
std::string RankRunsText(const Ranks& ranks) {
  constexpr size_t kMostListed = 18;  // characters
  std::string listed;
  for (auto it = ranks.begin(); it != ranks.end();) {
    auto end = std::next(it);
    while (end != ranks.end() && *end == *std::prev(end) + 1) ++end;
    if (end - it < 3) end = std::next(it);
    const std::string run = end - it == 1 ? absl::StrCat(*it) : absl::StrCat(*it, "-", *std::prev(end));
    if (!listed.empty() && listed.size() + 1 + run.size() > kMostListed) {
      return absl::StrCat(listed, " +", ranks.end() - it);
    }
    absl::StrAppend(&listed, listed.empty() ? "" : ",", run);
    it = end;
  }
  return OrDash(listed);
}

// By which ways the ranks reach their servers; ranks that go the same ways share a line.
std::string TransportsText(const v1::JobStatus& job) {
  std::map<std::string, std::vector<uint32_t>> ranks;
  for (const v1::RankStatus& rank : job.ranks()) {
    if (!rank.load().transports().empty()) ranks[rank.load().transports()].push_back(rank.rank());
  }
  std::string text;
  for (const auto& [transports, by] : ranks) {
    const std::string whose = by.size() == 1 ? "rank " : "ranks ";
    text += WrapText(absl::StrCat("Transports of ", whose, RankRunsText(by), ": ", transports), 4);
  }
  return text;
}

std::string GroupsText(const v1::JobStatus& job) {
  const GroupCounts counts = CountGroups(job);
  std::vector<std::string> kinds;
  if (counts.on_one_node > 0) kinds.push_back(absl::StrCat(counts.on_one_node, " on one node"));
  if (counts.rails > 0) kinds.push_back(absl::StrCat(counts.rails, " rails"));
  const std::string count = absl::StrCat(counts.groups);
  return kinds.empty() ? count : absl::StrCat(count, " (", absl::StrJoin(kinds, ", "), ")");
}

// "" if none was made, or the scheduler is too old to tell.
std::string SavesText(const v1::Cluster& cluster) {
  const uint64_t saved = cluster.newest_save_unix_ms();
  const uint64_t now = cluster.now_unix_ms();  // both by the scheduler's clock
  const auto ago = [now](uint64_t then) { return AgoText(now > then ? now - then : 0); };
  std::string failed;
  if (!cluster.save_failure().empty()) {
    const uint64_t since = cluster.saves_fail_since_unix_ms();
    failed = absl::StrCat(" Saves have failed for ", AgeText(now > since ? now - since : 0),
                          ", so nothing new begins: ", cluster.save_failure());
  } else if (cluster.newest_save_failure_unix_ms() != 0) {
    failed = absl::StrCat(" Before it ", Plural(cluster.saves_failed(), "save"), " failed, the newest one ",
                          ago(cluster.newest_save_failure_unix_ms()), ".");
  }
  if (saved == 0) return failed;
  return absl::StrCat(" The newest save, ", ago(saved), ", took ", MillisecondsText(cluster.newest_save_ns(), 1), ".",
                      failed);
}

// "" if the network is closed.
std::string OpenText(const v1::Cluster& cluster) {
  if (cluster.open_to_network().empty()) return "";
  return WrapText(absl::StrCat("Warning: ", cluster.open_to_network(), " (--insecure-network)."), 4);
}

// A line for each server that is not let in.
std::string RefusedText(const v1::Cluster& cluster) {
  std::string text;
  for (const v1::RefusedServer& refused : cluster.refused_servers()) {
    text += WrapText(absl::StrCat("server ", refused.name(), " on ", refused.node(), " was refused ",
                                  AgoText(refused.newest_age_ms()), ": ", refused.reason()),
                     4);
  }
  return text;
}

// Which jobs a server serves.
std::string ServesText(const v1::ServerStatus& server) {
  return server.job_id() == 0 ? "all" : absl::StrCat("job ", server.job_id());
}

std::string PeersText(const v1::ServerLoad& load) {
  if (load.shared_memory_peers() == 0) return absl::StrCat(load.peers());
  return absl::StrCat(load.peers(), " (", load.shared_memory_peers(), " by shared memory)");
}

// "" if they are not known, or no rank is left.
std::string RatesText(const v1::JobStatus& job) {
  const uint64_t live = TotalsOf(job).live;
  if (!job.has_rates() || live == 0) return "";
  const v1::JobRates& rates = job.rates();
  // Every rank counts an op that all of them make.
  const auto ops_text = [live](double of_all_ranks) { return RateText(of_all_ranks / static_cast<double>(live)); };
  const std::string failed =
      rates.failed_ops() > 0 ? absl::StrCat(", ", ops_text(rates.failed_ops()), " failed ops/s") : "";
  return WrapText(absl::StrCat("Rates lately: ", ops_text(rates.ops()), " ops/s", failed, "; by all ranks together ",
                               BytesRateText(rates.bytes_pushed()), "/s pushed, ", BytesRateText(rates.bytes_pulled()),
                               "/s pulled"),
                  4);
}

// What each rank does lately; "" if of none it is known, or the scheduler is too old to tell. A table of its own:
// beside what ranks have counted a terminal has no room.
std::string RankRatesText(const v1::JobStatus& job) {
  std::vector<TableRow> rows = {{"RANK", "OPS/S", "PUSHED/S", "PULLED/S"}};
  for (const v1::RankStatus& rank : job.ranks()) {
    if (!rank.has_rates()) continue;
    const v1::RankRates& rates = rank.rates();
    rows.push_back({absl::StrCat(rank.rank()), RateText(rates.ops()), BytesRateText(rates.bytes_pushed()),
                    BytesRateText(rates.bytes_pulled())});
  }
  return rows.size() == 1 ? "" : absl::StrCat("\n", AlignTable(rows));
}

// What is kept for the job; "" if nothing is.
std::string KeptText(const v1::JobStatus& job) {
  std::vector<std::string> kept;
  if (job.slot_memory_bytes() > 0) {
    kept.push_back(absl::StrCat("servers have reserved ", BytesText(job.slot_memory_bytes()), " of slot memory"));
  }
  if (const uint64_t chunks = job.load().retained_results(); chunks > 0) {
    kept.push_back(
        absl::StrCat("ranks keep the results of ", Plural(chunks, "chunk"), " for ranks that may not have them yet"));
  }
  return kept.empty() ? "" : WrapText(absl::StrCat("Kept for it: ", absl::StrJoin(kept, "; ")), 4);
}

// Ranks of which servers have refused messages; "" if there is none.
std::string RefusalsText(const v1::JobStatus& job) {
  constexpr size_t kShown = 8;
  std::vector<std::string> ranks;
  uint64_t more = 0;
  for (const v1::RankStatus& rank : job.ranks()) {
    if (rank.load().refusals() == 0) continue;
    if (ranks.size() == kShown) {
      ++more;
    } else {
      ranks.push_back(absl::StrCat(rank.load().refusals(), " of rank ", rank.rank()));
    }
  }
  if (ranks.empty()) return "";
  const std::string others = more == 0 ? "" : absl::StrCat(", and some of ", Plural(more, "other rank"));
  return WrapText(absl::StrCat("Messages that servers have refused: ", absl::StrJoin(ranks, ", "), others), 4);
}

std::string LinkText(const v1::LinkFacts& link) {
  if (link.within_node()) return "servers on the ranks' own node";
  std::vector<std::string> facts;
  const double bit_per_s = 8 * static_cast<double>(link.bytes_per_s());
  if (bit_per_s >= 1e9) {
    facts.push_back(absl::StrFormat("%.1f Gbit/s", bit_per_s / 1e9));
  } else if (bit_per_s > 0) {
    facts.push_back(absl::StrFormat("%.0f Mbit/s", bit_per_s / 1e6));
  }
  if (link.round_trip_ns() > 0) facts.push_back(absl::StrCat("round trip ", MillisecondsText(link.round_trip_ns(), 1)));
  if (link.message_ns() > 0) {
    facts.push_back(absl::StrFormat("%.1f us for each message", static_cast<double>(link.message_ns()) / 1e3));
  }
  return facts.empty() ? "not measured" : absl::StrJoin(facts, ", ");
}

// The links that groups were planned with; groups that have the same share a line.
std::string LinksText(const v1::JobStatus& job) {
  std::map<std::string, std::set<std::string>> groups;  // rails of a group share its name
  for (const v1::GroupStatus& group : job.groups()) {
    if (group.has_link()) groups[LinkText(group.link())].insert(group.name());
  }
  std::string text;
  for (const auto& [link, names] : groups) {
    constexpr size_t kShown = 4;
    const size_t shown = std::min(names.size(), kShown);
    const std::string listed =
        absl::StrJoin(names.begin(), std::next(names.begin(), static_cast<ptrdiff_t>(shown)), ", ");
    const std::string more = shown == names.size() ? "" : absl::StrCat(" and ", names.size() - shown, " more");
    const std::string whose = names.size() == 1 ? "group " : "groups ";
    text += WrapText(absl::StrCat("Link of ", whose, listed, more, ": ", link), 4);
  }
  return text;
}

// Of ops that ended well; "" if none did, or the ranks are too old to tell.
std::string OpTimesText(const v1::JobStatus& job) {
  const v1::WorkerLoad& load = job.load();
  const OpTimeHistogram times = OpTimeHistogramOf(load.op_time_counts());
  if (times.Total() == 0) return "";
  const auto line = [](const std::string& when, uint64_t mean_ns, uint64_t median_ns, uint64_t percentile_99_ns) {
    return absl::StrCat("Time of an op ", when, ": mean ", MillisecondsText(mean_ns, 1), ", median ",
                        MillisecondsText(median_ns, 1), ", 99th percentile ", MillisecondsText(percentile_99_ns, 1),
                        "\n");
  };
  const v1::JobRates& rates = job.rates();
  return absl::StrCat(
      rates.median_op_ns() == 0 ? ""
                                : line("lately", rates.mean_op_ns(), rates.median_op_ns(), rates.percentile_99_op_ns()),
      line("since the start", load.op_time_ns_total() / times.Total(), times.QuantileNs(0.5), times.QuantileNs(0.99)));
}

}  // namespace

std::string AlignTable(const std::vector<TableRow>& rows) {
  const std::vector<size_t> widths = ColumnWidths(rows);
  std::string text;
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - TextWidth(row[i]) + kColumnDistance, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string FitTable(std::vector<TableRow> rows, const std::vector<size_t>& name_columns) {
  std::vector<size_t> widths = ColumnWidths(rows);
  size_t columns = std::accumulate(widths.begin(), widths.end(), (widths.size() - 1) * kColumnDistance);
  for (; columns > kMostColumns; --columns) {
    const size_t longest = *std::ranges::max_element(name_columns, {}, [&](size_t column) { return widths[column]; });
    if (widths[longest] <= kLeastOfName) break;
    --widths[longest];
  }
  for (TableRow& row : rows) {
    for (const size_t column : name_columns) row[column] = ShortenInTheMiddle(row[column], widths[column]);
  }
  return AlignTable(rows);
}

std::string ClusterText(const v1::Cluster& cluster, const std::string& scheduler, uint64_t now_unix_ms) {
  const uint64_t started = cluster.started_at_unix_ms();
  const std::string text =
      WrapText(absl::StrCat("Cluster ", cluster.cluster_id(), " at ", scheduler, " (Shoal ", cluster.software_version(),
                            "): up ", AgeText(now_unix_ms > started ? now_unix_ms - started : 0), ", lease ",
                            AgeText(cluster.lease_ttl_ms())),
               4);
  const std::string leader =
      cluster.leader().empty() ? "" : absl::StrCat("The scheduler at ", cluster.leader(), " leads. ");
  const std::string counts =
      absl::StrCat("It has map epoch ", cluster.epoch(), ", ", ServerCountsText(cluster), ", ",
                   Plural(cluster.jobs(), "job"), ", ", Plural(cluster.workers(), "worker"), ".\n");
  return absl::StrCat(
      text, counts, OpenText(cluster),
      WrapText(absl::StrCat(leader, "It keeps its state in ", cluster.store(), ".", SavesText(cluster)), 4),
      RefusedText(cluster));
}

std::string ServerCountsText(const v1::Cluster& cluster) {
  const std::string colocated =
      cluster.servers_colocated() == 0 ? "" : absl::StrCat(", ", cluster.servers_colocated(), " colocated");
  return absl::StrCat(Plural(cluster.servers_live(), "server"), " live, ", cluster.servers_lost(), " lost", colocated);
}

std::string ServersText(const v1::ListServersResponse& servers, TableExtent extent) {
  if (servers.servers().empty()) {
    return "No servers. Start one with: shoal-server --scheduler HOST:PORT --advertise IP\n";
  }
  std::vector<TableRow> rows = {
      {"SERVER", "STATE", "NODE", "HEARTBEAT", "IN", "OUT", "GROUPS", "PEERS", "SLOT MEMORY"}};
  if (extent.wide) {
    rows[0].insert(rows[0].end(), {"SERVES", "ADDRESSES", "CHUNKS", "REFUSED", "CORRUPTED", "TRANSPORTS", "REASON"});
  }
  std::string reasons;
  uint64_t not_shown = 0;
  for (const v1::ServerStatus* const each : ThoseThatAreThereFirst(servers)) {
    const v1::ServerStatus& server = *each;
    if (!extent.all && IsGone(server) && server.last_heartbeat_age_ms() > kShownGoneMs) {
      ++not_shown;
      continue;
    }
    const v1::ServerLoad& load = server.load();
    TableRow row = {server.name(),
                    server.state(),
                    OrDash(server.node()),
                    AgoText(server.last_heartbeat_age_ms()),
                    BytesText(load.bytes_in()),
                    BytesText(load.bytes_out()),
                    absl::StrCat(load.groups_open()),
                    extent.wide ? PeersText(load) : absl::StrCat(load.peers()),
                    SlotMemoryText(server)};
    if (extent.wide) {
      row.insert(
          row.end(),
          {ServesText(server), absl::StrJoin(server.addresses(), ","), absl::StrCat(load.chunks_reduced()),
           absl::StrCat(load.refusals()), absl::StrCat(load.corrupted_payloads()),
           OrDash(load.transports().empty() ? server.transports() : load.transports()), OrDash(server.reason())});
    } else if (!server.reason().empty()) {
      reasons += WrapText(absl::StrCat("server ", server.name(), " is ", server.state(), ": ", server.reason()), 4);
    }
    rows.push_back(std::move(row));
  }
  const bool is_empty = rows.size() == 1;
  return (is_empty ? "" : TableText(std::move(rows), {0, 2}, extent)) + reasons + NotShownText(not_shown, "server");
}

std::string JobsText(const v1::ListJobsResponse& jobs, TableExtent extent) {
  if (jobs.jobs().empty()) return "No jobs.\n";
  std::vector<TableRow> rows = {{"JOB", "STATE", "RANKS", "GROUPS", "OPS", "FAILED", "PUSHED", "PULLED", "MEAN OP"}};
  if (extent.wide) rows[0].insert(rows[0].end(), {"ID", "TRANSPORTS", "TROUBLE"});
  std::string trouble;
  uint64_t not_shown = 0;
  for (const v1::JobStatus& job : jobs.jobs()) {
    const JobTotals totals = TotalsOf(job);
    std::set<std::string> transports;
    for (const v1::RankStatus& rank : job.ranks()) {
      if (!rank.load().transports().empty()) transports.insert(rank.load().transports());
    }
    if (!extent.all && totals.live == 0 && totals.newest_age_ms > kShownGoneMs) {
      ++not_shown;
      continue;
    }
    TableRow row = {job.name(),
                    job.state(),
                    absl::StrCat(LiveText(job, totals), " live"),
                    extent.wide ? GroupsText(job) : absl::StrCat(CountGroups(job).groups),
                    absl::StrCat(totals.ops_completed),
                    absl::StrCat(totals.ops_failed),
                    BytesText(totals.bytes_pushed),
                    BytesText(totals.bytes_pulled),
                    totals.ops_completed == 0 ? "-" : MillisecondsText(totals.op_time_ns, totals.ops_completed)};
    if (extent.wide) {
      row.insert(row.end(), {absl::StrCat(job.job_id()), OrDash(absl::StrJoin(transports, "; ")), TroubleText(job)});
    } else if (!TroublesOf(job).empty()) {
      trouble += WrapText(absl::StrCat("job ", job.name(), ": ", TroubleText(job)), 4);
    }
    rows.push_back(std::move(row));
  }
  const bool is_empty = rows.size() == 1;
  return (is_empty ? "" : TableText(std::move(rows), {0}, extent)) + trouble + NotShownText(not_shown, "job");
}

std::string JobText(const v1::JobStatus& job, uint64_t now_unix_ms) {
  const uint64_t started = job.started_at_unix_ms();
  std::string text = WrapText(
      absl::StrCat("Job ", job.name(), " (id ", job.job_id(), "): ", job.state(), ", ",
                   job.min_ranks() > 0
                       ? absl::StrCat("open, with ", job.world_size(), " ranks now and ", job.min_ranks(), " at least")
                       : absl::StrCat("world size ", job.world_size()),
                   ", started ", AgoText(now_unix_ms > started ? now_unix_ms - started : 0)),
      4);
  for (const std::string& trouble : TroublesOf(job)) text += WrapText(trouble, 4);
  absl::StrAppend(&text, RatesText(job), OpTimesText(job), KeptText(job), RefusalsText(job), TransportsText(job));
  std::vector<TableRow> rows = {{"RANK", "NODE", "PID", "STATE", "HEARTBEAT", "OPS", "FAILED", "PUSHED", "MEAN OP"}};
  if (job.min_ranks() > 0) rows.front().push_back("IDENTITY");
  for (const v1::RankStatus& rank : job.ranks()) {
    const v1::WorkerLoad& load = rank.load();
    rows.push_back({absl::StrCat(rank.rank()), OrDash(rank.node()), absl::StrCat(rank.pid()), rank.state(),
                    AgoText(rank.last_heartbeat_age_ms()), absl::StrCat(load.ops_completed()),
                    absl::StrCat(load.ops_failed()), BytesText(load.bytes_pushed()),
                    load.ops_completed() == 0 ? "-" : MillisecondsText(load.op_time_ns_total(), load.ops_completed())});
    if (job.min_ranks() > 0) rows.back().push_back(OrDash(rank.identity()));
  }
  absl::StrAppend(&text, "\n", FitTable(std::move(rows), {1}), RankRatesText(job));
  if (job.groups().empty()) return absl::StrCat(text, "\nNo open groups.\n");
  rows = {{"GROUP", "STATE", "RANKS", "WITHIN A NODE", "WIRE", "CHUNKS", "CREDIT", "EPOCH"}};
  for (const v1::GroupStatus& group : job.groups()) {
    const std::string rail = group.rails() == 0 ? "" : absl::StrCat(" rail ", group.rail(), " of ", group.rails());
    const std::string lost =
        group.lost_ranks().empty() ? "" : absl::StrCat(", goes on without ", RankRunsText(group.lost_ranks()));
    rows.push_back({group.name() + rail, group.state(), RankRunsText(group.ranks()) + lost, OrDash(group.node_reduce()),
                    OrDash(group.wire()), BytesText(group.max_chunk_bytes()),
                    group.credit_chunks() == 0 ? "-" : absl::StrCat(group.credit_chunks()),
                    absl::StrCat(group.epoch())});
  }
  return absl::StrCat(text, "\n", FitTable(std::move(rows), {0}), LinksText(job));
}

std::string StragglersText(const v1::ListJobsResponse& jobs, uint64_t now_unix_ms) {
  std::vector<TableRow> rows = {{"JOB", "SLOW", "NODE", "OTHERS WAIT", "SINCE", "CAUSE"}};
  std::string advice;
  const auto waited = [](double share) { return absl::StrCat(ShareText(share), " of the time"); };
  const auto since = [now_unix_ms](uint64_t unix_ms) {
    return absl::StrCat(AgeText(now_unix_ms > unix_ms ? now_unix_ms - unix_ms : 0), " ago");
  };
  for (const v1::JobStatus& job : jobs.jobs()) {
    for (const v1::SlowRank& slow : job.slow_ranks()) {
      rows.push_back({job.name(), absl::StrCat("rank ", slow.rank()), OrDash(NodeOfRank(job, slow.rank())),
                      waited(slow.waited_share()), since(slow.since_unix_ms()), slow.cause()});
      const std::string per_op =
          slow.waited_ns_per_op() == 0
              ? ""
              : absl::StrCat("the others wait ", MillisecondsText(slow.waited_ns_per_op(), 1), " an op for it; ");
      advice += WrapText(absl::StrCat("rank ", slow.rank(), " of job ", job.name(), ": ", per_op, slow.advice()), 4);
    }
    for (const v1::SlowServer& slow : job.slow_servers()) {
      rows.push_back({job.name(), absl::StrCat("server ", slow.name()), OrDash(slow.node()),
                      waited(slow.waited_share()), since(slow.since_unix_ms()), slow.cause()});
      advice += WrapText(absl::StrCat("server ", slow.name(), " for job ", job.name(), ": ", slow.advice()), 4);
    }
  }
  return rows.size() == 1 ? "No slow ranks or servers.\n" : FitTable(std::move(rows), {0, 1, 2}) + advice;
}

std::string MapText(const v1::ShardMap& map) {
  const std::string title = absl::StrCat("Shard map, epoch ", map.epoch(), ": ",
                                         Plural(static_cast<uint64_t>(map.shards_size()), "shard"), "\n");
  if (map.shards().empty()) return title;
  uint64_t weights = 0;
  for (const v1::Shard& shard : map.shards()) weights += shard.weight();
  std::vector<TableRow> rows = {{"SHARD", "SERVER", "ADDRESS", "WEIGHT", "SHARE"}};
  for (int i = 0; i < map.shards_size(); ++i) {
    const v1::Shard& shard = map.shards(i);
    rows.push_back(
        {absl::StrCat(i), shard.server_name(), shard.address(), absl::StrCat(shard.weight()),
         absl::StrFormat("%.1f %%", 100.0 * shard.weight() / static_cast<double>(std::max<uint64_t>(weights, 1)))});
  }
  return title + FitTable(std::move(rows), {1});
}

std::string EventText(const v1::Event& event) {
  return absl::StrCat(TimeText(event.at_unix_ms()), "  #", event.sequence(), "  ", event.kind(), "  ", event.subject(),
                      "  (epoch ", event.epoch(), ")  ", event.reason());
}

std::string Plural(uint64_t count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string SlotMemoryText(const v1::ServerStatus& server) {
  const uint64_t all = server.slot_memory_bytes();
  const double used =
      all == 0 ? 0 : static_cast<double>(server.load().slot_memory_used_bytes()) / static_cast<double>(all);
  return absl::StrFormat("%.0f %% of %s", 100 * used, BytesText(all));
}

std::string RateText(double per_s) {
  return per_s < 10 ? absl::StrFormat("%.1f", per_s) : absl::StrFormat("%.0f", per_s);
}

std::string BytesRateText(double bytes_per_s) { return BytesText(static_cast<uint64_t>(bytes_per_s)); }

std::string MillisecondsText(uint64_t sum_ns, uint64_t count) {
  return absl::StrFormat("%.2f ms", 1e-6 * static_cast<double>(sum_ns) / static_cast<double>(count));
}

std::string BytesText(uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(units)) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, units[unit]);
}

std::string AgeText(uint64_t age_ms) {
  const double seconds = static_cast<double>(age_ms) / 1e3;
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 3600) return absl::StrFormat("%.0f min", seconds / 60);
  return absl::StrFormat("%.1f h", seconds / 3600);
}

std::string TimeText(uint64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace shoal::cli
