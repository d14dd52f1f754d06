// What a member of a group wrote down when the group failed, or sent for a trace (net/flight_recorder.h), read back
// from its text.
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

// Which chunk a push or a result is of.
struct ChunkName {
  uint64_t group = 0;
  uint64_t epoch = 0;
  uint64_t op = 0;
  uint64_t chunk = 0;

  friend auto operator<=>(const ChunkName&, const ChunkName&) = default;
};

// An event or a call of the member's transport, or an op that went through the memory of its node.
struct FlightEntry {
  int64_t at_ns = 0;  // before the end of the record: never above 0
  std::string what;   // "send", "sent", "offered", "accept", "landed", "note", "send note", ...
  std::string frame;  // "push", "result", ...; empty: it carried none that can be read
  uint64_t peer = 0;  // 0: not said
  uint64_t offer = 0;
  uint64_t token = 0;
  uint64_t rank = 0;
  uint64_t payload_bytes = 0;
  ChunkName chunk;            // of a frame; without epoch and chunk, of an op within the node
  bool is_hand_over = false;  // a push of a result that the rank has, after a server has died
  bool failed = false;
  // Of an op within the node (kWithinNode), which was over at `at_ns`: how long it took, and the stages that it came to
  // the end of (net/flight_recorder.h). At most kLongestNs each.
  uint64_t length_ns = 0;
  uint64_t contribute_ns = 0;
  uint64_t reduce_ns = 0;
  uint64_t publish_ns = 0;
};
inline constexpr char kWithinNode[] = "within node";
inline constexpr uint64_t kLongestNs = 10'000'000'000'000'000;

struct FlightRecord {
  std::string path;
  std::string member;          // "rank 0 of job \"gpt\" on node-1", "I/O thread 0 of server alpha"
  uint64_t group = 0;          // that failed
  bool is_trace = false;       // no group failed: an operator asked for it
  std::string why;             // the group failed; of a trace: how long it was
  uint64_t ended_unix_ms = 0;  // by the member's clock: the failure, or the end of the trace
  uint64_t older_events = 0;   // that had no room
  bool is_cut_off = false;     // its last line has no end, and is left out: the disk was full, or it is being written
  std::vector<FlightEntry> entries;
};

// The records of one failure, one of each member, by its name.
struct FlightRecords {
  std::vector<FlightRecord> records;
  std::vector<std::string> remarks;  // sentences on those that were left out, or are not whole
};

// InvalidArgument: it is no flight record, with the line that is not understood.
absl::StatusOr<FlightRecord> ParseFlightRecord(std::string_view text);

// Of that group, or of the one that failed last. Reads all files of the folder whose names end in ".txt". What failed
// more than kOneFailureMs before the newest is of an earlier job, whose groups may have the same numbers, and is left
// out. NotFound: there is none of that group, with the groups that there are. InvalidArgument: no folder, or a file
// that can't be read or is no record, with its name.
inline constexpr uint64_t kOneFailureMs = 600'000;
absl::StatusOr<FlightRecords> LoadFlightRecords(const std::string& folder, std::optional<uint64_t> group);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_FLIGHT_RECORD_H_
