#include "net/ucx/ucx_status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "process/open_files.h"

namespace shoal {
namespace {

constexpr uint64_t kFilesOfOneConnection = 8;

}  // namespace

absl::Status StatusFromUcs(const UcxApi& api, ucs_status_t status, const std::string& what) {
  std::string text = absl::StrCat(what, ": ", api.ucs_status_string(status));
  // UCX says what failed, not why: a socket that can't be opened is an "Input/output error".
  if (status == UCS_ERR_IO_ERROR || status == UCS_ERR_NO_MEMORY || status == UCS_ERR_NO_RESOURCE) {
    if (const absl::Status left = CheckFilesLeft(kFilesOfOneConnection); !left.ok()) {
      absl::StrAppend(&text, ", perhaps because ", left.message());
    }
  }
  switch (status) {
    case UCS_OK:
      return absl::OkStatus();
    case UCS_ERR_CANCELED:
      return absl::CancelledError(text);
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return absl::ResourceExhaustedError(text);
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_IO_ERROR:
      return absl::UnavailableError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace shoal
