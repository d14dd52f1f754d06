// A text to a file, which it replaces. Any thread; may block.
#ifndef SHOAL_PROCESS_WRITE_FILE_H_
#define SHOAL_PROCESS_WRITE_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

// Unavailable: it can't be written, with the reason.
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace shoal

#endif  // SHOAL_PROCESS_WRITE_FILE_H_
