// The command line as a function, so that tests run the real thing.
#ifndef SHOAL_CLI_SHOALCTL_H_
#define SHOAL_CLI_SHOALCTL_H_

#include <ostream>
#include <string>
#include <vector>

namespace shoal::cli {

// What they mean is in the help (ExitCodes in shoalctl.cc).
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitProblem = 3;

// `arguments` come without the program's name. Returns the exit code; results go to `out`, errors to `err`. Waits for
// the scheduler for --timeout at most. `events --follow` and `top` run until the scheduler ends the stream or `out`
// fails, `drain --wait` until the server has left, for --deadline at most. On a terminal `top` begins anew at its top
// left corner each time.
int RunShoalctl(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                bool out_is_terminal = false);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_SHOALCTL_H_
