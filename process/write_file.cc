#include "process/write_file.h"

#include <fcntl.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "process/write_all.h"

namespace shoal {

absl::Status WriteFile(const std::string& path, const std::string& text) {
  const int error = WriteAndClose(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), text);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("can't write ", path, ": ", std::strerror(error),
                                             "; check that its folder exists, is writable and has room"));
}

}  // namespace shoal
