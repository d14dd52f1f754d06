// A server's refusal as an error for callers. Pure.
#ifndef SHOAL_WORKER_MACHINE_REFUSAL_ERROR_H_
#define SHOAL_WORKER_MACHINE_REFUSAL_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "core/frame.h"

namespace shoal {

// "SERVER refused WHAT (reason): text"; the code follows from the reason. Never OK.
absl::Status RefusalError(const std::string& server, const std::string& what, Refusal refusal, const std::string& text);

}  // namespace shoal

#endif  // SHOAL_WORKER_MACHINE_REFUSAL_ERROR_H_
