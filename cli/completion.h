// `shoalctl completion SHELL`: a script that lets bash or zsh complete shoalctl's command lines. Pure; any thread.
#ifndef SHOAL_CLI_COMPLETION_H_
#define SHOAL_CLI_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal::cli {

struct CompletedCommand {
  std::string name;
  std::string argument;              // what it takes the name of: "SERVER", "JOB", another or nothing
  std::vector<std::string> options;  // "--json"
};

// The script, to be read by the shell (`source <(shoalctl completion bash)`). It asks the cluster of
// --scheduler, if the command line has it, or of SHOAL_SCHEDULER for names, for a second at most. InvalidArgument: the
// shell is neither bash nor zsh.
absl::StatusOr<std::string> CompletionScript(const std::string& shell, const std::vector<CompletedCommand>& commands,
                                             const std::vector<std::string>& event_kinds);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_COMPLETION_H_
