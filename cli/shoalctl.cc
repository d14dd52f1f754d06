#include "cli/shoalctl.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/changes.h"
#include "cli/cluster_client.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/doctor.h"
#include "cli/drain.h"
#include "cli/events.h"
#include "cli/flight_fetch.h"
#include "cli/flight_record.h"
#include "cli/plan.h"
#include "cli/schedulers.h"
#include "cli/tables.h"
#include "cli/timeline.h"
#include "cli/top.h"
#include "cli/trace.h"
#include "cli/verify.h"
#include "core/version.h"
#include "process/scheduler_address.h"
#include "process/write_file.h"
#include "program/nearest_text.h"
#include "program/wrap_text.h"

namespace shoal::cli {
namespace {

TableExtent Extent(const Command& command) { return {.wide = command.wide, .all = command.all}; }

// `text`: of the answer.
template <typename Message, typename Text>
absl::Status Show(const Command& command, const absl::StatusOr<Message>& answer, Text text, std::ostream& out) {
  if (!answer.ok()) return answer.status();
  out << (command.json ? ToJson(*answer) + "\n" : text(*answer));
  return absl::OkStatus();
}

uint64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

absl::Status ShowStatus(const Command& command, ClusterClient* client, std::ostream& out) {
  const absl::StatusOr<ClusterSample> sample = TakeSample(/*with_groups=*/true, client);
  if (!sample.ok()) return sample.status();
  if (command.json) {
    out << "{\"cluster\":" << ToJson(sample->cluster) << ",\"servers\":" << JsonList(sample->servers.servers())
        << ",\"jobs\":" << JsonList(sample->jobs.jobs()) << "}\n";
  } else {
    out << ClusterText(sample->cluster, command.scheduler, UnixMs()) << "\n"
        << ServersText(sample->servers, Extent(command)) << "\n"
        << JobsText(sample->jobs, Extent(command));
  }
  return absl::OkStatus();
}

// The client is of all of them together.
absl::Status ShowSchedulers(const Command& command, ClusterClient*, std::ostream& out) {
  const auto timeout_ms = static_cast<uint64_t>(Milliseconds(command.timeout_s).count());
  const std::vector<AskedScheduler> asked = AskEachScheduler(command.scheduler, timeout_ms);
  out << (command.json ? SchedulersJson(asked) + "\n" : SchedulersText(asked));
  for (const AskedScheduler& each : asked) {
    if (each.answer.ok()) return absl::OkStatus();
  }
  return absl::UnavailableError("no scheduler answers");
}

absl::Status ShowServers(const Command& command, ClusterClient* client, std::ostream& out) {
  const auto text = [&](const v1::ListServersResponse& servers) { return ServersText(servers, Extent(command)); };
  return Show(command, client->ListServers(), text, out);
}

absl::Status ShowJobs(const Command& command, ClusterClient* client, std::ostream& out) {
  const auto text = [&](const v1::ListJobsResponse& jobs) { return JobsText(jobs, Extent(command)); };
  return Show(command, client->ListJobs(), text, out);
}

// The newest of that name.
absl::Status ShowJob(const Command& command, ClusterClient* client, std::ostream& out) {
  const auto text = [](const v1::JobStatus& job) { return JobText(job, UnixMs()); };
  return Show(command, client->FindJob(command.argument), text, out);
}

absl::Status ShowMap(const Command& command, ClusterClient* client, std::ostream& out) {
  return Show(command, client->GetShardMap(), MapText, out);
}

// As JSON: the jobs that have slow ranks or wait for slow servers, without their groups.
absl::Status ShowStragglers(const Command& command, ClusterClient* client, std::ostream& out) {
  v1::ListJobsRequest wanted;
  wanted.set_without_groups(true);
  const auto jobs = client->ListJobs(wanted);
  if (!jobs.ok()) return jobs.status();
  if (!command.json) {
    out << StragglersText(*jobs, UnixMs());
    return absl::OkStatus();
  }
  v1::ListJobsResponse slow;
  for (const v1::JobStatus& job : jobs->jobs()) {
    if (job.slow_ranks().empty() && job.slow_servers().empty()) continue;
    *slow.add_jobs() = job;
  }
  out << ToJson(slow) << "\n";
  return absl::OkStatus();
}

absl::Status RunEvents(const Command& command, ClusterClient* client, std::ostream& out) {
  EventsOptions options{.filter = {.job = command.job},
                        .follow = command.follow,
                        .to_terminal = command.to_terminal,
                        .json = command.json};
  if (!command.since.empty()) options.since_ms = *ParseAge(command.since);
  options.filter.kinds = *ParseEventKinds(command.kinds);
  return ShowEvents(options, client, out, *command.err);
}

absl::Status RunDoctor(const Command& command, ClusterClient* client, std::ostream& out) {
  ExamineOptions options{.scheduler = command.scheduler,
                         .timeout_ms = static_cast<uint64_t>(Milliseconds(command.timeout_s).count()),
                         .json = command.json};
  if (command.bandwidth) options.bandwidth = command.data_plane;
  return Examine(options, client, out);
}

absl::Status RunTop(const Command& command, ClusterClient* client, std::ostream& out) {
  return Top(
      {.interval = Milliseconds(command.interval_s), .rounds = command.rounds, .clears_screen = command.to_terminal},
      client, out);
}

absl::Status RunDrain(const Command& command, ClusterClient* client, std::ostream& out) {
  return Drain({.server = command.argument,
                .wait = command.wait,
                .deadline = Milliseconds(command.deadline_s),
                .json = command.json},
               client, out);
}

absl::Status RunUndrain(const Command& command, ClusterClient* client, std::ostream& out) {
  return Undrain(command.argument, command.json, client, out);
}

absl::Status RunEvict(const Command& command, ClusterClient* client, std::ostream& out) {
  return Evict(command.argument, command.json, client, out);
}

absl::Status RunAbort(const Command& command, ClusterClient* client, std::ostream& out) {
  return Abort(command.argument, command.reason, command.json, client, out);
}

// To the file, with a summary for standard output; without a file the picture itself.
absl::StatusOr<std::string> Deliver(const Command& command, const Timeline& timeline) {
  if (command.output.empty()) return timeline.json;
  if (absl::Status status = WriteFile(command.output, timeline.json); !status.ok()) return status;
  return absl::StrCat(command.to_terminal ? WrapLines(timeline.summary) : timeline.summary, "Open ", command.output,
                      " in ui.perfetto.dev.\n");
}

absl::Status Deliver(const Command& command, const Timeline& timeline, std::ostream& out) {
  const absl::StatusOr<std::string> text = Deliver(command, timeline);
  if (!text.ok()) return text.status();
  out << *text;
  return absl::OkStatus();
}

absl::Status RunTrace(const Command& command, ClusterClient* client, std::ostream& out) {
  const absl::StatusOr<Timeline> timeline = TraceJob(command.argument, command.seconds, client);
  return timeline.ok() ? Deliver(command, *timeline, out) : timeline.status();
}

// Of the records that the scheduler has.
absl::Status RunTimeline(const Command& command, ClusterClient* client, std::ostream& out) {
  const absl::StatusOr<FlightRecords> found = FetchFlightRecords(command.job, command.group, client);
  return found.ok() ? Deliver(command, DrawTimeline(found->records, found->remarks), out) : found.status();
}

// DataLoss: results differ, and the output says which.
absl::Status RunVerify(const Command& command, ClusterClient* client, std::ostream& out) {
  const absl::StatusOr<Verification> verification = VerifyJob(command.argument, command.seconds, client);
  if (!verification.ok()) return verification.status();
  const std::string text = VerificationText(*verification);
  out << (command.json ? VerificationJson(*verification) : command.to_terminal ? WrapLines(text) : text);
  if (verification->differences.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("ranks of job \"", command.argument, "\" have different results"));
}

struct CommandKind {
  std::string_view name;
  std::string_view argument;  // what it takes the name of: "SERVER", "JOB", "[FOLDER]" or "SHELL"; empty: nothing
  std::string_view summary;
  absl::Status (*run)(const Command&, ClusterClient*, std::ostream&);  // nullptr: it asks no cluster

  bool MayLackArgument() const { return argument.starts_with('['); }
  // With a folder a timeline needs none.
  bool AsksCluster(const Command& command) const {
    return run != nullptr && !(MayLackArgument() && !command.argument.empty());
  }
};

constexpr CommandKind kCommands[] = {
    {"status", "", "the cluster, its servers and its jobs", ShowStatus},
    {"schedulers", "", "each scheduler that --scheduler names: whether it answers, leads, and of which cluster it is",
     ShowSchedulers},
    {"servers", "", "reduction servers, with load and last heartbeat", ShowServers},
    {"jobs", "", "training jobs, with the progress of their ranks and what is wrong", ShowJobs},
    {"job", "JOB", "one job: its ranks with their progress, its groups, and what is wrong", ShowJob},
    {"stragglers", "", "the ranks and servers that a job waits for, for how much of the time, and why", ShowStragglers},
    {"top", "", "servers and jobs with their rates, every --interval seconds", RunTop},
    {"map", "", "the shard map: which server owns which share", ShowMap},
    {"events", "",
     "what happened recently and why, as far as --since, --job and --kind let it through; with --follow also what "
     "happens from now on",
     RunEvents},
    {"doctor", "",
     "looks from this node at what a job here would need: every scheduler, every server's port, versions, clock, MTU, "
     "TCP, limits and RDMA, with --bandwidth also what the ways carry; with a fix for each finding. The exit code is 3 "
     "if there is a problem",
     RunDoctor},
    {"drain", "SERVER",
     "takes SERVER out of the cluster: its groups move to the other servers, no op fails, and its process ends with "
     "exit code 0. With --wait the command returns when the server has left. A server that is started again under "
     "the same name joins again",
     RunDrain},
    {"undrain", "SERVER", "keeps SERVER, which was asked to drain and has not left yet, in the cluster", RunUndrain},
    {"evict", "SERVER",
     "takes SERVER out at once, without its help, as if it had died; its process ends with exit code 1. Use it for a "
     "server that renews its lease but does no work",
     RunEvict},
    {"trace", "JOB",
     "records for --seconds what JOB's ranks and servers do, and draws it on one clock for ui.perfetto.dev: each chunk "
     "from the push to its result, who came last, what waited for whom. The job goes on undisturbed",
     RunTrace},
    {"verify", "JOB",
     "compares for --seconds the results of JOB's all-reduces over all of its ranks, bit for bit. The exit code is 3 "
     "if there is a difference",
     RunVerify},
    {"abort", "JOB", "ends JOB: its groups fail, and its ranks' ops end with an error that contains --reason",
     RunAbort},
    {"plan", "",
     "how many dedicated servers a job of --nodes with links of --link should have, by the time model; asks no cluster",
     nullptr},
    {"timeline", "[FOLDER]",
     "draws the flight records of a failure on one clock, for ui.perfetto.dev: what ranks and servers sent to the "
     "scheduler when the last group failed, or that of --job or --group; or what they wrote to FOLDER, which asks no "
     "cluster",
     RunTimeline},
    {"completion", "SHELL", "a script with which bash or zsh completes these: source <(shoalctl completion bash)",
     nullptr},
};

const CommandKind* FindCommand(const std::string& name) {
  const auto found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                  [&](const CommandKind& kind) { return kind.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

// "status, servers, ... or abort".
std::string CommandNames() {
  std::vector<std::string> names;
  for (const CommandKind& kind : kCommands) names.emplace_back(kind.name);
  const std::string last = std::move(names.back());
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
}

constexpr char kUsage[] = "shoalctl COMMAND [options]";

// "drain SERVER".
std::string NameWithArgument(const CommandKind& kind) {
  return absl::StrCat(std::string(kind.name), kind.argument.empty() ? "" : " ", std::string(kind.argument));
}

// `name`, and beside it what it means, in a column that begins after `name_width` characters.
std::string SummaryEntry(const std::string& name, size_t name_width, std::string_view meaning) {
  std::string head = absl::StrCat("  ", name);
  head.resize(std::max(head.size() + 2, name_width), ' ');
  return WrapText(absl::StrCat(head, std::string(meaning)), name_width);
}

struct ExitCode {
  int code;
  std::string_view meaning;
};

constexpr ExitCode kExitCodes[] = {
    {kExitOk, "it has done what it was asked for"},
    {kExitFailure,
     "the scheduler can't be reached or refuses, there is nothing to draw or to compare, or the output can't be "
     "written"},
    {kExitUsage, "wrong usage, or input that can't be read"},
    {kExitProblem, "doctor found a problem, or verify a difference"},
};

std::string Summary() {
  constexpr size_t kCommandWidth = 18;
  constexpr size_t kCodeWidth = 5;
  std::string text = "Shows what a Shoal cluster is doing, as its scheduler knows it, and changes it.\n\nCommands:\n";
  for (const CommandKind& kind : kCommands) {
    text += SummaryEntry(NameWithArgument(kind), kCommandWidth, kind.summary);
  }
  text += "\nExit codes:\n";
  for (const ExitCode& each : kExitCodes) text += SummaryEntry(absl::StrCat(each.code), kCodeWidth, each.meaning);
  text.pop_back();
  return text;
}

// Of one command: what goes with it. `options` holds those of all commands.
std::string CommandHelp(const CommandKind& kind, const OptionTable& options) {
  std::string summary(kind.summary);
  summary[0] = absl::ascii_toupper(static_cast<unsigned char>(summary[0]));
  std::string text =
      absl::StrCat("Usage: shoalctl ", NameWithArgument(kind), " [options]\n\n", WrapText(summary, 0), "\n");
  const std::string own = options.Entries(OptionsOf(kind.name));
  if (!own.empty()) absl::StrAppend(&text, "Options:\n", own, "\n");
  std::vector<std::string> common;
  if (kind.run != nullptr) common = {"scheduler", "timeout"};
  if (PrintsJson(kind.name)) common.emplace_back("json");
  if (!common.empty()) absl::StrAppend(&text, "Common options: ", options.Synopsis(common), "\n");
  return absl::StrCat(text, "`shoalctl --help` explains all options and lists all commands.\n");
}

CompletionWords WordsToComplete(const OptionTable& options) {
  CompletionWords words;
  for (const CommandKind& kind : kCommands) {
    words.commands.emplace_back(kind.name);
    if (kind.argument == "SERVER") words.server_commands.emplace_back(kind.name);
    if (kind.argument == "JOB") words.job_commands.emplace_back(kind.name);
  }
  for (const std::string& name : options.LongNames()) words.options.push_back(absl::StrCat("--", name));
  words.event_kinds = KindsOfSchedulers();
  return words;
}

absl::StatusOr<std::string> DrawFailure(const Command& command) {
  const absl::StatusOr<FlightRecords> found =
      LoadFlightRecords(command.argument, command.group == 0 ? std::nullopt : std::optional<uint64_t>(command.group));
  if (!found.ok()) return found.status();
  return Deliver(command, DrawTimeline(found->records, found->remarks));
}

// Of a command that asks no cluster: what it prints. InvalidArgument: wrong usage.
absl::StatusOr<std::string> WithoutCluster(const Command& command, const OptionTable& options) {
  if (command.name == "completion") return CompletionScript(command.argument, WordsToComplete(options));
  if (command.name == "timeline") return DrawFailure(command);
  const absl::StatusOr<ServerPlan> plan = PlanServers(command.plan);
  if (!plan.ok()) return plan.status();
  return command.json ? PlanJson(*plan) + "\n" : PlanText(command.plan, *plan);
}

// `words`: those that are no options. InvalidArgument: they name no command.
absl::StatusOr<const CommandKind*> NamedCommand(const std::vector<std::string>& words) {
  if (words.empty()) return absl::InvalidArgumentError(absl::StrCat("no command is given; use ", CommandNames()));
  const CommandKind* const kind = FindCommand(words[0]);
  if (kind != nullptr) return kind;
  std::vector<std::string> names;
  for (const CommandKind& each : kCommands) names.emplace_back(each.name);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown command \"", words[0], "\"", DidYouMean(words[0], names), "; use ", CommandNames()));
}

absl::Status CheckUsage(const std::vector<std::string>& words, const OptionTable& options, Command* command) {
  const absl::StatusOr<const CommandKind*> named = NamedCommand(words);
  if (!named.ok()) return named.status();
  const CommandKind* const kind = *named;
  command->name = words[0];
  const bool has_argument = words.size() == 2;
  if (words.size() > 2 ||
      (has_argument ? kind->argument.empty() : !kind->argument.empty() && !kind->MayLackArgument())) {
    return absl::InvalidArgumentError(
        kind->argument.empty()
            ? absl::StrCat("give one command at a time, not \"", absl::StrJoin(words, " "), "\"")
            : absl::StrCat(command->name, " takes the name of one ",
                           kind->argument == "JOB"        ? "job, as `shoalctl jobs` lists it"
                           : kind->argument == "SHELL"    ? "shell, bash or zsh"
                           : kind->argument == "[FOLDER]" ? "folder with flight records, or of none"
                                                          : "server, as `shoalctl servers` lists it"));
  }
  if (has_argument) command->argument = words[1];
  if (absl::Status status = CheckOptions(*command, options); !status.ok()) return status;
  if (!kind->AsksCluster(*command)) return absl::OkStatus();
  if (command->scheduler.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no scheduler is given; use --scheduler HOST:PORT or set SHOAL_SCHEDULER",
                     kind->MayLackArgument() ? ", or name a folder with flight records" : ""));
  }
  return SchedulerTarget(command->scheduler).status();
}

int FailUsage(const absl::Status& status, std::ostream& err) {
  err << "shoalctl: " << std::string(status.message()) << "\nUsage: " << kUsage << " (--help explains the options)\n";
  return kExitUsage;
}

// What RunShoalctl does, but for looking whether the output could be written.
int RunCommand(const std::vector<std::string>& arguments, const OptionTable::EnvironmentLookup& lookup,
               std::ostream& out, std::ostream& err, bool out_is_terminal) {
  Command command;
  command.to_terminal = out_is_terminal;
  command.err = &err;
  OptionTable options;
  DeclareOptions(&command, &options);
  std::vector<std::string> words;
  absl::Status status = options.Parse(arguments, lookup, &words);
  if (status.ok() && command.help && words.empty()) {
    out << options.Help(kUsage, Summary());
    return kExitOk;
  }
  if (status.ok() && command.help) {
    const absl::StatusOr<const CommandKind*> kind = NamedCommand(words);
    if (!kind.ok()) return FailUsage(kind.status(), err);
    out << CommandHelp(**kind, options);
    return kExitOk;
  }
  if (status.ok() && command.version) {
    out << "shoalctl " << kSoftwareVersion << "\n";
    return kExitOk;
  }
  if (status.ok()) status = CheckUsage(words, options, &command);
  if (!status.ok()) return FailUsage(status, err);
  if (!FindCommand(command.name)->AsksCluster(command)) {
    const absl::StatusOr<std::string> text = WithoutCluster(command, options);
    if (!text.ok()) {
      err << "shoalctl: " << std::string(text.status().message()) << "\n";
      return absl::IsInvalidArgument(text.status()) ? kExitUsage : kExitFailure;
    }
    out << *text;
    return kExitOk;
  }
  ClusterClient client(command.scheduler, static_cast<uint64_t>(Milliseconds(command.timeout_s).count()));
  status = FindCommand(command.name)->run(command, &client, out);
  if (status.ok()) return kExitOk;
  err << "shoalctl: " << std::string(status.message()) << "\n";
  const bool found_problem = (command.name == "doctor" && absl::IsFailedPrecondition(status)) ||
                             (command.name == "verify" && absl::IsDataLoss(status));
  return found_problem ? kExitProblem : kExitFailure;
}

}  // namespace

int RunShoalctl(const std::vector<std::string>& arguments, const OptionTable::EnvironmentLookup& lookup,
                std::ostream& out, std::ostream& err, bool out_is_terminal) {
  const int exit_code = RunCommand(arguments, lookup, out, err, out_is_terminal);
  out.flush();
  const bool has_failed = exit_code == kExitFailure || exit_code == kExitUsage;
  if (out.good() || has_failed) return exit_code;
  err << "shoalctl: the output could not be written: a full disk, or the reader has gone\n";
  return kExitFailure;
}

}  // namespace shoal::cli
