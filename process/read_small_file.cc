#include "process/read_small_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "process/file_descriptor.h"
#include "process/read_all.h"

namespace shoal {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

}  // namespace

absl::Status WrongFile(absl::string_view option, const std::string& path, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("the file ", path, " (", option, ") ", what));
}

absl::StatusOr<std::string> ReadSmallFile(absl::string_view option, const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  const int error = file.valid() ? ReadAll(file.get(), kMaxBytes, &text) : errno;
  if (error == 0) return text;
  if (error == EFBIG) return WrongFile(option, path, "is larger than 1 MiB, which is too much");
  return WrongFile(option, path, absl::StrCat("can't be read: ", std::strerror(error)));
}

}  // namespace shoal
