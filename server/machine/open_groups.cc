#include "server/machine/open_groups.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {
namespace {

constexpr size_t kMaxGroupsNamed = 4;
constexpr size_t kMaxRanksNamed = 8;

std::string DescribeRanks(const std::set<Rank>& ranks) {
  std::vector<uint64_t> named;
  for (const Rank rank : ranks) {
    if (named.size() < kMaxRanksNamed) named.push_back(rank.value());
  }
  std::string text = absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(named, ", "));
  if (ranks.size() > named.size()) absl::StrAppend(&text, " and ", ranks.size() - named.size(), " more");
  return text;
}

}  // namespace

void AddOpenGroups(const OpenGroups& more, OpenGroups* sum) {
  for (const auto& [id, group] : more) {
    ServedGroup& known = (*sum)[id];
    known.job = group.job;
    known.ranks.insert(group.ranks.begin(), group.ranks.end());
  }
}

std::string DescribeOpenGroups(const OpenGroups& groups) {
  std::vector<std::string> named;
  for (const auto& [id, group] : groups) {
    if (named.size() == kMaxGroupsNamed) break;
    named.push_back(
        absl::StrCat("group ", id.value(), " of job ", group.job.value(), " (", DescribeRanks(group.ranks), ")"));
  }
  const std::string text = absl::StrJoin(named, ", ");
  if (groups.size() == named.size()) return text;
  return absl::StrCat(text, " and ", groups.size() - named.size(), " more groups");
}

}  // namespace shoal
