#include "cli/flight_record.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/utf8.h"

namespace shoal::cli {
namespace {

// How a record begins, after the member's name: of a group that failed, and of a trace.
struct Head {
  absl::string_view number;
  absl::string_view why;
  bool is_trace;
};
constexpr Head kHeads[] = {{"(group=", ") failed: ", false}, {"(trace=", ") ended: ", true}};
constexpr absl::string_view kLast = "The last ";
constexpr absl::string_view kUntil = "unix_ms=";
constexpr uint64_t kMostUnixMs = 4'000'000'000'000;  // in the year 2096
constexpr double kLongestS = kLongestNs / 1e9;
constexpr size_t kMostEntries = 65536;

absl::Status NotARecord(size_t line, absl::string_view text) {
  constexpr size_t kShown = 80;
  return absl::InvalidArgumentError(absl::StrCat("is no flight record: line ", line, " is not understood: \"",
                                                 std::string(text.substr(0, kShown)), "\""));
}

// "rank 0 of job "gpt" on node-1, group "ddp" (group=12) failed: ABORTED: ...", or
// "rank 0 of job "gpt" on node-1, a trace (trace=1795530702869) ended: after 2.003 s".
bool ParseHead(absl::string_view line, const Head& head, FlightRecord* record) {
  const size_t number = line.find(head.number);
  if (number == absl::string_view::npos) return false;
  const size_t why = line.find(head.why, number);
  if (why == absl::string_view::npos) return false;
  const absl::string_view before = line.substr(0, number);
  const size_t comma = std::min({before.find(", group \""), before.find(", a group "), before.find(", a trace ")});
  if (comma == absl::string_view::npos) return false;
  record->member = std::string(before.substr(0, comma));
  record->why = std::string(line.substr(why + head.why.size()));
  record->is_trace = head.is_trace;
  const size_t digits = number + head.number.size();
  uint64_t value = 0;
  if (!absl::SimpleAtoi(line.substr(digits, why - digits), &value)) return false;
  if (!head.is_trace) record->group = value;
  return true;
}

bool ParseHead(absl::string_view line, FlightRecord* record) {
  return std::any_of(std::begin(kHeads), std::end(kHeads),
                     [&](const Head& head) { return ParseHead(line, head, record); });
}

// "The last 1024 of 14050 events, in seconds before unix_ms=1795530702869:".
bool ParseTime(absl::string_view line, FlightRecord* record) {
  const size_t until = line.find(kUntil);
  if (until == absl::string_view::npos || !absl::ConsumeSuffix(&line, ":")) return false;
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  uint64_t kept = 0;
  uint64_t all = 0;
  if (absl::StartsWith(line, kLast) && words.size() > 4 && absl::SimpleAtoi(words[2], &kept) &&
      absl::SimpleAtoi(words[4], &all)) {
    record->older_events = all - std::min(all, kept);
  }
  return absl::SimpleAtoi(line.substr(until + kUntil.size()), &record->ended_unix_ms) &&
         record->ended_unix_ms <= kMostUnixMs;
}

// A word with "=" in it. Words that a newer recorder may add are passed over.
bool ParseNumber(absl::string_view word, FlightEntry* entry) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const std::pair<absl::string_view, uint64_t*> known[] = {{"peer", &entry->peer},
                                                           {"offer", &entry->offer},
                                                           {"token", &entry->token},
                                                           {"rank", &entry->rank},
                                                           {"payload", &entry->payload_bytes},
                                                           {"group", &entry->chunk.group},
                                                           {"epoch", &entry->chunk.epoch},
                                                           {"op", &entry->chunk.op},
                                                           {"chunk", &entry->chunk.chunk},
                                                           {"length_ns", &entry->length_ns},
                                                           {"contribute_ns", &entry->contribute_ns},
                                                           {"reduce_ns", &entry->reduce_ns},
                                                           {"publish_ns", &entry->publish_ns}};
  for (const auto& [name, number] : known) {
    if (parts.first == name) return absl::SimpleAtoi(parts.second, number);
  }
  return true;
}

// "-0.376461 offered peer=2 offer=2594 result group=12 epoch=2 rank=0 op=650 chunk=0 payload=262144".
bool ParseEntry(absl::string_view line, FlightEntry* entry) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  double at_s = 0;
  if (words.size() < 2 || words[0].front() != '-' || !absl::SimpleAtod(words[0], &at_s)) return false;
  if (!(at_s <= 0 && at_s >= -kLongestS)) return false;
  entry->at_ns = std::llround(at_s * 1e9);
  bool has_numbers = false;
  for (size_t i = 1; i < words.size(); ++i) {
    const absl::string_view word = words[i];
    if (word.front() == '(') break;  // why the frame can't be read
    if (word == "FAILED" || word == "handed-over") continue;
    if (word.find('=') != absl::string_view::npos) {
      has_numbers = true;
      if (!ParseNumber(word, entry)) return false;
    } else if (!has_numbers) {
      absl::StrAppend(&entry->what, entry->what.empty() ? "" : " ", std::string(word));
    } else {
      entry->frame = std::string(word);
    }
  }
  entry->is_hand_over = std::find(words.begin(), words.end(), "handed-over") != words.end();
  entry->failed = words.back() == "FAILED";
  return std::max({entry->length_ns, entry->contribute_ns, entry->reduce_ns, entry->publish_ns}) <= kLongestNs;
}

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char piece[65536];
  while (file.good()) {
    file.read(piece, sizeof(piece));
    text.append(piece, static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) return absl::InvalidArgumentError("can't be read: check its permissions and its disk");
  return text;
}

// All in the folder, or the first one that is wrong.
absl::StatusOr<std::vector<FlightRecord>> ReadFolder(const std::string& folder, std::vector<std::string>* remarks) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    std::error_code no_matter;
    if (each->path().extension() == ".txt" && each->is_regular_file(no_matter)) paths.push_back(each->path());
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("the folder ", folder, " can't be read: ", error.message()));
  }
  std::sort(paths.begin(), paths.end());
  std::vector<FlightRecord> records;
  for (const std::filesystem::path& path : paths) {
    const absl::StatusOr<std::string> text = ReadFile(path);
    absl::StatusOr<FlightRecord> record = text.ok() ? ParseFlightRecord(*text) : text.status();
    if (!record.ok()) {
      // Another process may be about to write it, or its disk was full.
      remarks->push_back(absl::StrCat(path.string(), " is left out: it ", std::string(record.status().message()), "."));
      continue;
    }
    record->path = path.string();
    records.push_back(*std::move(record));
  }
  return records;
}

}  // namespace

absl::StatusOr<FlightRecord> ParseFlightRecord(std::string_view text) {
  FlightRecord record;
  // Some of it is shown on terminals, and whoever wrote it is not known here.
  const std::string printable = MakePrintable(text, std::string_view::npos, "\n");
  std::vector<absl::string_view> lines = absl::StrSplit(printable, '\n');
  record.is_cut_off = !lines.back().empty();
  lines.pop_back();
  if (lines.empty() || !ParseHead(lines[0], &record)) return NotARecord(1, lines.empty() ? "" : lines[0]);
  // A reason may have lines of its own.
  size_t head = 1;
  for (; head < lines.size() && !ParseTime(lines[head], &record); ++head) {
    absl::StrAppend(&record.why, " ", std::string(lines[head]));
  }
  if (head == lines.size()) {
    return absl::InvalidArgumentError("is no flight record: no line after the first says \"unix_ms=...:\"");
  }
  if (lines.size() - head - 1 > kMostEntries) {
    return absl::InvalidArgumentError(absl::StrCat("is no flight record: it has more than ", kMostEntries, " events"));
  }
  for (size_t i = head + 1; i < lines.size(); ++i) {
    if (!ParseEntry(lines[i], &record.entries.emplace_back())) return NotARecord(i + 1, lines[i]);
  }
  return record;
}

absl::StatusOr<FlightRecords> LoadFlightRecords(const std::string& folder, std::optional<uint64_t> group) {
  FlightRecords found;
  absl::StatusOr<std::vector<FlightRecord>> all = ReadFolder(folder, &found.remarks);
  if (!all.ok()) return all.status();
  if (all->empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no flight record in ", folder,
                     "; ranks write them where SHOAL_FLIGHT_RECORDER says, servers where --flight-recorder says, by "
                     "default to shoal-flights-UID in the temporary directory"));
  }
  const auto is_older = [](const FlightRecord& left, const FlightRecord& right) {
    return left.ended_unix_ms < right.ended_unix_ms;
  };
  const uint64_t wanted = group.value_or(std::max_element(all->begin(), all->end(), is_older)->group);
  std::set<uint64_t> groups;
  for (const FlightRecord& record : *all) groups.insert(record.group);
  const uint64_t newest_of_wanted = std::transform_reduce(
      all->begin(), all->end(), uint64_t{0}, [](uint64_t left, uint64_t right) { return std::max(left, right); },
      [wanted](const FlightRecord& record) { return record.group == wanted ? record.ended_unix_ms : 0; });
  std::set<uint64_t> beside;  // the other rails of the same ranks, as it may be
  for (const FlightRecord& record : *all) {
    const bool is_near = record.ended_unix_ms + kOneFailureMs >= newest_of_wanted &&
                         newest_of_wanted + kOneFailureMs >= record.ended_unix_ms;
    if (record.group != wanted && is_near) beside.insert(record.group);
  }
  if (!group.has_value() && !beside.empty()) {
    found.remarks.push_back(absl::StrCat("Records of group ", absl::StrJoin(beside, ", "),
                                         " of the same minutes are not drawn: --group N draws those of one."));
  }
  std::erase_if(*all, [wanted](const FlightRecord& record) { return record.group != wanted; });
  if (all->empty()) {
    return absl::NotFoundError(absl::StrCat("no record in ", folder, " is of group ", wanted, "; there are those of ",
                                            absl::StrJoin(groups, ", ")));
  }
  std::stable_sort(all->begin(), all->end(), is_older);
  const uint64_t newest_unix_ms = all->back().ended_unix_ms;
  std::map<std::string, FlightRecord> of_members;
  for (FlightRecord& record : *all) {
    if (record.ended_unix_ms + kOneFailureMs < newest_unix_ms) {
      found.remarks.push_back(absl::StrCat(record.path, " is left out: it is of ",
                                           (newest_unix_ms - record.ended_unix_ms) / 60'000,
                                           " minutes before the newest of this group."));
      continue;
    }
    if (record.is_cut_off) {
      found.remarks.push_back(absl::StrCat("The last line of ", record.path, " has no end and is left out."));
    }
    of_members[record.member] = std::move(record);
  }
  for (auto& [member, record] : of_members) found.records.push_back(std::move(record));
  return found;
}

}  // namespace shoal::cli
