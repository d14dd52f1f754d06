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
#include "core/json_text.h"

namespace shoal::cli {
namespace {

constexpr size_t kDifferencesShown = 10;

struct OpName {
  uint64_t group = 0;
  uint64_t op = 0;

  friend auto operator<=>(const OpName&, const OpName&) = default;
};

struct Result {
  OpName name;
  std::string group_name;
  std::string what;  // "crc64 0123456789abcdef of 1000 float32"
};

// "group=12 op=650 elements=1000 dtype=float32 crc64=0123456789abcdef name=ddp".
std::optional<Result> ParseResult(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 5));
  constexpr absl::string_view kKeys[] = {"group=", "op=", "elements=", "dtype=", "crc64=", "name="};
  if (words.size() != std::size(kKeys)) return std::nullopt;
  std::vector<std::string> values;
  for (size_t i = 0; i < words.size(); ++i) {
    if (!absl::StartsWith(words[i], kKeys[i])) return std::nullopt;
    values.emplace_back(words[i].substr(kKeys[i].size()));
  }
  Result result{.group_name = values[5], .what = absl::StrCat("crc64 ", values[4], " of ", values[2], " ", values[3])};
  if (!absl::SimpleAtoi(values[0], &result.name.group) || !absl::SimpleAtoi(values[1], &result.name.op)) {
    return std::nullopt;
  }
  return result;
}

// nullopt: the record can't be read.
std::optional<std::vector<Result>> ParseRecord(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() < 2 || !lines.back().empty()) return std::nullopt;
  lines.pop_back();
  std::vector<Result> results;
  for (size_t i = 1; i < lines.size(); ++i) {  // the first says whose it is
    std::optional<Result> result = ParseResult(lines[i]);
    if (!result.has_value()) return std::nullopt;
    results.push_back(*std::move(result));
  }
  return results;
}

std::string GroupText(const Verification::Difference& difference) {
  return absl::StrCat("all-reduce ", difference.op, " of group \"", difference.group, "\"");
}

}  // namespace

Verification CompareDigests(const TraceRecords& fetched) {
  Verification verification{.remarks = fetched.remarks};
  std::map<OpName, Verification::Difference> ops;
  for (const TraceRecords::Record& record : fetched.records) {
    const std::optional<std::vector<Result>> results = ParseRecord(record.text);
    if (!results.has_value()) {
      verification.remarks.push_back(absl::StrCat("What ", record.member, " sent can't be read."));
      continue;
    }
    ++verification.members;
    for (const Result& result : *results) {
      Verification::Difference& op = ops[result.name];
      op.group = result.group_name;
      op.op = result.name.op;
      op.members[result.what].push_back(record.member);
    }
  }
  std::set<uint64_t> groups;
  for (auto& [name, op] : ops) {
    size_t members = 0;
    for (const auto& [what, who] : op.members) members += who.size();
    if (members < 2) continue;
    ++verification.compared;
    groups.insert(name.group);
    if (op.members.size() > 1) verification.differences.push_back(std::move(op));
  }
  verification.groups = groups.size();
  return verification;
}

absl::StatusOr<Verification> VerifyJob(const std::string& job, double seconds, ClusterClient* client) {
  const absl::StatusOr<TraceRecords> fetched = FetchRecords(job, TraceKind::kDigests, seconds, client);
  if (!fetched.ok()) return fetched.status();
  Verification verification = CompareDigests(*fetched);
  if (verification.members == 0) return NothingCame(job, verification.remarks);
  if (verification.compared == 0) {
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
  std::string text = absl::StrCat(verification.compared, " all-reduces of ", verification.groups,
                                  verification.groups == 1 ? " group" : " groups", " compared over ",
                                  verification.members, " ranks: ");
  if (verification.differences.empty()) {
    absl::StrAppend(&text, "each has the same bits on all of its ranks.\n");
  } else {
    absl::StrAppend(&text, verification.differences.size(), " differ.\n");
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
  const auto quoted = [](std::string* out, const std::string& each) { out->append(QuoteJson(each)); };
  std::vector<std::string> differences;
  for (const Verification::Difference& difference : verification.differences) {
    std::vector<std::string> results;
    for (const auto& [what, members] : difference.members) {
      results.push_back(
          absl::StrCat("{\"result\":", QuoteJson(what), ",\"members\":[", absl::StrJoin(members, ",", quoted), "]}"));
    }
    differences.push_back(absl::StrCat("{\"group\":", QuoteJson(difference.group), ",\"op\":", difference.op,
                                       ",\"results\":[", absl::StrJoin(results, ","), "]}"));
  }
  return absl::StrCat("{\"compared\":", verification.compared, ",\"groups\":", verification.groups,
                      ",\"members\":", verification.members, ",\"differences\":[", absl::StrJoin(differences, ","),
                      "],\"remarks\":[", absl::StrJoin(verification.remarks, ",", quoted), "]}\n");
}

}  // namespace shoal::cli
