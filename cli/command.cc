#include "cli/command.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/events.h"
#include "cli/trace.h"

namespace shoal::cli {
namespace {

constexpr double kMostSeconds = 86400;

// An option that goes with these commands alone.
struct OwnOption {
  std::string_view name;
  std::array<std::string_view, 3> commands;  // the last ones may be empty
};

constexpr OwnOption kOwnOptions[] = {
    {"all", {"status", "servers", "jobs"}},
    {"wide", {"status", "servers", "jobs"}},
    {"follow", {"events"}},
    {"since", {"events"}},
    {"job", {"events", "timeline"}},
    {"kind", {"events"}},
    {"interval", {"top"}},
    {"rounds", {"top"}},
    {"reason", {"abort"}},
    {"nodes", {"plan"}},
    {"ranks", {"plan"}},
    {"link", {"plan"}},
    {"node-link", {"plan"}},
    {"bytes", {"plan"}},
    {"round-trip", {"plan"}},
    {"message", {"plan"}},
    {"port-buffer", {"plan"}},
    {"group", {"timeline"}},
    {"seconds", {"trace", "verify"}},
    {"output", {"timeline", "trace"}},
    {"wait", {"drain"}},
    {"deadline", {"drain"}},
    {"bandwidth", {"doctor"}},
    {"net-device", {"doctor"}},
    {"transports", {"doctor"}},
};

bool GoesWith(const OwnOption& option, std::string_view command) {
  return std::ranges::find(option.commands, command) != option.commands.end();
}

}  // namespace

void DeclareOptions(Command* command, OptionTable* table) {
  table->String("scheduler", "SHOAL_SCHEDULER", "HOST:PORT",
                "Address of the scheduler, or of several as IP:PORT,IP:PORT.", &command->scheduler);
  table->Flag("json", "",
              "Print JSON instead of tables, with the field names of proto/shoal/v1/*.proto where they fit.",
              &command->json);
  table->Flag("all,a", "", "With status, servers and jobs: also what has been gone for more than an hour.",
              &command->all);
  table->Flag("wide,w", "", "With status, servers and jobs: all columns, and whole names.", &command->wide);
  table->Flag("follow,f", "", "With events: continue to print events as they happen.", &command->follow);
  table->String("since", "", "TIME", "With events: only those of the last 90s, 15m, 2h or 1d.", &command->since);
  table->String(
      "job", "", "JOB",
      "With events: only those that name this job. With timeline without FOLDER: the job whose newest failure to "
      "draw; otherwise that of any job.",
      &command->job);
  table->String("kind", "", "KIND[,...]", "With events: only those of these kinds, such as rank-lost,job-failed.",
                &command->kinds);
  table->Double("interval", "", "S", "With top: seconds between updates.", &command->interval_s);
  table->Uint64("rounds", "", "N", "With top: stop after N updates; 0: continue until it is interrupted.",
                &command->rounds);
  table->String("reason", "", "TEXT", "With abort: the reason, which the job's ranks and the events show.",
                &command->reason);
  table->Uint32("nodes", "", "N", "With plan: nodes of the job.", &command->plan.nodes);
  table->Uint32("ranks", "", "N", "With plan: ranks of a node, which reduce among themselves first.",
                &command->plan.ranks);
  table->Double("link", "", "GBIT", "With plan: rate of a node's link in Gbit/s, each way.", &command->plan.link_gbit);
  table->Double(
      "node-link", "", "GBIT",
      "With plan: rate in Gbit/s, each way, at which a rank reaches the others of its node. 0: that takes no time.",
      &command->plan.node_link_gbit);
  table->Bytes("bytes", "", "With plan: size of an all-reduce, as it is sent.", &command->plan.bytes);
  table->Double("round-trip", "", "US", "With plan: round trip to a server in microseconds.",
                &command->plan.round_trip_us);
  table->Double("message", "", "US",
                "With plan: what a message costs beyond its bytes, as `shoal-perf --explain` has it.",
                &command->plan.message_us);
  table->Bytes("port-buffer", "", "With plan: what switch ports hold, as the scheduler is told. 0: not known.",
               &command->plan.port_buffer_bytes);
  table->Uint64("group", "", "GROUP", "With timeline: the group whose failure to draw. 0: the one that failed last.",
                &command->group);
  table->Double("seconds", "", "S", "With trace and verify: how long to record.", &command->seconds);
  table->String("output,o", "", "FILE", "With timeline and trace: the file to write instead of standard output.",
                &command->output);
  table->Flag("wait", "", "With drain: return when the server has left.", &command->wait);
  table->Double("deadline", "", "S", "With drain --wait: how long to wait for the server to leave.",
                &command->deadline_s);
  table->Flag("bandwidth", "",
              "With doctor: also send to one server after the other for half a second, as fast as it goes. Jobs on the "
              "same links feel it.",
              &command->bandwidth);
  table->String("net-device", "SHOAL_NET_DEVICE", "DEVICE", "With doctor --bandwidth: as for ranks on this node.",
                &command->data_plane.net_device);
  table->String("transports", "SHOAL_TRANSPORTS", "LIST", "With doctor --bandwidth: as for ranks on this node.",
                &command->data_plane.transports);
  table->Double("timeout", "", "S", "How long to wait for the scheduler, and with doctor for servers.",
                &command->timeout_s);
  table->HelpAndVersion(&command->help, &command->version);
}

std::vector<std::string> OptionsOf(std::string_view command) {
  std::vector<std::string> names;
  for (const OwnOption& option : kOwnOptions) {
    if (GoesWith(option, command)) names.emplace_back(option.name);
  }
  return names;
}

bool PrintsJson(std::string_view command) {
  return command != "trace" && command != "timeline" && command != "completion" && command != "top";
}

absl::Status CheckOptions(const Command& command, const OptionTable& table) {
  for (const OwnOption& option : kOwnOptions) {
    if (GoesWith(option, command.name) || !table.IsOnCommandLine(std::string(option.name))) continue;
    const std::vector<std::string> commands(option.commands.begin(), std::ranges::find(option.commands, ""));
    return absl::InvalidArgumentError(
        absl::StrCat("--", std::string(option.name), " only goes with ", absl::StrJoin(commands, ", ")));
  }
  if (const auto kinds = ParseEventKinds(command.kinds); !kinds.ok()) return kinds.status();
  if (!command.since.empty()) {
    if (const auto age = ParseAge(command.since); !age.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--since: ", age.status().message()));
    }
  }
  if (command.name == "timeline" && !command.argument.empty() && !command.job.empty()) {
    return absl::InvalidArgumentError(
        "--job does not go with a folder of flight records: it is for those that the scheduler has");
  }
  if (command.json && command.name == "top") {
    return absl::InvalidArgumentError("top prints no JSON; use status --json, whose counters only grow");
  }
  if (command.json && !PrintsJson(command.name)) {
    return absl::InvalidArgumentError(absl::StrCat("--json does not go with ", command.name,
                                                   command.name == "completion" ? "" : ", which writes JSON anyway"));
  }
  if (!(command.deadline_s >= 0 && command.deadline_s <= kMostSeconds)) {
    return absl::InvalidArgumentError("--deadline takes 0 to 86400 seconds");
  }
  if (table.IsOnCommandLine("deadline") && !command.wait) {
    return absl::InvalidArgumentError(
        "--deadline is how long drain --wait waits; without --wait it does not wait at all");
  }
  if (!(command.interval_s >= 0.1 && command.interval_s <= kMostSeconds)) {
    return absl::InvalidArgumentError("--interval takes 0.1 to 86400 seconds");
  }
  if (!(command.timeout_s >= 0.001 && command.timeout_s <= kMostSeconds)) {
    return absl::InvalidArgumentError("--timeout takes 0.001 to 86400 seconds");
  }
  if (!(command.seconds >= 0.001 && command.seconds <= kMostTraceSeconds)) {
    return absl::InvalidArgumentError("--seconds takes 0.001 to 60 seconds");
  }
  return absl::OkStatus();
}

}  // namespace shoal::cli
