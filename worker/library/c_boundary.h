// What every public C function does at the boundary: errors become shoal_error, exceptions stop here, arguments are
// checked for what C can't say.
#ifndef SHOAL_WORKER_LIBRARY_C_BOUNDARY_H_
#define SHOAL_WORKER_LIBRARY_C_BOUNDARY_H_

#include <cstddef>
#include <exception>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "process/credential_files.h"
#include "shoal/worker.h"
#include "worker/library/fork_guard.h"

namespace shoal {

// Writes `status` to `error` (which may be NULL) and returns its code. Never throws.
shoal_code Report(const absl::Status& status, shoal_error* error) noexcept;

// OK, or FailedPrecondition in a child of the process that made the handles.
absl::Status CheckNotForked();

// The text of a C string argument. InvalidArgument: NULL, empty, or longer than `max_bytes`.
absl::StatusOr<std::string> RequiredText(const char* text, const char* what, size_t max_bytes);

// A NULL or empty string means `otherwise`.
std::string OptionalText(const char* text, const std::string& otherwise);

// Of any of the options that have these.
template <typename Options>
CredentialFiles CredentialFilesOf(const Options& options) {
  CredentialFiles files = {.certificate = OptionalText(options.tls_cert, ""),
                           .key = OptionalText(options.tls_key, ""),
                           .authorities = OptionalText(options.tls_ca, "")};
  files.are_texts = absl::StartsWith(files.authorities, "-----BEGIN ");
  return files;
}

// InvalidArgument: NULL.
absl::Status CheckNotNull(const void* pointer, const char* name);

// Runs `body` (which returns absl::Status) and reports how it ended.
template <typename Body>
shoal_code Guarded(shoal_error* error, Body body) noexcept {
  try {
    absl::Status status = CheckNotForked();
    if (status.ok()) status = body();
    return Report(status, error);
  } catch (const std::bad_alloc&) {
    return Report(absl::ResourceExhaustedError("out of memory"), error);
  } catch (const std::exception& exception) {
    return Report(absl::InternalError(exception.what()), error);
  } catch (...) {
    return Report(absl::InternalError("unknown exception"), error);
  }
}

}  // namespace shoal

#endif  // SHOAL_WORKER_LIBRARY_C_BOUNDARY_H_
