// `shoalctl completion SHELL`: a script that lets bash or zsh complete shoalctl's command lines. Pure; any thread.
#ifndef SHOAL_CLI_COMPLETION_H_
#define SHOAL_CLI_COMPLETION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal::cli {

struct CompletionWords {
  std::vector<std::string> commands;
  std::vector<std::string> server_commands;  // those of them that take the name of a server
  std::vector<std::string> job_commands;     // and of a job
  std::vector<std::string> options;          // "--json"
  std::vector<std::string> event_kinds;      // "rank-lost"
};

// The script, to be read by the shell (`source <(shoalctl completion bash)`). It asks the cluster of
// --scheduler, if the command line has it, or of SHOAL_SCHEDULER for names, for a second at most. InvalidArgument: the
// shell is neither bash nor zsh.
absl::StatusOr<std::string> CompletionScript(const std::string& shell, const CompletionWords& words);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_COMPLETION_H_
