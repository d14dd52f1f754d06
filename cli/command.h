// The command line of shoalctl: what its commands take.
#ifndef SHOAL_CLI_COMMAND_H_
#define SHOAL_CLI_COMMAND_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <set>
#include <string>

#include "cli/bandwidth.h"
#include "cli/plan.h"
#include "process/credential_files.h"
#include "program/option_table.h"
#include "proto/credentials.h"

namespace shoal::cli {

struct Command {
  std::string argument;  // of the command
  std::string scheduler;
  CredentialFiles credential_files;
  Credentials credentials;  // of these
  double timeout_s = 5;
  bool json = false;
  bool all = false;
  bool wide = false;
  bool follow = false;
  std::optional<uint64_t> since_ms;
  std::string job;              // of events and timeline
  std::set<std::string> kinds;  // of events
  bool wait = false;
  double deadline_s = 300;
  std::string reason;
  PlanOptions plan;
  uint64_t group = 0;
  std::string output;
  double seconds = 2;
  double interval_s = 2;
  uint64_t rounds = 0;
  bool bandwidth = false;
  DataPlane data_plane;
  bool to_terminal = false;
  std::ostream* terminal = nullptr;  // not null with to_terminal: for what it is to obey (cli/printable_buffer.h)
  std::ostream* err = nullptr;
};

// Declares the options that go with some commands alone, with the values in `command` as defaults; both must outlive
// the table's use.
void DeclareExtent(Command* command, OptionTable* table);  // of tables
void DeclareTop(Command* command, OptionTable* table);
void DeclareEvents(Command* command, OptionTable* table);
void DeclareDoctor(Command* command, OptionTable* table);
void DeclareDrain(Command* command, OptionTable* table);
void DeclareTrace(Command* command, OptionTable* table);
void DeclareVerify(Command* command, OptionTable* table);
void DeclareAbort(Command* command, OptionTable* table);
void DeclarePlan(Command* command, OptionTable* table);
void DeclareTimeline(Command* command, OptionTable* table);

// And those that go with all that ask a cluster, and with all that print JSON when they are asked to.
void DeclareCluster(Command* command, OptionTable* table);
void DeclareJson(Command* command, OptionTable* table);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_COMMAND_H_
