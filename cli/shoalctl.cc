#include "cli/shoalctl.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster_client.h"
#include "cli/drain.h"
#include "cli/tables.h"
#include "core/version.h"
#include "process/scheduler_address.h"

namespace shoal::cli {
namespace {

constexpr double kMostSeconds = 86400;
constexpr char kUsage[] = "shoalctl [options] status|servers|jobs|stragglers|map|events|drain SERVER";
constexpr char kSummary[] =
    "Shows what a Shoal cluster is doing, as its scheduler knows it, and takes servers out of it.\n\n"
    "Commands:\n"
    "  status   the cluster, its servers and its jobs\n"
    "  servers  reduction servers, with load and last heartbeat\n"
    "  jobs     training jobs, with the progress of their ranks and the ranks that were lost\n"
    "  stragglers  ranks for which the other ranks of their job wait, for how much of the time, and why\n"
    "  map      the shard map: which server owns which share\n"
    "  events   what happened recently and why; with --follow also what happens from now on\n"
    "  drain    takes SERVER out of the cluster: its groups move to the other servers, no op fails, and its process\n"
    "           ends with exit code 0. With --wait the command returns when the server has left. A server that is\n"
    "           started again under the same name joins again";

struct Command {
  std::string name;
  std::string server;  // drain
  std::string scheduler;
  double timeout_s = 5;
  bool json = false;
  bool follow = false;
  bool wait = false;
  double deadline_s = 300;
  bool help = false;
  bool version = false;
};

void DeclareOptions(Command* command, OptionTable* table) {
  table->String("scheduler", "SHOAL_SCHEDULER", "HOST:PORT",
                "Address of the scheduler, or of several as IP:PORT,IP:PORT.", &command->scheduler);
  table->Flag("json", "", "Print JSON instead of tables, with the field names of proto/shoal/v1/status.proto.",
              &command->json);
  table->Flag("follow", "", "With events: continue to print events as they happen.", &command->follow);
  table->Flag("wait", "", "With drain: return when the server has left.", &command->wait);
  table->Double("deadline", "", "S", "With drain --wait: how long to wait for the server to leave.",
                &command->deadline_s);
  table->Double("timeout", "", "S", "How long to wait for the scheduler.", &command->timeout_s);
  table->Flag("help", "", "Show this and exit.", &command->help);
  table->Flag("version", "", "Show the version and exit.", &command->version);
}

template <typename Message>
absl::Status Show(const absl::StatusOr<Message>& answer, bool json, std::string (*text)(const Message&),
                  std::ostream& out) {
  if (!answer.ok()) return answer.status();
  out << (json ? ToJson(*answer) + "\n" : text(*answer));
  return absl::OkStatus();
}

template <typename Messages>
std::string JsonList(const Messages& messages) {
  return absl::StrCat(
      "[", absl::StrJoin(messages, ",", [](std::string* text, const auto& each) { text->append(ToJson(each)); }), "]");
}

uint64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

absl::Status ShowStatus(const Command& command, ClusterClient* client, std::ostream& out) {
  const auto cluster = client->GetCluster();
  if (!cluster.ok()) return cluster.status();
  const auto servers = client->ListServers();
  if (!servers.ok()) return servers.status();
  const auto jobs = client->ListJobs();
  if (!jobs.ok()) return jobs.status();
  if (command.json) {
    out << "{\"cluster\":" << ToJson(*cluster) << ",\"servers\":" << JsonList(servers->servers())
        << ",\"jobs\":" << JsonList(jobs->jobs()) << "}\n";
  } else {
    out << ClusterText(*cluster, command.scheduler, UnixMs()) << "\n"
        << ServersText(*servers) << "\n"
        << JobsText(*jobs);
  }
  return absl::OkStatus();
}

// As JSON: the jobs that have slow ranks, without their groups.
absl::Status ShowStragglers(const Command& command, ClusterClient* client, std::ostream& out) {
  const auto jobs = client->ListJobs();
  if (!jobs.ok()) return jobs.status();
  if (!command.json) {
    out << StragglersText(*jobs, UnixMs());
    return absl::OkStatus();
  }
  v1::ListJobsResponse slow;
  for (const v1::JobStatus& job : jobs->jobs()) {
    if (job.slow_ranks().empty()) continue;
    v1::JobStatus* const shown = slow.add_jobs();
    *shown = job;
    shown->clear_groups();
  }
  out << ToJson(slow) << "\n";
  return absl::OkStatus();
}

absl::Status ShowEvents(const Command& command, ClusterClient* client, std::ostream& out) {
  return client->ListEvents(command.follow, [&](const v1::Event& event) {
    out << (command.json ? ToJson(event) + "\n" : EventText(event)) << std::flush;
    return out.good();
  });
}

absl::Status Run(const Command& command, std::ostream& out) {
  ClusterClient client(command.scheduler, static_cast<uint64_t>(std::llround(command.timeout_s * 1000)));
  if (command.name == "status") return ShowStatus(command, &client, out);
  if (command.name == "servers") return Show(client.ListServers(), command.json, ServersText, out);
  if (command.name == "jobs") return Show(client.ListJobs(), command.json, JobsText, out);
  if (command.name == "stragglers") return ShowStragglers(command, &client, out);
  if (command.name == "map") return Show(client.GetShardMap(), command.json, MapText, out);
  if (command.name == "events") return ShowEvents(command, &client, out);
  return Drain({.server = command.server,
                .wait = command.wait,
                .deadline = std::chrono::milliseconds(std::llround(command.deadline_s * 1000)),
                .json = command.json},
               &client, out);
}

absl::Status CheckUsage(const std::vector<std::string>& words, Command* command) {
  if (words.empty())
    return absl::InvalidArgumentError(
        "no command is given; use status, servers, jobs, stragglers, map, events or drain");
  command->name = words[0];
  const std::string known[] = {"status", "servers", "jobs", "stragglers", "map", "events", "drain"};
  if (std::find(std::begin(known), std::end(known), command->name) == std::end(known)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown command \"", command->name,
                                                   "\"; use status, servers, jobs, stragglers, map, events or drain"));
  }
  const bool drain = command->name == "drain";
  if (words.size() != (drain ? 2u : 1u)) {
    return absl::InvalidArgumentError(
        drain ? "drain takes the name of one server, as `shoalctl servers` lists it"
              : absl::StrCat("give one command at a time, not \"", absl::StrJoin(words, " "), "\""));
  }
  if (drain) command->server = words[1];
  if (command->follow && command->name != "events") return absl::InvalidArgumentError("--follow only goes with events");
  if (command->wait && !drain) return absl::InvalidArgumentError("--wait only goes with drain");
  if (!(command->deadline_s >= 0 && command->deadline_s <= kMostSeconds)) {
    return absl::InvalidArgumentError("--deadline takes 0 to 86400 seconds");
  }
  if (!(command->timeout_s >= 0.001 && command->timeout_s <= kMostSeconds)) {
    return absl::InvalidArgumentError("--timeout takes 0.001 to 86400 seconds");
  }
  if (command->scheduler.empty()) {
    return absl::InvalidArgumentError("no scheduler is given; use --scheduler HOST:PORT or set SHOAL_SCHEDULER");
  }
  return SchedulerTarget(command->scheduler).status();
}

}  // namespace

int RunShoalctl(const std::vector<std::string>& arguments, const OptionTable::EnvironmentLookup& lookup,
                std::ostream& out, std::ostream& err) {
  Command command;
  OptionTable options;
  DeclareOptions(&command, &options);
  std::vector<std::string> words;
  absl::Status status = options.Parse(arguments, lookup, &words);
  if (status.ok() && command.help) {
    out << options.Help(kUsage, kSummary);
    return kExitOk;
  }
  if (status.ok() && command.version) {
    out << "shoalctl " << kSoftwareVersion << "\n";
    return kExitOk;
  }
  if (status.ok()) status = CheckUsage(words, &command);
  if (!status.ok()) {
    err << "shoalctl: " << std::string(status.message()) << "\nUsage: " << kUsage << " (--help explains the options)\n";
    return kExitUsage;
  }
  status = Run(command, out);
  if (!status.ok()) {
    err << "shoalctl: " << std::string(status.message()) << "\n";
    return kExitFailure;
  }
  return kExitOk;
}

}  // namespace shoal::cli
