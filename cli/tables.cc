#include "cli/tables.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/node_reduce.h"

namespace shoal::cli {
namespace {

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string Plural(uint64_t count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// Characters, not bytes, so that names in UTF-8 stay aligned.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string TimeText(uint64_t unix_ms) {
  const std::time_t seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string MissingText(const v1::GroupStatus& group) {
  if (group.missing_ranks().empty()) return absl::StrCat("group ", group.name(), " waits to be opened");
  constexpr int kShown = 8;
  const int shown = std::min(group.missing_ranks_size(), kShown);
  const auto first = group.missing_ranks().begin();
  const std::string ranks = absl::StrJoin(first, first + shown, ", ");
  const int more = group.missing_ranks_size() - shown;
  return absl::StrCat("group ", group.name(),
                      group.missing_ranks_size() == 1 ? " waits for rank " : " waits for ranks ", ranks,
                      more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

std::string ShareText(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

// What is wrong with a job: lost ranks with their reasons, groups that are not complete, and slow ranks.
std::string Trouble(const v1::JobStatus& job) {
  std::vector<std::string> trouble;
  for (const v1::RankStatus& rank : job.ranks()) {
    if (rank.state() != "lost") continue;
    trouble.push_back(absl::StrCat("rank ", rank.rank(), " on ", OrDash(rank.node()), " lost: ", rank.reason()));
  }
  for (const v1::GroupStatus& group : job.groups()) {
    if (group.state() == "waiting") trouble.push_back(MissingText(group));
  }
  for (const v1::SlowRank& slow : job.slow_ranks()) {
    trouble.push_back(
        absl::StrCat("rank ", slow.rank(), " is slow: ", ShareText(slow.waited_share()), " (", slow.cause(), ")"));
  }
  if (trouble.size() > 2) {
    const size_t more = trouble.size() - 2;
    trouble.resize(2);
    trouble.push_back(absl::StrCat("and ", more, " more"));
  }
  return OrDash(absl::StrJoin(trouble, "; "));
}

std::string GroupsText(const v1::JobStatus& job) {
  const auto on_one_node = std::count_if(job.groups().begin(), job.groups().end(), [](const v1::GroupStatus& group) {
    return group.node_reduce() == NodeReduceModeName(NodeReduceMode::kNodeAlone);
  });
  // The rails of a group are listed one by one, under its name.
  std::set<std::string> with_rails;
  int rails = 0;
  for (const v1::GroupStatus& group : job.groups()) {
    if (group.rails() == 0) continue;
    with_rails.insert(group.name());
    ++rails;
  }
  std::vector<std::string> kinds;
  if (on_one_node > 0) kinds.push_back(absl::StrCat(on_one_node, " on one node"));
  if (rails > 0) kinds.push_back(absl::StrCat(rails, " rails"));
  const std::string count = absl::StrCat(static_cast<size_t>(job.groups_size() - rails) + with_rails.size());
  return kinds.empty() ? count : absl::StrCat(count, " (", absl::StrJoin(kinds, ", "), ")");
}

// Which jobs a server serves.
std::string JobText(const v1::ServerStatus& server) {
  return server.job_id() == 0 ? "all" : absl::StrCat("job ", server.job_id());
}

std::string PeersText(const v1::ServerLoad& load) {
  if (load.shared_memory_peers() == 0) return absl::StrCat(load.peers());
  return absl::StrCat(load.peers(), " (", load.shared_memory_peers(), " by shared memory)");
}

}  // namespace

std::string AlignTable(const std::vector<TableRow>& rows) {
  std::vector<size_t> widths;
  for (const TableRow& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string ClusterText(const v1::Cluster& cluster, const std::string& scheduler, uint64_t now_unix_ms) {
  const uint64_t started = cluster.started_at_unix_ms();
  return absl::StrCat("Cluster ", cluster.cluster_id(), " at ", scheduler, " (Shoal ", cluster.software_version(),
                      "): map epoch ", cluster.epoch(), ", ", Plural(cluster.servers_live(), "server"), " live, ",
                      cluster.servers_lost(), " lost, ", Plural(cluster.jobs(), "job"), ", ",
                      Plural(cluster.workers(), "worker"), "; up ",
                      AgeText(now_unix_ms > started ? now_unix_ms - started : 0), ", lease ",
                      AgeText(cluster.lease_ttl_ms()), ", state in ", cluster.store(), "\n");
}

std::string ServersText(const v1::ListServersResponse& servers) {
  if (servers.servers().empty()) {
    return "No servers. Start one with: shoal-server --scheduler HOST:PORT --advertise IP\n";
  }
  std::vector<TableRow> rows = {{"SERVER", "STATE", "SERVES", "NODE", "ADDRESSES", "HEARTBEAT", "IN", "OUT", "CHUNKS",
                                 "REFUSED", "CORRUPTED", "GROUPS", "PEERS", "TRANSPORTS", "SLOT MEMORY", "REASON"}};
  for (const v1::ServerStatus& server : servers.servers()) {
    const v1::ServerLoad& load = server.load();
    rows.push_back(
        {server.name(), server.state(), JobText(server), OrDash(server.node()), absl::StrJoin(server.addresses(), ","),
         absl::StrCat(AgeText(server.last_heartbeat_age_ms()), " ago"), BytesText(load.bytes_in()),
         BytesText(load.bytes_out()), absl::StrCat(load.chunks_reduced()), absl::StrCat(load.refusals()),
         absl::StrCat(load.corrupted_payloads()), absl::StrCat(load.groups_open()), PeersText(load),
         OrDash(load.transports().empty() ? server.transports() : load.transports()),
         absl::StrCat(BytesText(load.slot_memory_used_bytes()), " of ", BytesText(server.slot_memory_bytes())),
         OrDash(server.reason())});
  }
  return AlignTable(rows);
}

std::string JobsText(const v1::ListJobsResponse& jobs) {
  if (jobs.jobs().empty()) return "No jobs.\n";
  std::vector<TableRow> rows = {{"JOB", "ID", "STATE", "RANKS", "GROUPS", "OPS", "FAILED", "PUSHED", "PULLED",
                                 "MEAN OP", "TRANSPORTS", "TROUBLE"}};
  for (const v1::JobStatus& job : jobs.jobs()) {
    uint64_t live = 0, completed = 0, failed = 0, pushed = 0, pulled = 0, time_ns = 0;
    std::set<std::string> transports;
    for (const v1::RankStatus& rank : job.ranks()) {
      if (!rank.load().transports().empty()) transports.insert(rank.load().transports());
      live += rank.state() == "live" ? 1 : 0;
      completed += rank.load().ops_completed();
      failed += rank.load().ops_failed();
      pushed += rank.load().bytes_pushed();
      pulled += rank.load().bytes_pulled();
      time_ns += rank.load().op_time_ns_total();
    }
    const std::string mean =
        completed == 0
            ? "-"
            : absl::StrFormat("%.2f ms", 1e-6 * static_cast<double>(time_ns) / static_cast<double>(completed));
    rows.push_back({job.name(), absl::StrCat(job.job_id()), job.state(),
                    absl::StrCat(live, " of ", job.world_size(), " live"), GroupsText(job), absl::StrCat(completed),
                    absl::StrCat(failed), BytesText(pushed), BytesText(pulled), mean,
                    OrDash(absl::StrJoin(transports, "; ")), Trouble(job)});
  }
  return AlignTable(rows);
}

std::string StragglersText(const v1::ListJobsResponse& jobs, uint64_t now_unix_ms) {
  std::vector<TableRow> rows = {{"JOB", "RANK", "NODE", "OTHERS WAIT", "SINCE", "CAUSE", "WHAT TO DO"}};
  for (const v1::JobStatus& job : jobs.jobs()) {
    for (const v1::SlowRank& slow : job.slow_ranks()) {
      const auto rank = std::find_if(job.ranks().begin(), job.ranks().end(),
                                     [&](const v1::RankStatus& each) { return each.rank() == slow.rank(); });
      const uint64_t since = slow.since_unix_ms();
      rows.push_back({job.name(), absl::StrCat(slow.rank()), rank == job.ranks().end() ? "-" : OrDash(rank->node()),
                      absl::StrCat(ShareText(slow.waited_share()), " of the time"),
                      absl::StrCat(AgeText(now_unix_ms > since ? now_unix_ms - since : 0), " ago"), slow.cause(),
                      slow.advice()});
    }
  }
  return rows.size() == 1 ? "No slow ranks.\n" : AlignTable(rows);
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
  return title + AlignTable(rows);
}

std::string EventText(const v1::Event& event) {
  return absl::StrCat(TimeText(event.at_unix_ms()), "  #", event.sequence(), "  ", event.kind(), "  ", event.subject(),
                      "  (epoch ", event.epoch(), ")  ", event.reason(), "\n");
}

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for types that our messages don't have.
  const bool ok = google::protobuf::util::MessageToJsonString(message, &json, options).ok();
  return ok ? json : "{}";
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

std::string AgeText(uint64_t milliseconds) {
  const double seconds = static_cast<double>(milliseconds) / 1e3;
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 3600) return absl::StrFormat("%.0f min", seconds / 60);
  return absl::StrFormat("%.1f h", seconds / 3600);
}

}  // namespace shoal::cli
