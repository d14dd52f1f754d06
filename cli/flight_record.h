// What a member of a group wrote down when the group failed (net/flight_recorder.h), read back from its text.
//
// Pure but for LoadFlightRecords; any thread.
#ifndef SHOAL_CLI_FLIGHT_RECORD_H_
#define SHOAL_CLI_FLIGHT_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal::cli {

// Of a push or a result: which contribution, or for which rank.
struct ChunkName {
  uint64_t group = 0;
  uint64_t epoch = 0;
  uint64_t op = 0;
  uint64_t chunk = 0;

  friend auto operator<=>(const ChunkName&, const ChunkName&) = default;
};

// An event or a call of the member's transport.
struct FlightEntry {
  int64_t at_ns = 0;  // before the failure: never above 0
  std::string what;   // "send", "sent", "offered", "accept", "landed", "note", "send note", ...
  std::string frame;  // "push", "result", ...; empty: it carried none that can be read
  uint64_t peer = 0;  // 0: not said
  uint64_t offer = 0;
  uint64_t token = 0;
  uint64_t rank = 0;
  uint64_t payload_bytes = 0;
  ChunkName chunk;  // of a frame
  bool failed = false;
};

struct FlightRecord {
  std::string path;
  std::string member;  // "rank 0 of job \"gpt\" on node-1", "I/O thread 0 of server alpha"
  uint64_t group = 0;  // that failed
  std::string why;
  uint64_t failed_unix_ms = 0;  // by the member's clock
  std::vector<FlightEntry> entries;
};

// InvalidArgument: it is no flight record, with the line that is not understood.
absl::StatusOr<FlightRecord> ParseFlightRecord(std::string_view text);

// The records of one failure, one of each member, by its name: of that group, or of the one that failed last. Reads all
// files of the folder that end in ".txt". NotFound: there is none of that group, with the groups that there are.
// InvalidArgument: no folder, or a file that is no record, with its name.
absl::StatusOr<std::vector<FlightRecord>> LoadFlightRecords(const std::string& folder, std::optional<uint64_t> group);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_FLIGHT_RECORD_H_
