#include "cli/doctor.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/doctor_findings.h"
#include "cli/doctor_schedulers.h"
#include "cli/tables.h"
#include "core/loopback_address.h"
#include "core/version.h"
#include "process/clock.h"
#include "process/node_name.h"
#include "process/scheduler_address.h"
#include "program/json_text.h"
#include "program/wrap_text.h"
#include "proto/status_text.h"

namespace shoal::cli {
namespace {

constexpr uint64_t kMostClockOffsetOfServerMs = 2000;  // by a heartbeat, which may have been under way for a while
constexpr char kFixOfLoopback[] =
    "that address leads every node to itself: start the server with an --advertise that other nodes reach";
// Beside what a process has open for itself, a rank has up to four for each I/O thread of a server.
constexpr uint64_t kFilesOfAProgram = 256;
constexpr uint64_t kFilesOfAnIoThread = 4;
constexpr uint32_t kUsualMtu = 1500;
// Two of the largest chunks that flow plans choose, which is what a connection has under way.
constexpr uint64_t kLeastTcpBufferBytes = uint64_t{1} << 20;
constexpr uint64_t kFastDeviceMbit = 25'000;
// Headers take a sixteenth of what crosses an Ethernet link, and something else is always under way.
constexpr double kFullLink = 0.8;
constexpr double kBusyCore = 0.9;
constexpr size_t kFindingIndent = 20;

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kNote:
      return "note";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kProblem:
      return "problem";
  }
  return "?";
}

std::string FixOf(Way::Outcome outcome) {
  switch (outcome) {
    case Way::Outcome::kReached:
      return "";
    case Way::Outcome::kRefused:
      return "nothing listens there: see whether the server runs on that node, and whether --advertise is right";
    case Way::Outcome::kNoAnswer:
      return "the node is down, or something drops the packets: see firewalls and the NetworkPolicy";
    case Way::Outcome::kNoRoute:
      return "this node has no route to that network: see its routes, and whether --advertise is right";
    case Way::Outcome::kBadAddress:
      return "start the server with an --advertise that is an IP address";
    case Way::Outcome::kFailed:
      return "this is this node's own trouble: see the reason";
  }
  return "";
}

void JudgeServer(const v1::ServerStatus& server, const std::vector<const Way*>& ways, const Examination& seen,
                 Findings* findings) {
  const std::string& version = seen.cluster.software_version();
  const std::string who = absl::StrCat("server ", server.name(), " on ", server.node());
  uint64_t slowest_us = 0;
  std::set<std::string> devices;
  std::map<Way::Outcome, std::vector<const Way*>> by_outcome;
  for (const Way* way : ways) {
    by_outcome[way->outcome].push_back(way);
    if (way->outcome != Way::Outcome::kReached) continue;
    slowest_us = std::max(slowest_us, way->round_trip_us);
    if (!way->device.empty()) devices.insert(way->device);
  }
  // Groups leave one that drains.
  const Verdict missing = server.state() == "draining" ? Verdict::kWarning : Verdict::kProblem;
  for (const auto& [outcome, of_outcome] : by_outcome) {
    if (outcome == Way::Outcome::kReached) continue;
    const Way& first = *of_outcome.front();
    const bool leads_here = IsLoopbackAddress(first.address) && server.node() != seen.node_name;
    const std::string others =
        of_outcome.size() == 1 ? "" : absl::StrCat(", as ", Plural(of_outcome.size() - 1, "other port"));
    findings->Add("server", missing, absl::StrCat(who, " can't be reached at ", first.address, others, ": ", first.why),
                  leads_here ? kFixOfLoopback : FixOf(outcome));
  }
  if (by_outcome.size() == 1 && by_outcome.contains(Way::Outcome::kReached)) {
    findings->Good("server", absl::StrCat(who, ": ", Plural(ways.size(), "port"), " reached",
                                          devices.empty() ? "" : " over ", absl::StrJoin(devices, ", "),
                                          absl::StrFormat(", round trip %.2f ms at most", slowest_us / 1e3)));
  }
  const uint64_t offset_ms = static_cast<uint64_t>(std::abs(server.clock_ahead_ms()));
  if (offset_ms > kMostClockOffsetOfServerMs) {
    findings->Warn(
        "clock",
        absl::StrCat("the clock of ", server.node(), ", where server ", server.name(), " runs, is ", AgeText(offset_ms),
                     server.clock_ahead_ms() > 0 ? " ahead of" : " behind", " the scheduler's"),
        kFixOfClock);
  }
  if (server.software_version() != version) {
    findings->Warn("version",
                   absl::StrCat(who, " has version ", server.software_version(), ", the scheduler ", version),
                   "install one release everywhere, unless an upgrade is under way");
  }
}

// A server that was tried, and the ways to its addresses.
struct TriedServer {
  const v1::ServerStatus* server = nullptr;
  std::vector<const Way*> ways;
};

std::vector<TriedServer> TriedServers(const Examination& seen) {
  std::vector<TriedServer> tried;
  auto way = seen.ways.begin();
  for (const v1::ServerStatus& server : seen.servers.servers()) {
    if (!IsToBeTried(server)) continue;
    std::vector<const Way*>& ways = tried.emplace_back(TriedServer{&server, {}}).ways;
    for (int i = 0; i < server.addresses_size() && way != seen.ways.end(); ++i) ways.push_back(&*way++);
  }
  return tried;
}

// Tensors are dealt over I/O threads.
void JudgeShares(const std::vector<TriedServer>& tried, Findings* findings) {
  std::map<int, std::vector<std::string>> by_io_threads;
  for (const auto& [server, ways] : tried) by_io_threads[server->addresses_size()].push_back(server->name());
  if (by_io_threads.size() < 2) return;
  std::vector<std::string> kinds;
  for (const auto& [count, names] : by_io_threads) {
    const std::string more = names.size() == 1 ? "" : absl::StrCat(" and ", Plural(names.size() - 1, "other"));
    kinds.push_back(absl::StrCat(Plural(static_cast<uint64_t>(count), "I/O thread"), " on ", names.front(), more));
  }
  findings->Note("shares", absl::StrCat("servers have different numbers of I/O threads (", absl::StrJoin(kinds, "; "),
                                        "); each I/O thread gets the same share of a tensor unless --weight says "
                                        "otherwise, so that the servers with most get most bytes"));
}

void JudgeServers(const Examination& seen, Findings* findings) {
  const std::vector<TriedServer> tried = TriedServers(seen);
  for (const auto& [server, ways] : tried) JudgeServer(*server, ways, seen, findings);
  JudgeShares(tried, findings);
  if (tried.empty()) {
    findings->Warn("server", "no dedicated server is live",
                   "start one (shoal-server --scheduler HOST:PORT --advertise IP), or let ranks run colocated ones");
  }
}

void JudgeLostServers(const Examination& seen, Findings* findings) {
  for (const v1::ServerStatus& server : seen.servers.servers()) {
    if (server.job_id() != 0 || server.state() != "lost" || server.last_heartbeat_age_ms() > kShownGoneMs) continue;
    findings->Warn("server",
                   absl::StrCat("server ", server.name(), " on ", server.node(), " is lost: ", server.reason()),
                   "read its log; start it again under its name, or let jobs go on with fewer servers");
  }
}

// Their processes run, or are started again and again, and serve nobody.
void JudgeRefusedServers(const v1::Cluster& cluster, Findings* findings) {
  for (const v1::RefusedServer& refused : cluster.refused_servers()) {
    findings->Add("server", Verdict::kProblem,
                  absl::StrCat("server ", refused.name(), " on ", refused.node(), " was refused ",
                               AgeText(refused.newest_age_ms()), " ago: ", refused.reason()),
                  "mend that on its node, or end the process if it is not wanted");
  }
}

void JudgeBandwidth(const v1::ServerStatus& server, const absl::StatusOr<Bandwidth>& bandwidth, uint64_t device_mbit,
                    Findings* findings) {
  const std::string who = absl::StrCat("server ", server.name(), " on ", server.node());
  if (absl::IsUnavailable(bandwidth.status())) {
    findings->Add("bandwidth", Verdict::kProblem,
                  absl::StrCat("nothing could be sent to ", who, ": ", bandwidth.status().message()),
                  "ranks here can't either: give both sides the same transports, and devices that reach each other");
    return;
  }
  if (!bandwidth.ok()) {
    findings->Warn("bandwidth", absl::StrCat("to ", who, " was not measured: ", bandwidth.status().message()),
                   "install shoalctl and shoal-perf of one release in one folder");
    return;
  }
  const std::string of = device_mbit == 0 ? "" : absl::StrCat(" of the ", device_mbit, " that this node's device has");
  const std::string text =
      absl::StrFormat("to %s: %.0f Mbit/s%s, over %s, with %.0f %% of a core", who, bandwidth->mbit_per_s, of,
                      bandwidth->transports, 100 * bandwidth->processor_share);
  if (device_mbit == 0) {
    findings->Note("bandwidth", absl::StrCat(text,
                                             "; the rate of this node's card is not known, so it was compared "
                                             "with nothing"));
  } else if (bandwidth->mbit_per_s >= kFullLink * static_cast<double>(device_mbit)) {
    findings->Good("bandwidth", text);
  } else if (bandwidth->processor_share >= kBusyCore) {
    findings->Warn("bandwidth", text,
                   "one core of this node could send no more: RDMA (--transports rc) needs less of it for each byte");
  } else {
    findings->Warn("bandwidth", text,
                   "find what holds it up: other traffic, the server's own link or core, a switch port of another "
                   "rate, lost packets (ethtool -S, nstat)");
  }
}

// Of the ways to a server; empty: they can be measured.
std::string WhyNotMeasured(const std::vector<const Way*>& ways) {
  const auto is_reached = [](const Way* way) { return way->outcome == Way::Outcome::kReached; };
  if (ways.empty() || !std::ranges::all_of(ways, is_reached)) return "not all of its ports were reached";
  const auto is_within_node = [](const Way* way) { return way->within_node; };
  return std::ranges::any_of(ways, is_within_node) ? "it is on this node" : "";
}

void JudgeBandwidths(const Examination& seen, Findings* findings) {
  if (!seen.bandwidths.has_value()) return;
  for (const auto& [server, ways] : TriedServers(seen)) {
    const auto found = seen.bandwidths->find(server->name());
    if (found == seen.bandwidths->end()) {
      findings->Note("bandwidth", absl::StrCat("to server ", server->name(), " on ", server->node(),
                                               " was not measured: ", WhyNotMeasured(ways)));
      continue;
    }
    uint64_t device_mbit = 0;
    for (const Way* way : ways) {
      // Only if the payload went that way, as "tcp/eth0" says.
      const bool went = found->second.ok() && !way->device.empty() &&
                        absl::StrContains(found->second->transports, absl::StrCat("/", way->device));
      if (went) device_mbit = std::max(device_mbit, way->device_mbit);
    }
    JudgeBandwidth(*server, found->second, device_mbit, findings);
  }
}

// What one device of this node shows on all ways that begin there.
void JudgeDevices(const std::vector<Way>& ways, Findings* findings) {
  std::map<std::string, const Way*> narrowest;
  for (const Way& way : ways) {
    if (way.outcome != Way::Outcome::kReached || way.device_mtu == 0 || way.within_node) continue;
    const Way*& kept = narrowest[way.device];
    if (kept == nullptr || way.segment_bytes < kept->segment_bytes) kept = &way;
  }
  for (const auto& [device, way] : narrowest) {
    const std::string rate = way->device_mbit == 0 ? "" : absl::StrCat(", ", way->device_mbit, " Mbit/s");
    if (way->segment_bytes < way->offered_bytes) {
      findings->Warn("mtu",
                     absl::StrCat("segments to ", way->address, " have ", way->segment_bytes, " bytes, ", device,
                                  " could carry ", way->offered_bytes),
                     "give all devices and switches on the way the same MTU, or see what tunnel takes the rest");
    } else if (way->device_mtu == kUsualMtu && way->device_mbit >= kFastDeviceMbit) {
      findings->Warn("mtu", absl::StrCat(device, " has an MTU of 1500", rate),
                     "an MTU of 9000 on nodes and switches saves processor time for each byte");
    } else {
      findings->Good("mtu", absl::StrCat(device, ": ", way->device_mtu, " bytes", rate));
    }
  }
}

void JudgeOffloads(const std::vector<Way>& ways, Findings* findings) {
  std::map<std::string, std::vector<std::string>> off;
  for (const Way& way : ways) {
    if (way.outcome == Way::Outcome::kReached && !way.within_node && !way.device.empty()) {
      off[way.device] = way.device_offloads_off;
    }
  }
  for (const auto& [device, missing] : off) {
    if (missing.empty()) {
      findings->Good("offloads", absl::StrCat(device, ": gso and gro are on"));
      continue;
    }
    findings->Warn("offloads", absl::StrCat(device, ": ", absl::StrJoin(missing, " and "), " turned off"),
                   absl::StrCat("ethtool -K ", device,
                                " gso on gro on: without it the kernel handles each packet by "
                                "itself, which takes several times the processor time"));
  }
}

void JudgeTcpBuffers(const NodeSettings& node, Findings* findings) {
  for (const auto& [setting, bytes] :
       {std::pair("tcp_wmem", node.tcp_send_buffer_bytes), std::pair("tcp_rmem", node.tcp_receive_buffer_bytes)}) {
    if (bytes == 0 || bytes >= kLeastTcpBufferBytes) continue;
    findings->Warn("tcp",
                   absl::StrCat("a connection keeps at most ", bytes, " bytes (net.ipv4.", setting,
                                "), less than the chunks that fast links are given"),
                   absl::StrCat("sysctl -w net.ipv4.", setting, "='4096 131072 6291456', the kernel's own"));
  }
}

void JudgeTcp(const Examination& seen, Findings* findings) {
  std::set<std::string> algorithms;
  for (const Way& way : seen.ways) {
    if (way.outcome == Way::Outcome::kReached && !way.within_node) algorithms.insert(way.congestion_control);
  }
  if (algorithms.empty()) return;
  if (algorithms.contains("bbr")) {
    findings->Warn("tcp", "congestion control to servers is bbr",
                   "sysctl -w net.ipv4.tcp_congestion_control=cubic, or congctl cubic on the routes: all that Shoal's "
                   "pages show was measured with cubic");
  } else {
    findings->Good("tcp", absl::StrCat("congestion control to servers is ", absl::StrJoin(algorithms, ", ")));
  }
  if (seen.node.slow_start_after_idle) {
    findings->Warn("tcp", "connections start slowly again after each pause, as between training steps",
                   "sysctl -w net.ipv4.tcp_slow_start_after_idle=0");
  }
  JudgeTcpBuffers(seen.node, findings);
}

void JudgeLimits(const Examination& seen, Findings* findings) {
  const uint64_t wanted = kFilesOfAProgram + kFilesOfAnIoThread * seen.ways.size();
  if (seen.node.open_files < wanted) {
    findings->Warn("limits",
                   absl::StrCat("a process of this shell may have ", seen.node.open_files, " files open; a rank wants ",
                                wanted, " and what its program needs"),
                   absl::StrCat("ulimit -n ", wanted * 2, " (LimitNOFILE in systemd)"));
    return;
  }
  const std::string any = "any number of";
  findings->Good("limits", absl::StrCat("a process of this shell may have ",
                                        seen.node.open_files == UINT64_MAX ? any : absl::StrCat(seen.node.open_files),
                                        " files open"));
}

std::string TransportsOf(const v1::ServerStatus& server) {
  return server.load().transports().empty() ? server.transports() : server.load().transports();
}

// "ucx 1.13.1: rc_verbs/mlx5_0:1": names of UCX's transports over RDMA begin so.
bool MovesByRdma(const v1::ServerStatus& server) {
  const std::string text = TransportsOf(server);
  return text.find(" rc_") != std::string::npos || text.find(" ud_") != std::string::npos ||
         text.find(" dc_") != std::string::npos || text.find(",rc_") != std::string::npos ||
         text.find(",ud_") != std::string::npos || text.find(",dc_") != std::string::npos;
}

void JudgeRdma(const Examination& seen, Findings* findings) {
  if (seen.node.rdma_devices.empty()) return;
  const std::string devices = absl::StrJoin(seen.node.rdma_devices, ", ");
  bool any = false;
  bool by_rdma = false;
  for (const v1::ServerStatus& server : seen.servers.servers()) {
    if (!IsToBeTried(server)) continue;
    any = true;
    by_rdma = by_rdma || MovesByRdma(server);
  }
  if (!seen.node.may_lock_for_rdma) {
    findings->Add(
        "rdma", by_rdma ? Verdict::kProblem : Verdict::kWarning,
        absl::StrCat(devices, ": a process of this shell may lock too little memory for RDMA"),
        "ulimit -l unlimited, LimitMEMLOCK=infinity (systemd; in Kubernetes for the node's container runtime), "
        "--ulimit memlock=-1 (Docker), or the capability IPC_LOCK for a process that runs as root");
  }
  if (any && !by_rdma) {
    findings->Warn("rdma", absl::StrCat("this node has ", devices, ", and no server moves data by RDMA"),
                   "where all nodes have RDMA: --transports rc for servers, SHOAL_TRANSPORTS=rc for ranks");
  } else if (seen.node.may_lock_for_rdma) {
    findings->Good("rdma", devices);
  }
}

// One server after the other: two at once would share this node's link.
void MeasureBandwidths(const ExamineOptions& options, Examination* seen) {
  seen->bandwidths.emplace();
  for (const auto& [server, ways] : TriedServers(*seen)) {
    if (!WhyNotMeasured(ways).empty()) continue;
    const std::vector<std::string> addresses(server->addresses().begin(), server->addresses().end());
    seen->bandwidths->emplace(server->name(), MeasureBandwidth(addresses, options.scheduler, *options.bandwidth,
                                                               options.credential_files, options.timeout_ms));
  }
}

Examination Look(const ExamineOptions& options, ClusterClient* client) {
  Examination seen;
  seen.node = ReadNodeSettings("/");
  seen.node_name = NodeName();
  // Of one alone nothing more is to be said.
  seen.schedulers = AskEachScheduler(options.scheduler, options.timeout_ms, options.credentials);
  if (seen.schedulers.size() < 2) seen.schedulers.clear();
  seen.asked_unix_ms = ReadNow().unix_ms;
  absl::StatusOr<v1::Cluster> cluster = client->GetCluster();
  seen.answered_unix_ms = std::max(ReadNow().unix_ms, seen.asked_unix_ms);
  seen.scheduler = cluster.status();
  if (!cluster.ok()) return seen;
  seen.cluster = *std::move(cluster);
  if (!seen.schedulers.empty() && !seen.cluster.leader().empty()) {
    seen.leader = EachSchedulerAddress(seen.cluster.leader());
  }
  absl::StatusOr<v1::ListServersResponse> servers = client->ListServers();
  seen.scheduler = servers.status();
  if (!servers.ok()) return seen;
  seen.servers = *std::move(servers);
  std::vector<std::string> addresses;
  for (const v1::ServerStatus& server : seen.servers.servers()) {
    if (IsToBeTried(server)) addresses.insert(addresses.end(), server.addresses().begin(), server.addresses().end());
  }
  seen.ways = TryWays(addresses, options.timeout_ms);
  if (options.bandwidth.has_value()) MeasureBandwidths(options, &seen);
  return seen;
}

}  // namespace

bool IsToBeTried(const v1::ServerStatus& server) {
  return server.job_id() == 0 && (server.state() == "live" || server.state() == "draining");
}

std::vector<Finding> Judge(const Examination& examination) {
  Findings findings;
  if (JudgeSchedulers(examination, &findings)) {
    JudgeServers(examination, &findings);
    JudgeLostServers(examination, &findings);
    JudgeRefusedServers(examination.cluster, &findings);
    JudgeBandwidths(examination, &findings);
    JudgeDevices(examination.ways, &findings);
    JudgeOffloads(examination.ways, &findings);
    JudgeTcp(examination, &findings);
  }
  JudgeLimits(examination, &findings);
  JudgeRdma(examination, &findings);
  return findings.Take();
}

size_t CountOf(const std::vector<Finding>& findings, Verdict verdict) {
  return static_cast<size_t>(std::count_if(findings.begin(), findings.end(),
                                           [verdict](const Finding& finding) { return finding.verdict == verdict; }));
}

std::string FindingsText(const std::vector<Finding>& findings, bool bandwidth_asked) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string head = absl::StrFormat("%-8s %-10s", std::string(VerdictName(finding.verdict)), finding.check);
    text += WrapText(absl::StrCat(head, " ", finding.text), kFindingIndent);
    if (!finding.fix.empty()) {
      text += WrapText(absl::StrCat(std::string(kFindingIndent, ' '), "-> ", finding.fix), kFindingIndent + 3);
    }
  }
  const std::string counts = absl::StrCat(Plural(CountOf(findings, Verdict::kProblem), "problem"), ", ",
                                          Plural(CountOf(findings, Verdict::kWarning), "warning"));
  const char* const more =
      bandwidth_asked ? "."
                      : "; --bandwidth also sends data, in packets of full size, and measures what the ways carry.";
  text += WrapText(absl::StrCat(counts, ". The ports were tried at which servers are reached", more), 0);
  return text;
}

std::string FindingsJson(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"verdict", VerdictName(finding.verdict)},
                    {"text", finding.text},
                    {"fix", finding.fix}});
  }
  return JsonText({{"findings", list},
                   {"problems", CountOf(findings, Verdict::kProblem)},
                   {"warnings", CountOf(findings, Verdict::kWarning)}});
}

absl::Status Examine(const ExamineOptions& options, ClusterClient* client, std::ostream& out) {
  const std::vector<Finding> findings = Judge(Look(options, client));
  out << (options.json ? FindingsJson(findings) + "\n" : FindingsText(findings, options.bandwidth.has_value()));
  const size_t problems = CountOf(findings, Verdict::kProblem);
  if (problems == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the doctor found ", Plural(problems, "problem")));
}

}  // namespace shoal::cli
