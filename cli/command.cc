#include "cli/command.h"

#include "cli/events.h"
#include "cli/trace.h"

namespace shoal::cli {
namespace {

constexpr double kMostSeconds = 86400;

void DeclareSeconds(Command* command, OptionTable* table) {
  table->Double("seconds", "", "S", "How long to record.", &command->seconds, 0.001, kMostTraceSeconds);
}

void DeclareOutput(Command* command, OptionTable* table) {
  table->String("output,o", "", "FILE", "The file to write instead of standard output.", &command->output);
}

}  // namespace

void DeclareExtent(Command* command, OptionTable* table) {
  table->Flag("all,a", "", "Also what has been gone for more than an hour.", &command->all);
  table->Flag("wide,w", "", "All columns, and whole names.", &command->wide);
}

void DeclareTop(Command* command, OptionTable* table) {
  table->Double("interval", "", "S", "Seconds between updates.", &command->interval_s, 0.1, kMostSeconds);
  table->Uint64("rounds", "", "N", "Stop after N updates; 0: continue until it is interrupted.", &command->rounds);
}

void DeclareEvents(Command* command, OptionTable* table) {
  table->Flag("follow,f", "", "Continue to print events as they happen.", &command->follow);
  table->Value("since", "", "TIME", "Only those of the last 90s, 15m, 2h or 1d.", "",
               [command](const std::string& text) {
                 if (text.empty()) return absl::OkStatus();
                 const absl::StatusOr<uint64_t> age_ms = ParseAge(text);
                 if (age_ms.ok()) command->since_ms = *age_ms;
                 return age_ms.status();
               });
  table->String("job", "", "JOB", "Only those that name this job.", &command->job);
  table->Value("kind", "", "KIND[,...]", "Only those of these kinds, such as rank-lost,job-failed.", "",
               [command](const std::string& text) {
                 absl::StatusOr<std::set<std::string>> kinds = ParseEventKinds(text);
                 if (kinds.ok()) command->kinds = *std::move(kinds);
                 return kinds.status();
               });
}

void DeclareDoctor(Command* command, OptionTable* table) {
  table->Flag("bandwidth", "",
              "Also send to one server after the other for half a second, as fast as it goes. Jobs on the same links "
              "feel it.",
              &command->bandwidth);
  table->String("net-device", "SHOAL_NET_DEVICE", "DEVICE", "With --bandwidth: as for ranks on this node.",
                &command->data_plane.net_device);
  table->String("transports", "SHOAL_TRANSPORTS", "LIST", "With --bandwidth: as for ranks on this node.",
                &command->data_plane.transports);
}

void DeclareDrain(Command* command, OptionTable* table) {
  table->Flag("wait", "", "Return when the server has left.", &command->wait);
  table->Double("deadline", "", "S", "With --wait: how long to wait for the server to leave.", &command->deadline_s, 0,
                kMostSeconds);
  table->Needs("--deadline", "--wait");
}

void DeclareTrace(Command* command, OptionTable* table) {
  DeclareSeconds(command, table);
  DeclareOutput(command, table);
}

void DeclareVerify(Command* command, OptionTable* table) { DeclareSeconds(command, table); }

void DeclareAbort(Command* command, OptionTable* table) {
  table->String("reason", "", "TEXT", "The reason, which the job's ranks and the events show.", &command->reason);
}

void DeclarePlan(Command* command, OptionTable* table) {
  PlanOptions* const plan = &command->plan;
  table->Uint32("nodes", "", "N", "Nodes of the job.", &plan->nodes);
  table->Uint32("ranks", "", "N", "Ranks of a node, which reduce among themselves first.", &plan->ranks);
  table->Double("link", "", "GBIT", "Rate of a node's link in Gbit/s, each way.", &plan->link_gbit);
  table->Double("node-link", "", "GBIT",
                "Rate in Gbit/s, each way, at which a rank reaches the others of its node. 0: that takes no time.",
                &plan->node_link_gbit);
  table->Bytes("bytes", "", "Size of an all-reduce, as it is sent.", &plan->bytes);
  table->Double("round-trip", "", "US", "Round trip to a server in microseconds.", &plan->round_trip_us);
  table->Double("message", "", "US", "What a message costs beyond its bytes, as `shoal-perf --explain` has it.",
                &plan->message_us);
  table->Bytes("port-buffer", "", "What switch ports hold, as the scheduler is told. 0: not known.",
               &plan->port_buffer_bytes);
}

void DeclareTimeline(Command* command, OptionTable* table) {
  table->String("job", "", "JOB", "The job whose newest failure to draw; otherwise that of any job.", &command->job);
  table->Excludes("--job", "FOLDER");
  table->Uint64("group", "", "GROUP", "The group whose failure to draw. 0: the one that failed last.", &command->group);
  DeclareOutput(command, table);
}

void DeclareCluster(Command* command, OptionTable* table) {
  table->String("scheduler", "SHOAL_SCHEDULER", "HOST:PORT",
                "Address of the scheduler, or of several as IP:PORT,IP:PORT.", &command->scheduler);
  table->Double("timeout", "", "S", "How long to wait for the scheduler, and with doctor for servers.",
                &command->timeout_s, 0.001, kMostSeconds);
  DeclareCredentialOptions(&command->credential_files, table);
}

void DeclareJson(Command* command, OptionTable* table) {
  table->Flag("json", "",
              "Print JSON instead of tables, with the field names of proto/shoal/v1/*.proto where they fit.",
              &command->json);
}

}  // namespace shoal::cli
