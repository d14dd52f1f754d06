#include "proto/status_text.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstddef>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/node_reduce.h"

namespace shoal {
namespace {

template <typename Ranks>
std::string RanksText(const Ranks& ranks) {
  constexpr ptrdiff_t kShown = 8;
  const auto first = ranks.begin();
  const ptrdiff_t count = ranks.end() - first;
  const ptrdiff_t shown = std::min(count, kShown);
  return absl::StrCat(count == 1 ? "rank " : "ranks ", absl::StrJoin(first, first + shown, ", "),
                      count == shown ? "" : absl::StrCat(" and ", count - shown, " more"));
}

std::string WaitText(const v1::MissingServers& servers) {
  return absl::StrCat("waits for servers: ", servers.registered(), " of ", servers.wanted(), " registered");
}

std::string WaitText(const v1::GroupStatus& group) {
  if (!group.missing_ranks().empty()) return absl::StrCat("waits for ", RanksText(group.missing_ranks()));
  return group.has_missing_servers() ? WaitText(group.missing_servers()) : "waits to be opened";
}

// Of a job, for a scheduler; whatever the status says.
constexpr uint32_t kMostRanks = 65536;

std::vector<uint32_t> RanksThatHaveNotJoined(const v1::JobStatus& job) {
  if (job.min_ranks() > 0) return {};  // numbers of an open job are given to those who come
  std::set<uint32_t> joined;
  for (const v1::RankStatus& rank : job.ranks()) joined.insert(rank.rank());
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < std::min(job.world_size(), kMostRanks); ++rank) {
    if (!joined.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  // Fails only for types that our messages don't have.
  const bool ok = google::protobuf::util::MessageToJsonString(message, &json, options).ok();
  return ok ? json : "{}";
}

std::string LiveText(const v1::JobStatus& job, const JobTotals& totals) {
  return absl::StrCat(totals.live, job.min_ranks() > 0 ? "" : absl::StrCat(" of ", job.world_size()));
}

JobTotals TotalsOf(const v1::JobStatus& job) {
  JobTotals totals;
  if (!job.ranks().empty()) totals.newest_age_ms = UINT64_MAX;
  for (const v1::RankStatus& rank : job.ranks()) {
    totals.newest_age_ms = std::min<uint64_t>(totals.newest_age_ms, rank.last_heartbeat_age_ms());
    if (rank.state() == "live") {
      ++totals.live;
      totals.age_ms += rank.last_heartbeat_age_ms();
    }
    totals.ops_completed += rank.load().ops_completed();
    totals.ops_failed += rank.load().ops_failed();
    totals.bytes_pushed += rank.load().bytes_pushed();
    totals.bytes_pulled += rank.load().bytes_pulled();
    totals.op_time_ns += rank.load().op_time_ns_total();
  }
  if (totals.live > 0) totals.age_ms /= totals.live;
  return totals;
}

GroupCounts CountGroups(const v1::JobStatus& job) {
  GroupCounts counts;
  std::set<std::string> with_rails;
  for (const v1::GroupStatus& group : job.groups()) {
    if (group.node_reduce() == NodeReduceModeName(NodeReduceMode::kNodeAlone)) ++counts.on_one_node;
    if (group.rails() == 0) {
      ++counts.groups;
    } else {
      with_rails.insert(group.name());
      ++counts.rails;
    }
  }
  counts.groups += with_rails.size();
  return counts;
}

std::string NodeOfRank(const v1::JobStatus& job, uint32_t rank) {
  for (const v1::RankStatus& each : job.ranks()) {
    if (each.rank() == rank) return each.node();
  }
  return "";
}

std::vector<std::string> TroublesOf(const v1::JobStatus& job, bool with_slow) {
  std::vector<std::string> trouble;
  // A job that lost a rank failed for what is said of that rank.
  const bool is_of_a_rank = std::any_of(job.ranks().begin(), job.ranks().end(), [&](const v1::RankStatus& rank) {
    return rank.state() == "lost" && absl::EndsWith(job.failure(), absl::StrCat(" was lost: ", rank.reason()));
  });
  if (!job.failure().empty() && !is_of_a_rank) trouble.push_back(job.failure());
  for (const v1::RankStatus& rank : job.ranks()) {
    if (rank.state() != "lost") continue;
    trouble.push_back(absl::StrCat("rank ", rank.rank(), " on ", rank.node().empty() ? "an unknown node" : rank.node(),
                                   " lost: ", rank.reason()));
  }
  if (job.has_missing_servers()) {
    // Its ranks do not ask for groups yet, which would name those that are missing. And if all are on one node, it
    // needs no server once they are there.
    const std::vector<uint32_t> missing = RanksThatHaveNotJoined(job);
    if (!missing.empty()) trouble.push_back(absl::StrCat("waits for ", RanksText(missing), " to join"));
    trouble.push_back(WaitText(job.missing_servers()));
  }
  for (const v1::GroupStatus& group : job.groups()) {
    if (group.state() == "waiting") trouble.push_back(absl::StrCat("group ", group.name(), " ", WaitText(group)));
  }
  if (!with_slow) return trouble;
  for (const v1::SlowRank& slow : job.slow_ranks()) {
    trouble.push_back(
        absl::StrCat("rank ", slow.rank(), " is slow: ", ShareText(slow.waited_share()), " (", slow.cause(), ")"));
  }
  for (const v1::SlowServer& slow : job.slow_servers()) {
    trouble.push_back(absl::StrCat(SlowServerText(slow), " is slow: ", ShareText(slow.waited_share())));
  }
  return trouble;
}

std::string SlowServerText(const v1::SlowServer& slow) {
  const std::string server = absl::StrCat("server ", slow.name());
  return slow.has_late_rank() ? absl::StrCat("the way from rank ", slow.late_rank(), " to ", server) : server;
}

std::string ShareText(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

}  // namespace shoal
