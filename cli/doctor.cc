#include "cli/doctor.h"

#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/tables.h"
#include "core/version.h"
#include "proto/status_text.h"

namespace shoal::cli {
namespace {

constexpr uint64_t kMostClockOffsetMs = 1000;
// A rank has a handful for each I/O thread of a server and for each rank of its node, beside those of its program.
constexpr uint64_t kLeastOpenFiles = 4096;
// As net/ucx/ucx_worker.cc wants it.
constexpr uint64_t kLeastLockableBytes = uint64_t{256} << 20;
constexpr uint32_t kUsualMtu = 1500;
constexpr uint64_t kFastDeviceMbit = 25'000;

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kProblem:
      return "problem";
  }
  return "?";
}

class Findings {
 public:
  void Good(std::string check, std::string text) { Add(std::move(check), Verdict::kGood, std::move(text), ""); }
  void Warn(std::string check, std::string text, std::string fix) {
    Add(std::move(check), Verdict::kWarning, std::move(text), std::move(fix));
  }
  void Problem(std::string check, std::string text, std::string fix) {
    Add(std::move(check), Verdict::kProblem, std::move(text), std::move(fix));
  }
  std::vector<Finding> Take() { return std::move(findings_); }

 private:
  void Add(std::string check, Verdict verdict, std::string text, std::string fix) {
    findings_.push_back({std::move(check), verdict, std::move(text), std::move(fix)});
  }

  std::vector<Finding> findings_;
};

bool IsLive(const v1::ServerStatus& server) { return server.state() == "live" || server.state() == "draining"; }

std::string Milliseconds(uint64_t ns) { return absl::StrFormat("%.2f ms", static_cast<double>(ns) / 1e6); }

void JudgeScheduler(const Examination& seen, Findings* findings) {
  const std::string version = seen.cluster.software_version();
  const std::string text = absl::StrCat("answers within ", seen.answered_unix_ms - seen.asked_unix_ms, " ms");
  if (version == kSoftwareVersion) {
    findings->Good("scheduler", absl::StrCat(text, ", version ", version));
  } else {
    findings->Warn("scheduler",
                   absl::StrCat(text, "; its version is ", version, ", that of shoalctl ", kSoftwareVersion),
                   "install one version everywhere; versions that follow each other work together for an upgrade");
  }
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
      "let chrony or another NTP client set it: logs and events of different nodes can't be compared");
}

std::string FixOfWay(const Way& way) {
  const std::string why(way.reached.message());
  if (absl::IsDeadlineExceeded(way.reached)) {
    return "something drops the packets: open this port in firewalls and in the NetworkPolicy, and the ports of "
           "UCX_TCP_PORT_RANGE with it";
  }
  if (why.find("refused") != std::string::npos) {
    return "nothing listens there: see whether the server's process runs on that node, and whether --advertise is the "
           "address of the network on which workers reach it";
  }
  return "this node has no way to that address: see its routes, and whether --advertise is an address that workers can "
         "reach";
}

void JudgeServer(const v1::ServerStatus& server, const std::vector<const Way*>& ways, const std::string& version,
                 Findings* findings) {
  const std::string who = absl::StrCat(server.name(), " on ", server.node());
  uint64_t slowest_ns = 0;
  std::set<std::string> devices;
  size_t reached = 0;
  for (const Way* way : ways) {
    if (!way->reached.ok()) {
      findings->Problem(
          "server", absl::StrCat(who, " can't be reached at ", way->address, ": ", std::string(way->reached.message())),
          FixOfWay(*way));
      continue;
    }
    ++reached;
    slowest_ns = std::max(slowest_ns, way->connect_ns);
    if (!way->device.empty()) devices.insert(way->device);
  }
  if (reached > 0 && reached == ways.size()) {
    const std::string over = devices.empty() ? "" : absl::StrCat(" over ", absl::StrJoin(devices, ", "));
    findings->Good(
        "server",
        absl::StrCat(who, ": ", Plural(reached, "I/O thread"), " reached within ", Milliseconds(slowest_ns), over,
                     server.transports().empty() ? "" : absl::StrCat("; data by ", server.transports())));
  }
  if (server.software_version() != version) {
    findings->Warn("version",
                   absl::StrCat(who, " has version ", server.software_version(), ", the scheduler ", version),
                   "replace the server; until then it works, if the versions follow each other");
  }
}

void JudgeServers(const Examination& seen, Findings* findings) {
  auto way = seen.ways.begin();
  size_t live = 0;
  for (const v1::ServerStatus& server : seen.servers.servers()) {
    if (!IsLive(server)) continue;
    ++live;
    std::vector<const Way*> ways;
    for (int i = 0; i < server.addresses_size() && way != seen.ways.end(); ++i) ways.push_back(&*way++);
    JudgeServer(server, ways, seen.cluster.software_version(), findings);
  }
  if (live == 0) {
    findings->Warn("server", "no server is live: only groups whose ranks are all on one node can reduce",
                   "start one: shoal-server --scheduler HOST:PORT --advertise IP");
  }
}

// What one device of this node shows on all ways that begin there.
void JudgeDevices(const std::vector<Way>& ways, Findings* findings) {
  std::map<std::string, const Way*> narrowest;
  for (const Way& way : ways) {
    if (!way.reached.ok() || way.device.empty() || way.within_node) continue;
    const Way*& kept = narrowest[way.device];
    if (kept == nullptr || way.path_mtu < kept->path_mtu) kept = &way;
  }
  for (const auto& [device, way] : narrowest) {
    const std::string rate = way->device_mbit == 0 ? "" : absl::StrCat(", ", way->device_mbit, " Mbit/s");
    if (way->path_mtu != 0 && way->path_mtu < way->device_mtu) {
      findings->Warn("mtu",
                     absl::StrCat(device, " takes packets of ", way->device_mtu, " bytes, the way to ", way->address,
                                  " only ", way->path_mtu),
                     "give all devices and switches on the way the same MTU, or see what tunnel takes the rest");
    } else if (way->device_mtu == kUsualMtu && way->device_mbit >= kFastDeviceMbit) {
      findings->Warn("mtu", absl::StrCat(device, " has an MTU of 1500", rate),
                     "use an MTU of 9000 on nodes and switches: it saves processor time for each byte");
    } else {
      findings->Good("mtu", absl::StrCat(device, ": ", way->device_mtu, " bytes", rate));
    }
  }
}

void JudgeTcp(const Examination& seen, Findings* findings) {
  const NodeSettings& node = seen.node;
  const bool over_network = std::any_of(seen.ways.begin(), seen.ways.end(),
                                        [](const Way& way) { return way.reached.ok() && !way.within_node; });
  if (!over_network || node.congestion_control.empty()) return;
  if (node.congestion_control == "cubic") {
    findings->Good("tcp", "congestion control is cubic");
  } else {
    findings->Warn("tcp", absl::StrCat("congestion control is ", node.congestion_control),
                   "sysctl -w net.ipv4.tcp_congestion_control=cubic, or `congctl cubic` on the routes to the servers: "
                   "it fills links that all ranks share better than bbr");
  }
  if (node.slow_start_after_idle) {
    findings->Warn("tcp", "connections start slowly again after each pause",
                   "sysctl -w net.ipv4.tcp_slow_start_after_idle=0: a training step is such a pause");
  }
}

void JudgeLimits(const NodeSettings& node, Findings* findings) {
  if (node.open_files < kLeastOpenFiles) {
    findings->Warn("limits", absl::StrCat("a process may have ", node.open_files, " files open"),
                   absl::StrCat("ulimit -n ", kLeastOpenFiles, " or more (LimitNOFILE in systemd)"));
  } else {
    findings->Good("limits", node.open_files == UINT64_MAX
                                 ? std::string("a process may have any number of files open")
                                 : absl::StrCat("a process may have ", node.open_files, " files open"));
  }
}

void JudgeRdma(const Examination& seen, Findings* findings) {
  const NodeSettings& node = seen.node;
  if (node.rdma_devices.empty()) return;
  const std::string devices = absl::StrJoin(node.rdma_devices, ", ");
  if (node.lockable_bytes < kLeastLockableBytes) {
    findings->Problem("rdma", absl::StrCat(devices, ": a process may lock only ", BytesText(node.lockable_bytes)),
                      "ulimit -l unlimited, LimitMEMLOCK=infinity (systemd), --ulimit memlock=-1 (Docker) or the "
                      "capability IPC_LOCK (Kubernetes)");
    return;
  }
  const auto uses_tcp = [](const v1::ServerStatus& server) { return IsLive(server) && server.transports() == "tcp"; };
  const auto& servers = seen.servers.servers();
  if (std::any_of(servers.begin(), servers.end(), uses_tcp)) {
    findings->Warn("rdma", absl::StrCat("this node has ", devices, ", and servers move data by tcp"),
                   "where the servers' nodes have RDMA as well: --transports rc,tcp for servers, "
                   "SHOAL_TRANSPORTS=rc,tcp for ranks");
  } else {
    findings->Good("rdma", devices);
  }
}

size_t Count(const std::vector<Finding>& findings, Verdict verdict) {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                           [verdict](const Finding& finding) { return finding.verdict == verdict; }));
}

uint64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace

std::vector<Finding> Judge(const Examination& examination) {
  Findings findings;
  JudgeScheduler(examination, &findings);
  JudgeClock(examination, &findings);
  JudgeServers(examination, &findings);
  JudgeDevices(examination.ways, &findings);
  JudgeTcp(examination, &findings);
  JudgeLimits(examination.node, &findings);
  JudgeRdma(examination, &findings);
  return findings.Take();
}

std::string FindingsText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    absl::StrAppendFormat(&text, "%-8s %-10s %s\n", std::string(VerdictName(finding.verdict)), finding.check,
                          finding.text);
    if (!finding.fix.empty()) absl::StrAppendFormat(&text, "%-19s -> %s\n", "", finding.fix);
  }
  absl::StrAppend(&text, Plural(Count(findings, Verdict::kProblem), "problem"), ", ",
                  Plural(Count(findings, Verdict::kWarning), "warning"),
                  ". What a link carries is not measured here: shoal-perf --explain does that.\n");
  return text;
}

std::string FindingsJson(const std::vector<Finding>& findings) {
  google::protobuf::ListValue list;
  for (const Finding& finding : findings) {
    auto& fields = *list.add_values()->mutable_struct_value()->mutable_fields();
    fields["check"].set_string_value(finding.check);
    fields["verdict"].set_string_value(std::string(VerdictName(finding.verdict)));
    fields["text"].set_string_value(finding.text);
    fields["fix"].set_string_value(finding.fix);
  }
  return ToJson(list);
}

absl::Status Examine(ClusterClient* client, uint64_t timeout_ms, bool json, std::ostream& out) {
  Examination seen;
  seen.asked_unix_ms = UnixMs();
  absl::StatusOr<v1::Cluster> cluster = client->GetCluster();
  seen.answered_unix_ms = std::max(UnixMs(), seen.asked_unix_ms);
  if (!cluster.ok()) return cluster.status();
  seen.cluster = *std::move(cluster);
  absl::StatusOr<v1::ListServersResponse> servers = client->ListServers();
  if (!servers.ok()) return servers.status();
  seen.servers = *std::move(servers);
  std::vector<std::string> addresses;
  for (const v1::ServerStatus& server : seen.servers.servers()) {
    if (IsLive(server)) addresses.insert(addresses.end(), server.addresses().begin(), server.addresses().end());
  }
  seen.ways = TryWays(addresses, timeout_ms);
  seen.node = ReadNodeSettings("/");
  const std::vector<Finding> findings = Judge(seen);
  out << (json ? FindingsJson(findings) + "\n" : FindingsText(findings));
  const size_t problems = Count(findings, Verdict::kProblem);
  if (problems == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(Plural(problems, "problem"), " found; see above"));
}

}  // namespace shoal::cli
