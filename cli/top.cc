#include "cli/top.h"

#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/tables.h"
#include "program/wrap_text.h"

namespace shoal::cli {
namespace {

constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

// When numbers of that age were counted.
double CountedAtS(const ClusterSample& sample, uint64_t age_ms) {
  return std::chrono::duration<double>(sample.at.time_since_epoch()).count() - static_cast<double>(age_ms) / 1e3;
}

}  // namespace

absl::StatusOr<ClusterSample> TakeSample(bool with_groups, ClusterClient* client) {
  ClusterSample sample;
  const auto cluster = client->GetCluster();
  if (!cluster.ok()) return cluster.status();
  const auto servers = client->ListServers();
  if (!servers.ok()) return servers.status();
  v1::ListJobsRequest wanted;
  wanted.set_without_groups(!with_groups);
  const auto jobs = client->ListJobs(wanted);
  if (!jobs.ok()) return jobs.status();
  sample.cluster = *cluster;
  sample.servers = *servers;
  sample.jobs = *jobs;
  sample.at = std::chrono::steady_clock::now();
  return sample;
}

std::string TopTables::Servers(const ClusterSample& sample) {
  std::vector<TableRow> rows = {
      {"SERVER", "STATE", "NODE", "IN/S", "OUT/S", "CHUNKS/S", "GROUPS", "PEERS", "SLOT MEMORY"}};
  for (const v1::ServerStatus& server : sample.servers.servers()) {
    if (server.state() != "live" && server.state() != "draining") continue;
    const v1::ServerLoad& load = server.load();
    const std::pair<uint64_t, uint64_t> key = {server.server_id(), server.registered_at_unix_ms()};
    if (!server.heard()) servers_.Forget(key);
    const auto growth = server.heard() ? servers_.Note(key, CountedAtS(sample, server.last_heartbeat_age_ms()),
                                                       {load.bytes_in(), load.bytes_out(), load.chunks_reduced()})
                                       : std::nullopt;
    rows.push_back({server.name(), server.state(), server.node().empty() ? "-" : server.node(),
                    growth.has_value() ? BytesRateText((*growth)[0]) : "-",
                    growth.has_value() ? BytesRateText((*growth)[1]) : "-",
                    growth.has_value() ? RateText((*growth)[2]) : "-", absl::StrCat(load.groups_open()),
                    absl::StrCat(load.peers()), SlotMemoryText(server)});
  }
  servers_.DropUnseen();
  return rows.size() == 1 ? "No live servers.\n" : FitTable(std::move(rows), {0, 2});
}

std::string TopTables::Jobs(const ClusterSample& sample) {
  std::vector<TableRow> rows = {{"JOB", "STATE", "RANKS", "OPS/S", "PUSHED/S", "PULLED/S", "MEAN OP", "P99 OP"}};
  std::string waits;
  for (const v1::JobStatus& job : sample.jobs.jobs()) {
    const JobTotals totals = TotalsOf(job);
    if (totals.live == 0) continue;
    const std::pair<uint64_t, uint64_t> key = {job.job_id(), 0};
    if (!job.load_is_whole()) jobs_.Forget(key);
    const auto growth =
        job.load_is_whole()
            ? jobs_.Note(key, CountedAtS(sample, totals.age_ms),
                         {totals.ops_completed, totals.bytes_pushed, totals.bytes_pulled, totals.op_time_ns})
            : std::nullopt;
    std::vector<std::string> slow;
    for (const v1::SlowRank& each : job.slow_ranks()) {
      slow.push_back(absl::StrCat("rank ", each.rank(), " ", ShareText(each.waited_share()), " (", each.cause(), ")"));
    }
    for (const v1::SlowServer& each : job.slow_servers()) {
      slow.push_back(absl::StrCat(SlowServerText(each), " ", ShareText(each.waited_share())));
    }
    if (!slow.empty()) waits += WrapText(absl::StrCat(job.name(), " waits for ", absl::StrJoin(slow, ", ")), 4);
    TableRow row = {job.name(), job.state(), LiveText(job, totals)};
    if (growth.has_value()) {
      const auto [ops, pushed, pulled, op_time_ns] = *growth;
      // Every rank counts an op that all of them make.
      row.insert(row.end(),
                 {RateText(ops / static_cast<double>(totals.live)), BytesRateText(pushed), BytesRateText(pulled),
                  ops > 0 ? absl::StrFormat("%.2f ms", 1e-6 * op_time_ns / ops) : "-",
                  ops > 0 && job.has_rates()
                      ? absl::StrFormat("%.2f ms", 1e-6 * static_cast<double>(job.rates().percentile_99_op_ns()))
                      : "-"});
    } else {
      row.insert(row.end(), {"-", "-", "-", "-", "-"});
    }
    rows.push_back(std::move(row));
  }
  jobs_.DropUnseen();
  return rows.size() == 1 ? "No running jobs.\n" : FitTable(std::move(rows), {0}) + waits;
}

std::string TopTables::Text(const ClusterSample& sample) {
  const v1::Cluster& cluster = sample.cluster;
  const std::string title = WrapText(absl::StrCat("Cluster ", cluster.cluster_id(), ": ", ServerCountsText(cluster),
                                                  ", ", Plural(cluster.jobs(), "job"), ", ",
                                                  Plural(cluster.workers(), "worker"), ", map epoch ", cluster.epoch()),
                                     4);
  return absl::StrCat(title, "\n", Servers(sample), "\n", Jobs(sample));
}

absl::Status Top(const TopOptions& options, ClusterClient* client, std::ostream& out) {
  absl::StatusOr<ClusterSample> sample = TakeSample(/*with_groups=*/false, client);
  if (!sample.ok()) return sample.status();
  TopTables tables;
  tables.Text(*sample);
  for (uint64_t round = 0; options.rounds == 0 || round < options.rounds; ++round) {
    std::this_thread::sleep_for(options.interval);
    sample = TakeSample(/*with_groups=*/false, client);
    if (options.terminal != nullptr) {
      *options.terminal << kClearScreen;
    } else if (round > 0) {
      out << "\n";
    }
    out << (sample.ok() ? tables.Text(*sample) : absl::StrCat(sample.status().message(), "\n")) << std::flush;
    if (!out.good()) break;
  }
  return sample.status();
}

}  // namespace shoal::cli
