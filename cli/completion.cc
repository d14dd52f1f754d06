#include "cli/completion.h"

#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace shoal::cli {
namespace {

// Names are in the first column of a table, states in the second. compgen expands its words as a command line is, and a
// job's name is whatever who started it wrote: only names that no shell takes for anything else are offered. The line
// is searched for the scheduler because bash takes an address for several words.
constexpr char kScript[] = R"bash(_shoalctl_names() {
  local scheduler=$(sed -nE 's/.* --scheduler[= ] *([^ ]+) .*/\1/p' <<< "$COMP_LINE")
  SHOAL_SCHEDULER=${scheduler:-$SHOAL_SCHEDULER} shoalctl "$1" --wide --timeout 1 2> /dev/null |
    awk '$2 ~ /^(live|draining|lost|left|joining|running|ended|failed)$/ &&
         $1 ~ /^[A-Za-z0-9_][A-Za-z0-9_.:@%+,=\/-]*$/ { print $1 }'
}
_shoalctl() {
  local word=${COMP_WORDS[COMP_CWORD]} command= each
  for each in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case " COMMANDS " in *" $each "*) command=$each ;; esac
  done
  case $word in
    -*)
      case $command in
OPTION_CASES
      esac
      return
      ;;
  esac
  case ${COMP_WORDS[$((COMP_CWORD - 1))]} in
    --job) COMPREPLY=($(compgen -W "$(_shoalctl_names jobs)" -- "$word")); return ;;
    --kind) COMPREPLY=($(compgen -W "EVENT_KINDS" -- "$word")); return ;;
    -o | --output) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  case $command in
    "") COMPREPLY=($(compgen -W "COMMANDS" -- "$word")) ;;
    SERVER_CASE) COMPREPLY=($(compgen -W "$(_shoalctl_names servers)" -- "$word")) ;;
    JOB_CASE) COMPREPLY=($(compgen -W "$(_shoalctl_names jobs)" -- "$word")) ;;
    completion) COMPREPLY=($(compgen -W "bash zsh" -- "$word")) ;;
    timeline) COMPREPLY=($(compgen -d -- "$word")) ;;
    *) COMPREPLY=() ;;
  esac
}
complete -o filenames -F _shoalctl shoalctl
)bash";

constexpr char kForZsh[] =
    "(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }\n"
    "autoload -U +X bashcompinit && bashcompinit\n";

}  // namespace

absl::StatusOr<std::string> CompletionScript(const std::string& shell, const std::vector<CompletedCommand>& commands,
                                             const std::vector<std::string>& event_kinds) {
  if (shell != "bash" && shell != "zsh") {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no completion for the shell \"", shell, "\"; use bash or zsh"));
  }
  std::vector<std::string> names;
  std::vector<std::string> of_servers;
  std::vector<std::string> of_jobs;
  std::vector<std::string> cases;
  std::set<std::string> all_options;
  const auto offer = [](const std::string& command, const auto& options) {
    return absl::StrCat("        ", command, ") COMPREPLY=($(compgen -W \"", absl::StrJoin(options, " "),
                        "\" -- \"$word\")) ;;");
  };
  for (const CompletedCommand& command : commands) {
    names.push_back(command.name);
    if (command.argument == "SERVER") of_servers.push_back(command.name);
    if (command.argument == "JOB") of_jobs.push_back(command.name);
    cases.push_back(offer(command.name, command.options));
    all_options.insert(command.options.begin(), command.options.end());
  }
  cases.push_back(offer("\"\"", all_options));
  const std::string script = absl::StrReplaceAll(kScript, {{"SERVER_CASE", absl::StrJoin(of_servers, "|")},
                                                           {"JOB_CASE", absl::StrJoin(of_jobs, "|")},
                                                           {"COMMANDS", absl::StrJoin(names, " ")},
                                                           {"OPTION_CASES", absl::StrJoin(cases, "\n")},
                                                           {"EVENT_KINDS", absl::StrJoin(event_kinds, " ")}});
  return shell == "zsh" ? kForZsh + script : script;
}

}  // namespace shoal::cli
