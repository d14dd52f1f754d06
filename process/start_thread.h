// Starting a thread in a process that may belong to another program (libshoal.so in a training process).
#ifndef SHOAL_PROCESS_START_THREAD_H_
#define SHOAL_PROCESS_START_THREAD_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace shoal {

// The thread blocks all signals, which belong to the program. `name` (at most 15 characters) is what top and gdb show.
// ResourceExhausted: the process can't have another thread.
absl::StatusOr<std::thread> StartThread(const std::string& name, std::function<void()> body);

}  // namespace shoal

#endif  // SHOAL_PROCESS_START_THREAD_H_
