// Flight records, which lie in files that anybody may have written: whatever the text, they are drawn or refused.
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "cli/flight_record.h"
#include "cli/timeline.h"
#include "tests/fuzz/fuzz_input.h"

// Texts with a zero byte between them.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using shoal::Require;
  constexpr size_t kMostRecords = 8;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<shoal::cli::FlightRecord> records;
  while (!rest.empty() && records.size() < kMostRecords) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    absl::StatusOr<shoal::cli::FlightRecord> record = shoal::cli::ParseFlightRecord(rest.substr(0, end));
    if (record.ok()) {
      for (const shoal::cli::FlightEntry& entry : record->entries) Require(entry.at_ns <= 0, "an event was before");
      records.push_back(*std::move(record));
    } else {
      Require(!record.status().message().empty(), "a refusal says why");
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (records.empty()) return 0;
  const shoal::cli::Timeline timeline = shoal::cli::DrawTimeline(records);
  Require(absl::EndsWith(timeline.json, "]}\n"), "the picture is whole");
  for (const char c : timeline.json) Require(c == '\n' || static_cast<unsigned char>(c) >= 0x20, "text is escaped");
  return 0;
}
