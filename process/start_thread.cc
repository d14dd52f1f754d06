#include "process/start_thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {

absl::StatusOr<std::thread> StartThread(const std::string& name, std::function<void()> body) {
  // The thread inherits the mask, so there is no moment in which it takes a signal.
  sigset_t all_signals;
  sigset_t mask_before;
  sigfillset(&all_signals);
  pthread_sigmask(SIG_SETMASK, &all_signals, &mask_before);
  std::thread thread;
  absl::Status status;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("can't start thread ", name, " (", error.what(), "); raise the limit of threads (ulimit -u)"));
  }
  pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  if (!status.ok()) return status;
  pthread_setname_np(thread.native_handle(), name.c_str());
  return thread;
}

}  // namespace shoal
