#include "cli/verify.h"

#include <algorithm>
#include <optional>
#include <set>
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
#include "program/json_text.h"

namespace shoal::cli {
namespace {

constexpr size_t kDifferencesShown = 10;
constexpr size_t kMembersShown = 8;  // of those that had all-reduces on devices

struct OpName {
  uint64_t group = 0;
  uint64_t op = 0;

  friend auto operator<=>(const OpName&, const OpName&) = default;
};

struct Result {
  OpName name;
  uint64_t ranks = 0;  // of the group
  std::string group_name;
  std::string what;  // "crc64 0123456789abcdef of 1000 float32"
};

// "group=12 ranks=4 op=650 elements=1000 dtype=float32 crc64=0123456789abcdef name=ddp".
std::optional<Result> ParseResult(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 6));
  constexpr absl::string_view kKeys[] = {"group=", "ranks=", "op=", "elements=", "dtype=", "crc64=", "name="};
  if (words.size() != std::size(kKeys)) return std::nullopt;
  std::vector<std::string> values;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!absl::StartsWith(words[i], kKeys[i])) return std::nullopt;
    values.emplace_back(words[i].substr(kKeys[i].size()));
  }
  Result result{.group_name = values[6], .what = absl::StrCat("crc64 ", values[5], " of ", values[3], " ", values[4])};
  if (!absl::SimpleAtoi(values[0], &result.name.group) || !absl::SimpleAtoi(values[1], &result.ranks) ||
      !absl::SimpleAtoi(values[2], &result.name.op)) {
    return std::nullopt;
  }
  return result;
}

struct Record {
  uint64_t left_out = 0;    // results that had no room
  uint64_t on_devices = 0;  // all-reduces of tensors on devices, which have no results here
  std::vector<Result> results;
};

// nullopt: it can't be read.
std::optional<Record> ParseRecord(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() < 3 || !lines.back().empty()) return std::nullopt;
  lines.pop_back();
  Record record;
  // The first line says whose it is.
  absl::string_view left_out = lines[1];
  if (!absl::ConsumePrefix(&left_out, "left_out=") || !absl::SimpleAtoi(left_out, &record.left_out))
    return std::nullopt;
  size_t first = 2;
  absl::string_view on_devices = lines.size() > first ? lines[first] : "";
  if (absl::ConsumePrefix(&on_devices, "on_devices=")) {
    if (!absl::SimpleAtoi(on_devices, &record.on_devices)) return std::nullopt;
    ++first;
  }
  for (size_t i = first; i < lines.size(); ++i) {
    std::optional<Result> result = ParseResult(lines[i]);
    if (!result.has_value()) return std::nullopt;
    record.results.push_back(*std::move(result));
  }
  return record;
}

struct ComparedOp {
  Verification::Difference results;
  std::set<std::string> members;
  uint64_t ranks = 0;
};

// Of members whose all-reduces were of tensors on devices.
std::string OnDevicesText(const std::vector<std::string>& members) {
  const size_t shown = std::min(members.size(), kMembersShown);
  const std::string listed = absl::StrJoin(members.begin(), members.begin() + static_cast<ptrdiff_t>(shown), ", ");
  const std::string more =
      shown == members.size() ? "" : absl::StrCat(" and those of ", members.size() - shown, " more");
  return absl::StrCat("All-reduces of tensors on devices are not compared: ", listed, more, ".");
}

std::string GroupText(const Verification::Difference& difference) {
  return absl::StrCat("all-reduce ", difference.op, " of group \"", difference.group, "\"");
}

}  // namespace

Verification CompareDigests(const TraceRecords& fetched) {
  Verification verification{.remarks = fetched.remarks};
  std::map<OpName, ComparedOp> ops;
  std::vector<std::string> on_devices;
  for (const TraceRecords::Record& sent : fetched.records) {
    // Some of it is shown on terminals.
    const std::optional<Record> record = ParseRecord(MakePrintable(sent.text, std::string_view::npos, "\n"));
    if (!record.has_value()) {
      verification.remarks.push_back(absl::StrCat("What ", sent.member, " sent can't be read."));
      continue;
    }
    ++verification.members;
    if (record->left_out > 0) {
      verification.remarks.push_back(
          absl::StrCat(record->left_out, " results of ", sent.member, " had no room and are not compared."));
    }
    if (record->on_devices > 0) on_devices.push_back(absl::StrCat(record->on_devices, " of ", sent.member));
    for (const Result& result : record->results) {
      ComparedOp& op = ops[result.name];
      if (!op.members.insert(sent.member).second) continue;
      op.ranks = std::max(op.ranks, result.ranks);
      op.results.group = result.group_name;
      op.results.op = result.name.op;
      op.results.members[result.what].push_back(sent.member);
    }
  }
  if (!on_devices.empty()) verification.remarks.push_back(OnDevicesText(on_devices));
  std::set<uint64_t> groups;
  for (auto& [name, op] : ops) {
    if (op.members.size() < 2) continue;
    ++(op.members.size() >= op.ranks ? verification.compared : verification.compared_in_part);
    groups.insert(name.group);
    if (op.results.members.size() > 1) verification.differences.push_back(std::move(op.results));
  }
  verification.groups = groups.size();
  return verification;
}

absl::StatusOr<Verification> VerifyJob(const std::string& job, double seconds, ClusterClient* client) {
  const absl::StatusOr<TraceRecords> fetched = FetchRecords(job, TraceKind::kDigests, seconds, client);
  if (!fetched.ok()) return fetched.status();
  Verification verification = CompareDigests(*fetched);
  if (verification.members == 0) return NothingCame(job, verification.remarks);
  if (verification.compared + verification.compared_in_part == 0) {
    std::string why =
        absl::StrCat("no all-reduce of job \"", job,
                     "\" has ended on two ranks in that time; record longer with --seconds. Those of tensors "
                     "on devices, and those that the inner backend does, are not compared");
    for (const std::string& remark : verification.remarks) absl::StrAppend(&why, "\n  ", remark);
    return absl::NotFoundError(why);
  }
  return verification;
}

std::string VerificationText(const Verification& verification) {
  const size_t compared = verification.compared + verification.compared_in_part;
  std::string text =
      absl::StrCat(compared, " all-reduces of ", verification.groups, verification.groups == 1 ? " group" : " groups",
                   " compared over ", verification.members, " ranks: ");
  if (verification.differences.empty()) {
    absl::StrAppend(&text, "each has the same bits on all ranks that were compared.\n");
  } else {
    absl::StrAppend(&text, verification.differences.size(), " differ.\n");
  }
  if (verification.compared_in_part > 0) {
    absl::StrAppend(
        &text, "Of ", verification.compared_in_part,
        " all-reduces only some ranks of the group have sent their result: those at the ends of the time, and "
        "what is said below.\n");
  }
  const size_t shown = std::min(verification.differences.size(), kDifferencesShown);
  for (size_t i = 0; i < shown; ++i) {
    const Verification::Difference& difference = verification.differences[i];
    absl::StrAppend(&text, "  ", GroupText(difference), ":\n");
    for (const auto& [what, members] : difference.members) {
      absl::StrAppend(&text, "    ", what, ": ", absl::StrJoin(members, ", "), "\n");
    }
  }
  if (shown < verification.differences.size()) {
    absl::StrAppend(&text, "  and ", verification.differences.size() - shown, " more\n");
  }
  for (const std::string& remark : verification.remarks) absl::StrAppend(&text, remark, "\n");
  return text;
}

std::string VerificationJson(const Verification& verification) {
  Json differences = Json::array();
  for (const Verification::Difference& difference : verification.differences) {
    Json results = Json::array();
    for (const auto& [what, members] : difference.members) results.push_back({{"result", what}, {"members", members}});
    differences.push_back({{"group", difference.group}, {"op", difference.op}, {"results", results}});
  }
  return JsonText({{"compared", verification.compared},
                   {"compared_in_part", verification.compared_in_part},
                   {"groups", verification.groups},
                   {"members", verification.members},
                   {"differences", differences},
                   {"remarks", verification.remarks}}) +
         "\n";
}

}  // namespace shoal::cli
