// The command line of shoalctl: its options, and which of them go together.
#ifndef SHOAL_CLI_COMMAND_H_
#define SHOAL_CLI_COMMAND_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/bandwidth.h"
#include "cli/plan.h"
#include "program/option_table.h"

namespace shoal::cli {

struct Command {
  std::string name;
  std::string argument;  // of the command
  std::string scheduler;
  double timeout_s = 5;
  bool json = false;
  bool all = false;
  bool wide = false;
  bool follow = false;
  std::string since;
  std::string job;    // of events and timeline
  std::string kinds;  // of events
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
  std::ostream* err = nullptr;
  bool help = false;
  bool version = false;
};

// Declares the options in `table`, with the values in `command` as defaults; both must outlive the table's use.
void DeclareOptions(Command* command, OptionTable* table);

// The long names of the options that go with this command and not with all.
std::vector<std::string> OptionsOf(std::string_view command);

// Whether --json goes with this command.
bool PrintsJson(std::string_view command);

// Of a command whose name is known, and the table that its options were parsed with. InvalidArgument names an option
// that does not go with it, or its wrong value.
absl::Status CheckOptions(const Command& command, const OptionTable& table);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_COMMAND_H_
