// How many files, sockets among them, this process may have open. Any thread.
#ifndef SHOAL_PROCESS_OPEN_FILES_H_
#define SHOAL_PROCESS_OPEN_FILES_H_

#include <cstdint>

#include "absl/status/status.h"

namespace shoal {

// A scheduler, a server or a worker wants so many at its start: where they run out, UCX and gRPC may end the process.
inline constexpr uint64_t kFilesToStart = 48;

// From now on this process may have as many open as it may allow itself, 1048576 at most. For programs of our own: in
// a user's process the limit is the user's.
void RaiseOpenFileLimit();

// ResourceExhausted: it can't open so many more. The text says how many it may have and has open, and what to do.
absl::Status CheckFilesLeft(uint64_t wanted);

}  // namespace shoal

#endif  // SHOAL_PROCESS_OPEN_FILES_H_
