#include "cli/schedulers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster_client.h"
#include "cli/tables.h"
#include "process/scheduler_address.h"
#include "program/json_text.h"
#include "program/wrap_text.h"

namespace shoal::cli {
namespace {

AskedScheduler Ask(const std::string& address, uint64_t timeout_ms, const Credentials& credentials) {
  const auto since = std::chrono::steady_clock::now();
  const absl::StatusOr<v1::Cluster> cluster = ClusterClient(address, timeout_ms, credentials).GetCluster();
  const auto took = std::chrono::steady_clock::now() - since;
  AskedScheduler asked{.address = address, .answer = cluster.status()};
  asked.answered_in_ms = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
  if (!cluster.ok()) return asked;
  asked.cluster_id = cluster->cluster_id();
  // One that does not lead passes the question on. One that is alone names no leader.
  asked.leads = cluster->leader().empty() || std::ranges::count(EachSchedulerAddress(cluster->leader()), address) > 0;
  return asked;
}

}  // namespace

std::vector<AskedScheduler> AskEachScheduler(const std::string& scheduler, uint64_t timeout_ms,
                                             const Credentials& credentials) {
  std::vector<AskedScheduler> asked;
  for (const std::string& address : EachSchedulerAddress(scheduler)) {
    asked.push_back(Ask(address, timeout_ms, credentials));
  }
  return asked;
}

std::string SchedulersText(const std::vector<AskedScheduler>& schedulers) {
  std::vector<TableRow> rows = {{"SCHEDULER", "ANSWERS WITHIN", "ROLE", "CLUSTER"}};
  std::string reasons;
  for (const AskedScheduler& asked : schedulers) {
    if (asked.answer.ok()) {
      rows.push_back({asked.address, absl::StrCat(asked.answered_in_ms, " ms"), asked.leads ? "leads" : "follows",
                      asked.cluster_id});
    } else {
      rows.push_back({asked.address, "no answer", "-", "-"});
      reasons += WrapText(std::string(asked.answer.message()), 4);
    }
  }
  return AlignTable(rows) + reasons;
}

std::string SchedulersJson(const std::vector<AskedScheduler>& schedulers) {
  Json list = Json::array();
  for (const AskedScheduler& asked : schedulers) {
    list.push_back({{"address", asked.address},
                    {"answers", asked.answer.ok()},
                    {"leads", asked.leads},
                    {"cluster_id", asked.cluster_id},
                    {"error", std::string(asked.answer.message())}});
  }
  return JsonText({{"schedulers", list}});
}

}  // namespace shoal::cli
