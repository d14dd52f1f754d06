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
#include "cli/printable_buffer.h"
#include "cli/schedulers.h"
#include "cli/tables.h"
#include "cli/timeline.h"
#include "cli/top.h"
#include "cli/trace.h"
#include "cli/verify.h"
#include "process/clock.h"
#include "process/scheduler_address.h"
#include "process/write_file.h"
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
    out << ClusterText(sample->cluster, command.scheduler, ReadNow().unix_ms) << "\n"
        << ServersText(sample->servers, Extent(command)) << "\n"
        << JobsText(sample->jobs, Extent(command));
  }
  return absl::OkStatus();
}

// The client is of all of them together.
absl::Status ShowSchedulers(const Command& command, ClusterClient*, std::ostream& out) {
  const auto timeout_ms = static_cast<uint64_t>(Milliseconds(command.timeout_s).count());
  const std::vector<AskedScheduler> asked = AskEachScheduler(command.scheduler, timeout_ms, command.credentials);
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
  const auto text = [](const v1::JobStatus& job) { return JobText(job, ReadNow().unix_ms); };
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
    out << StragglersText(*jobs, ReadNow().unix_ms);
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
  const EventsOptions options{.since_ms = command.since_ms,
                              .filter = {.job = command.job, .kinds = command.kinds},
                              .follow = command.follow,
                              .to_terminal = command.to_terminal,
                              .json = command.json};
  return ShowEvents(options, client, out, *command.err);
}

absl::Status RunDoctor(const Command& command, ClusterClient* client, std::ostream& out) {
  ExamineOptions options{.scheduler = command.scheduler,
                         .timeout_ms = static_cast<uint64_t>(Milliseconds(command.timeout_s).count()),
                         .json = command.json,
                         .credentials = command.credentials,
                         .credential_files = command.credential_files};
  if (command.bandwidth) options.bandwidth = command.data_plane;
  return Examine(options, client, out);
}

absl::Status RunTop(const Command& command, ClusterClient* client, std::ostream& out) {
  return Top({.interval = Milliseconds(command.interval_s), .rounds = command.rounds, .terminal = command.terminal},
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
  void (*declare)(Command*, OptionTable*) = nullptr;                   // its own options
  bool prints_json = true;                                             // with --json

  bool MayLackArgument() const { return argument.starts_with('['); }
  // With a folder a timeline needs none.
  bool AsksCluster(const Command& command) const {
    return run != nullptr && !(MayLackArgument() && !command.argument.empty());
  }
};

constexpr CommandKind kCommands[] = {
    {"status", "", "The cluster, its servers and its jobs", ShowStatus, DeclareExtent},
    {"schedulers", "", "Each scheduler that --scheduler names: whether it answers, leads, and of which cluster it is",
     ShowSchedulers},
    {"servers", "", "Reduction servers, with load and last heartbeat", ShowServers, DeclareExtent},
    {"jobs", "", "Training jobs, with the progress of their ranks and what is wrong", ShowJobs, DeclareExtent},
    {"job", "JOB", "One job: its ranks with their progress, its groups, and what is wrong", ShowJob},
    {"stragglers", "", "The ranks and servers that a job waits for, for how much of the time, and why", ShowStragglers},
    {"top", "", "Servers and jobs with their rates, every --interval seconds", RunTop, DeclareTop,
     /*prints_json=*/false},
    {"map", "", "The shard map: which server owns which share", ShowMap},
    {"events", "",
     "What happened recently and why, as far as --since, --job and --kind let it through; with --follow also what "
     "happens from now on",
     RunEvents, DeclareEvents},
    {"doctor", "",
     "Looks from this node at what a job here would need: every scheduler, every server's port, versions, clock, MTU, "
     "TCP, limits and RDMA, with --bandwidth also what the ways carry; with a fix for each finding. The exit code is 3 "
     "if there is a problem",
     RunDoctor, DeclareDoctor},
    {"drain", "SERVER",
     "Takes SERVER out of the cluster: its groups move to the other servers, no op fails, and its process ends with "
     "exit code 0. With --wait the command returns when the server has left. A server that is started again under "
     "the same name joins again",
     RunDrain, DeclareDrain},
    {"undrain", "SERVER", "Keeps SERVER, which was asked to drain and has not left yet, in the cluster", RunUndrain},
    {"evict", "SERVER",
     "Takes SERVER out at once, without its help, as if it had died; its process ends with exit code 1. Use it for a "
     "server that renews its lease but does no work",
     RunEvict},
    {"trace", "JOB",
     "Records for --seconds what JOB's ranks and servers do, and draws it on one clock for ui.perfetto.dev: each chunk "
     "from the push to its result, who came last, what waited for whom. The job goes on undisturbed",
     RunTrace, DeclareTrace, /*prints_json=*/false},
    {"verify", "JOB",
     "Compares for --seconds the results of JOB's all-reduces over all of its ranks, bit for bit. The exit code is 3 "
     "if there is a difference",
     RunVerify, DeclareVerify},
    {"abort", "JOB", "Ends JOB: its groups fail, and its ranks' ops end with an error that contains --reason", RunAbort,
     DeclareAbort},
    {"plan", "",
     "How many dedicated servers a job of --nodes with links of --link should have, by the time model; asks no cluster",
     nullptr, DeclarePlan},
    {"timeline", "[FOLDER]",
     "Draws the flight records of a failure on one clock, for ui.perfetto.dev: what ranks and servers sent to the "
     "scheduler when the last group failed, or that of --job or --group; or what they wrote to FOLDER, which asks no "
     "cluster",
     RunTimeline, DeclareTimeline, /*prints_json=*/false},
    {"completion", "SHELL", "A script with which bash or zsh completes these: source <(shoalctl completion bash)",
     nullptr, nullptr, /*prints_json=*/false},
};

std::string ExitCodes() {
  const std::pair<int, std::string_view> codes[] = {
      {kExitOk, "it has done what it was asked for"},
      {kExitFailure,
       "the scheduler can't be reached or refuses, there is nothing to draw or to compare, or the output can't be "
       "written"},
      {kExitUsage, "wrong usage, or input that can't be read"},
      {kExitProblem, "doctor found a problem, or verify a difference"}};
  std::string text = "Exit codes:\n";
  for (const auto& [code, meaning] : codes) text += WrapText(absl::StrCat("  ", code, "  ", std::string(meaning)), 5);
  return text;
}

std::string ArgumentHelp(std::string_view argument) {
  return argument == "JOB"      ? "The job, as `shoalctl jobs` lists it."
         : argument == "SERVER" ? "The server, as `shoalctl servers` lists it."
         : argument == "SHELL"  ? "bash or zsh."
                                : "A folder with flight records.";
}

// In the order of kCommands.
std::vector<OptionTable*> DeclareCommands(Command* command, OptionTable* table) {
  std::vector<OptionTable*> commands;
  for (const CommandKind& kind : kCommands) {
    OptionTable* const own = table->AddCommand(std::string(kind.name), std::string(kind.summary));
    commands.push_back(own);
    if (!kind.argument.empty()) {
      const bool required = !kind.MayLackArgument();
      const std::string_view name = required ? kind.argument : kind.argument.substr(1, kind.argument.size() - 2);
      own->Word(std::string(name), ArgumentHelp(name), required, &command->argument);
    }
    if (kind.declare != nullptr) kind.declare(command, own);
    if (kind.prints_json) DeclareJson(command, own);
    DeclareCluster(command, own);
    if (kind.run != nullptr) continue;
    // They are taken all the same, as people may have them in an alias.
    for (const char* const name : {"--scheduler", "--timeout", "--tls-cert", "--tls-key", "--tls-ca"}) own->Hide(name);
  }
  return commands;
}

// `commands`: of kCommands.
std::vector<CompletedCommand> WordsToComplete(const std::vector<OptionTable*>& commands) {
  std::vector<CompletedCommand> words;
  for (size_t i = 0; i < commands.size(); ++i) {
    words.push_back({std::string(kCommands[i].name), std::string(kCommands[i].argument), commands[i]->LongNames()});
  }
  return words;
}

absl::StatusOr<std::string> DrawFailure(const Command& command) {
  const absl::StatusOr<FlightRecords> found =
      LoadFlightRecords(command.argument, command.group == 0 ? std::nullopt : std::optional<uint64_t>(command.group));
  if (!found.ok()) return found.status();
  return Deliver(command, DrawTimeline(found->records, found->remarks));
}

// Of a command that asks no cluster: what it prints. InvalidArgument: wrong usage.
absl::StatusOr<std::string> WithoutCluster(const std::string& name, const Command& command,
                                           const std::vector<OptionTable*>& commands) {
  if (name == "completion") return CompletionScript(command.argument, WordsToComplete(commands), KindsOfSchedulers());
  if (name == "timeline") return DrawFailure(command);
  const absl::StatusOr<ServerPlan> plan = PlanServers(command.plan);
  if (!plan.ok()) return plan.status();
  return command.json ? PlanJson(*plan) + "\n" : PlanText(command.plan, *plan);
}

absl::Status CheckScheduler(const CommandKind& kind, const Command& command) {
  if (!command.scheduler.empty()) return SchedulerTarget(command.scheduler).status();
  return absl::InvalidArgumentError(
      absl::StrCat("no scheduler is given; use --scheduler HOST:PORT or set SHOAL_SCHEDULER",
                   kind.MayLackArgument() ? ", or name a folder with flight records" : ""));
}

int FailUsage(const absl::Status& status, const std::string& command, std::ostream& err) {
  err << "shoalctl: " << std::string(status.message()) << "\n`shoalctl " << command << (command.empty() ? "" : " ")
      << "--help` explains what it takes.\n";
  return kExitUsage;
}

// What RunShoalctl does, but for looking whether the output could be written. `terminal`: what `out` writes to, if that
// is a terminal, for what it is to obey; else null.
int RunCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
               std::ostream* terminal) {
  Command command;
  command.to_terminal = terminal != nullptr;
  command.terminal = terminal;
  command.err = &err;
  OptionTable options("shoalctl", "Shows what a Shoal cluster is doing, as its scheduler knows it, and changes it.",
                      ExitCodes());
  const std::vector<OptionTable*> commands = DeclareCommands(&command, &options);
  if (const absl::Status status = options.Parse(arguments); !status.ok()) {
    return FailUsage(status, options.command(), err);
  }
  if (!options.answer().empty()) {
    out << options.answer();
    return kExitOk;
  }
  const std::string name = options.command();
  const CommandKind& kind = *std::ranges::find(kCommands, name, &CommandKind::name);
  if (!kind.AsksCluster(command)) {
    const absl::StatusOr<std::string> text = WithoutCluster(name, command, commands);
    if (!text.ok()) {
      err << "shoalctl: " << std::string(text.status().message()) << "\n";
      return absl::IsInvalidArgument(text.status()) ? kExitUsage : kExitFailure;
    }
    out << *text;
    return kExitOk;
  }
  if (const absl::Status status = CheckScheduler(kind, command); !status.ok()) return FailUsage(status, name, err);
  const absl::StatusOr<Credentials> credentials =
      Credentials::Load(command.credential_files, [&err](const Credentials::News& news) {
        if (news.is_warning) err << absl::StrCat("shoalctl: ", news.text, "\n");
      });
  if (!credentials.ok()) {
    err << "shoalctl: " << std::string(credentials.status().message()) << "\n";
    return absl::IsInvalidArgument(credentials.status()) ? kExitUsage : kExitFailure;
  }
  command.credentials = *credentials;
  ClusterClient client(command.scheduler, static_cast<uint64_t>(Milliseconds(command.timeout_s).count()), *credentials);
  const absl::Status status = kind.run(command, &client, out);
  if (status.ok()) return kExitOk;
  err << "shoalctl: " << std::string(status.message()) << "\n";
  const bool found_problem =
      (name == "doctor" && absl::IsFailedPrecondition(status)) || (name == "verify" && absl::IsDataLoss(status));
  return found_problem ? kExitProblem : kExitFailure;
}

}  // namespace

int RunShoalctl(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err, bool out_is_terminal) {
  PrintableBuffer of_out(out.rdbuf());
  PrintableBuffer of_err(err.rdbuf());
  std::ostream shown(&of_out);
  std::ostream errors(&of_err);
  errors << std::unitbuf;
  const int exit_code = RunCommand(arguments, shown, errors, out_is_terminal ? &out : nullptr);
  shown.flush();
  const bool has_failed = exit_code == kExitFailure || exit_code == kExitUsage;
  if (shown.good() || has_failed) return exit_code;
  errors << "shoalctl: the output could not be written: a full disk, or the reader has gone\n";
  return kExitFailure;
}

}  // namespace shoal::cli
