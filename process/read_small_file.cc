#include "process/read_small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "process/file_descriptor.h"

namespace shoal {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

absl::Status Wrong(absl::string_view option, const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("the file ", path, " (", option, ") ", what));
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(absl::string_view option, const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  while (text.size() <= kMaxBytes) {
    char bytes[4096];
    const ssize_t count = file.valid() ? read(file.get(), bytes, sizeof(bytes)) : -1;
    if (count == 0) return text;
    if (count > 0) text.append(bytes, static_cast<size_t>(count));
    if (count < 0 && errno != EINTR) return Wrong(option, path, absl::StrCat("can't be read: ", std::strerror(errno)));
  }
  return Wrong(option, path, "is larger than 1 MiB, which is too much");
}

}  // namespace shoal
