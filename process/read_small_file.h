// Reading a file that an option names, as a whole.
#ifndef SHOAL_PROCESS_READ_SMALL_FILE_H_
#define SHOAL_PROCESS_READ_SMALL_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Of what an option names: "the file PATH (OPTION) WHAT".
absl::Status WrongFile(absl::string_view option, const std::string& path, absl::string_view what);

// Any thread; blocks. FailedPrecondition names the option and the file: it can't be read, or is larger than 1 MiB.
absl::StatusOr<std::string> ReadSmallFile(absl::string_view option, const std::string& path);

}  // namespace shoal

#endif  // SHOAL_PROCESS_READ_SMALL_FILE_H_
