// The status messages as human-readable text and as JSON. Pure; any thread.
#ifndef SHOAL_CLI_TABLES_H_
#define SHOAL_CLI_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/v1/status.pb.h"

namespace shoal::cli {

using TableRow = std::vector<std::string>;

// Aligns columns, with two spaces between them. The first row is the header.
std::string AlignTable(const std::vector<TableRow>& rows);

std::string ClusterText(const v1::Cluster& cluster, const std::string& scheduler, uint64_t now_unix_ms);
std::string ServersText(const v1::ListServersResponse& servers);
std::string JobsText(const v1::ListJobsResponse& jobs);
// A row for each rank for which others wait; one line if there is none.
std::string StragglersText(const v1::ListJobsResponse& jobs, uint64_t now_unix_ms);
std::string MapText(const v1::ShardMap& map);
std::string EventText(const v1::Event& event);

// protobuf's JSON with the names of the .proto files, in one line. Every field is present; 64-bit numbers are strings.
std::string ToJson(const google::protobuf::Message& message);

// "25.0 MiB", "17 B".
std::string BytesText(uint64_t bytes);
// "4.2 s", "3 min", "2 h".
std::string AgeText(uint64_t milliseconds);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_TABLES_H_
