#include "cli/doctor_schedulers.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/tables.h"
#include "core/no_leader.h"
#include "core/version.h"

namespace shoal::cli {
namespace {

constexpr uint64_t kMostClockOffsetMs = 1000;

// Those that do not lead are there and well.
bool NobodyLeads(const absl::Status& answer) { return absl::StrContains(answer.message(), kNobodyLeads); }

// False: the scheduler did not answer.
bool JudgeScheduler(const Examination& seen, Findings* findings) {
  if (NobodyLeads(seen.scheduler)) {
    findings->Add("scheduler", Verdict::kProblem, std::string(seen.scheduler.message()),
                  "see that most members of the etcd of --store run, and that the schedulers reach them: their event "
                  "election-failed names the member that does not answer; what follows is of this node alone");
    return false;
  }
  if (!seen.scheduler.ok()) {
    findings->Add("scheduler", Verdict::kProblem, std::string(seen.scheduler.message()),
                  "see that it runs and that this node reaches its address; what follows is of this node alone");
    return false;
  }
  const std::string version = seen.cluster.software_version();
  const std::string text = absl::StrCat("answers within ", seen.answered_unix_ms - seen.asked_unix_ms, " ms, ");
  if (version == kSoftwareVersion) {
    findings->Good("scheduler", absl::StrCat(text, "version ", version));
  } else {
    findings->Warn("scheduler", absl::StrCat(text, "version ", version, "; shoalctl here has ", kSoftwareVersion),
                   "install one release everywhere, unless an upgrade is under way");
  }
  return true;
}

// A job needs one that answers; each further one is there for the day when that one is not.
void JudgeEachScheduler(const Examination& seen, Findings* findings) {
  if (seen.schedulers.empty()) return;
  size_t answering = 0;
  for (const AskedScheduler& asked : seen.schedulers) {
    if (asked.answer.ok()) {
      ++answering;
      continue;
    }
    if (NobodyLeads(asked.answer) && NobodyLeads(seen.scheduler)) continue;  // that is told once
    const bool is_cut_off = absl::StrContains(asked.answer.message(), kLeaderIsSilent);
    findings->Warn("scheduler", std::string(asked.answer.message()),
                   is_cut_off
                       ? "see the network between that scheduler and the one that leads"
                       : "see that it runs and that this node reaches it: others answer in its place until they fail");
  }
  if (answering == seen.schedulers.size()) findings->Good("scheduler", absl::StrCat("all ", answering, " answer"));
}

// A member of such a list goes to whichever scheduler answers, so that a job finds the servers of one cluster or the
// other by chance.
void JudgeClusters(const Examination& seen, Findings* findings) {
  std::map<std::string, std::vector<std::string>> addresses;
  for (const AskedScheduler& asked : seen.schedulers) {
    if (asked.answer.ok() && !asked.cluster_id.empty()) addresses[asked.cluster_id].push_back(asked.address);
  }
  if (addresses.size() < 2) return;
  std::vector<std::string> clusters;
  for (const auto& [id, of_cluster] : addresses) {
    clusters.push_back(
        absl::StrCat(absl::StrJoin(of_cluster, ", "), of_cluster.size() == 1 ? " is" : " are", " of cluster ", id));
  }
  findings->Add("scheduler", Verdict::kProblem,
                absl::StrCat("the list has schedulers of different clusters: ", absl::StrJoin(clusters, "; ")),
                "name the schedulers of one cluster alone, for members too; schedulers of one cluster have the same "
                "--store");
}

// One that nobody has listed has come by the store, on purpose or not.
void JudgeLeader(const Examination& seen, Findings* findings) {
  if (seen.leader.empty() || seen.schedulers.empty()) return;
  const bool is_listed = std::ranges::any_of(seen.schedulers, [&](const AskedScheduler& asked) {
    return std::ranges::find(seen.leader, asked.address) != seen.leader.end();
  });
  if (is_listed) return;
  findings->Warn("scheduler",
                 absl::StrCat("the scheduler at ", seen.cluster.leader(), " leads, and is none of those listed"),
                 "if it is one of this cluster, list it by the address of its --advertise, for members too; otherwise "
                 "stop it: it has the --store of this cluster, and each cluster needs a /PREFIX of its own there");
}

void JudgeSaves(const Examination& seen, Findings* findings) {
  const v1::Cluster& cluster = seen.cluster;
  if (cluster.save_failure().empty()) return;
  const uint64_t since = cluster.saves_fail_since_unix_ms();
  const uint64_t now = cluster.now_unix_ms();
  findings->Add(
      "state", Verdict::kProblem,
      absl::StrCat("the scheduler has not been able to save its state for ", AgeText(now > since ? now - since : 0),
                   " (", cluster.store(), "): ", cluster.save_failure()),
      "free space or mend the store: nothing new begins and no group moves until a save succeeds");
}

void JudgeWhoReaches(const Examination& seen, Findings* findings) {
  const std::string& open = seen.cluster.open_to_network();
  if (open.empty()) return;
  findings->Warn(
      "network", absl::StrCat(open, " (--insecure-network)"),
      "give scheduler, servers and ranks certificates (docs/security.md), or keep others out of the network");
}

void JudgeClock(const Examination& seen, Findings* findings) {
  if (seen.cluster.now_unix_ms() == 0) return;  // an older scheduler does not say
  const uint64_t middle_ms = (seen.asked_unix_ms + seen.answered_unix_ms) / 2;
  const uint64_t theirs_ms = seen.cluster.now_unix_ms();
  const bool ahead = middle_ms > theirs_ms;
  const uint64_t offset_ms = ahead ? middle_ms - theirs_ms : theirs_ms - middle_ms;
  const uint64_t uncertain_ms = (seen.answered_unix_ms - seen.asked_unix_ms + 1) / 2;
  if (offset_ms <= kMostClockOffsetMs + uncertain_ms) {
    findings->Good("clock", absl::StrCat("within ", offset_ms + uncertain_ms, " ms of the scheduler's"));
    return;
  }
  findings->Warn(
      "clock",
      absl::StrCat("this node's clock is ", AgeText(offset_ms), ahead ? " ahead of" : " behind", " the scheduler's"),
      kFixOfClock);
}

}  // namespace

bool JudgeSchedulers(const Examination& seen, Findings* findings) {
  const bool is_known = JudgeScheduler(seen, findings);
  JudgeEachScheduler(seen, findings);
  JudgeClusters(seen, findings);
  if (!is_known) return false;
  JudgeLeader(seen, findings);
  JudgeSaves(seen, findings);
  JudgeWhoReaches(seen, findings);
  JudgeClock(seen, findings);
  return true;
}

}  // namespace shoal::cli
