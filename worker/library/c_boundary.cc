#include "worker/library/c_boundary.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace shoal {

shoal_code Report(const absl::Status& status, shoal_error* error) noexcept {
  const auto code = static_cast<shoal_code>(status.code());
  if (error == nullptr) return code;
  error->code = code;
  const absl::string_view text = status.message();
  size_t size = std::min(text.size(), sizeof(error->message) - 1);
  // A cut goes before a character of several bytes, never through it.
  while (size < text.size() && size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  if (size > 0) std::memcpy(error->message, text.data(), size);
  error->message[size] = '\0';
  return code;
}

absl::Status CheckNotForked() {
  if (!IsMarkedChild()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this process was forked from one that uses Shoal; use it in the parent, or start a process by exec");
}

absl::StatusOr<std::string> RequiredText(const char* text, const char* what, size_t max_bytes) {
  if (text == nullptr) return absl::InvalidArgumentError(absl::StrCat(what, " is NULL"));
  const size_t size = strnlen(text, max_bytes + 1);
  if (size == 0) return absl::InvalidArgumentError(absl::StrCat(what, " is empty"));
  if (size > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has more than ", max_bytes, " characters"));
  }
  return std::string(text, size);
}

std::string OptionalText(const char* text, const std::string& otherwise) {
  return text == nullptr || *text == '\0' ? otherwise : std::string(text);
}

absl::Status CheckNotNull(const void* pointer, const char* name) {
  return pointer == nullptr ? absl::InvalidArgumentError(absl::StrCat(name, " is NULL")) : absl::OkStatus();
}

}  // namespace shoal
