// The status messages as human-readable text. Pure; any thread.
#ifndef SHOAL_CLI_TABLES_H_
#define SHOAL_CLI_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/status_text.h"
#include "shoal/v1/status.pb.h"

namespace shoal::cli {

// Servers and jobs that have been gone for longer are shown on request alone.
inline constexpr uint64_t kShownGoneMs = 3'600'000;

using TableRow = std::vector<std::string>;

// Aligns columns, with two spaces between them. The first row is the header.
std::string AlignTable(const std::vector<TableRow>& rows);

// As AlignTable, but where a line would have more than 100 characters, the longest of the names in these columns are
// shortened in the middle. Of each name at least 8 characters are left, whatever the other columns take.
std::string FitTable(std::vector<TableRow> rows, const std::vector<size_t>& name_columns);

// How much of a table is shown.
struct TableExtent {
  bool wide = false;  // all columns and whole names; else what fits 100 characters, and what is wrong in lines below
  bool all = false;   // also servers and jobs that have been gone for more than an hour
};

std::string ClusterText(const v1::Cluster& cluster, const std::string& scheduler, uint64_t now_unix_ms);
std::string ServersText(const v1::ListServersResponse& servers, TableExtent extent);
std::string JobsText(const v1::ListJobsResponse& jobs, TableExtent extent);
// "1 server live, 0 lost", and colocated ones if there are any.
std::string ServerCountsText(const v1::Cluster& cluster);
// One job: its ranks, its groups and what is wrong with it.
std::string JobText(const v1::JobStatus& job, uint64_t now_unix_ms);
// A row for each rank and server for which a job waits, and below what to do; one line if there is none.
std::string StragglersText(const v1::ListJobsResponse& jobs, uint64_t now_unix_ms);
std::string MapText(const v1::ShardMap& map);
// One line, without its end.
std::string EventText(const v1::Event& event);

// "1 rank", "2 ranks".
std::string Plural(uint64_t count, const std::string& what);
// "12 % of 256.0 MiB".
std::string SlotMemoryText(const v1::ServerStatus& server);
// Per second: "9.5", "120"; "25.0 MiB".
std::string RateText(double per_s);
std::string BytesRateText(double bytes_per_s);
// "2.50 ms": the mean of `count` (not 0) times whose sum is given.
std::string MillisecondsText(uint64_t sum_ns, uint64_t count);
// "25.0 MiB", "17 B".
std::string BytesText(uint64_t bytes);
// "4.2 s", "3 min", "2 h".
std::string AgeText(uint64_t age_ms);
// "2026-11-26T21:00:00Z".
std::string TimeText(uint64_t unix_ms);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_TABLES_H_
