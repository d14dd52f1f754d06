// The command line as a function, so that tests run the real thing.
#ifndef SHOAL_CLI_SHOALCTL_H_
#define SHOAL_CLI_SHOALCTL_H_

#include <ostream>
#include <string>
#include <vector>

#include "core/option_table.h"

namespace shoal::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // the scheduler can't be reached or says no
inline constexpr int kExitUsage = 2;

// `arguments` without the program's name. Returns the exit code; results go to `out`, errors to `err`. Waits for the
// scheduler, at most --timeout; `events --follow` until the scheduler ends it or `out` fails;
// `drain --wait` until the server has left, at most --deadline.
int RunShoalctl(const std::vector<std::string>& arguments, const OptionTable::EnvironmentLookup& lookup,
                std::ostream& out, std::ostream& err);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_SHOALCTL_H_
