#include "pytorch/src/shoal_library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <memory>

#include "process/mutex.h"

namespace shoal::pytorch {
namespace {

// UCX reads these when it is loaded. Inside a Python process it must not replace signal handlers, and must not patch
// mmap and munmap under torch's allocator.
void SetUcxDefaults() {
  setenv("UCX_ERROR_SIGNALS", "", 0);
  setenv("UCX_HANDLE_ERRORS", "none", 0);
  setenv("UCX_MEM_EVENTS", "n", 0);
  setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 0);
}

template <typename Function>
void Resolve(void* handle, const char* name, const std::string& path, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) {
    throw ShoalError(SHOAL_FAILED_PRECONDITION, path + " has no function " + name +
                                                    ", because it has another version than this Python package. "
                                                    "Install both from one source.");
  }
}

}  // namespace

void ShoalLibrary::Check(shoal_code code, const shoal_error& error, const std::string& what) const {
  if (code != SHOAL_OK) throw ShoalError(code, what + ": " + shoal_code_name(code) + ": " + error.message);
}

const ShoalLibrary& LoadShoalLibrary(const std::string& path) {
  static Mutex mutex;
  static ShoalLibrary* library = nullptr;  // leaked on purpose: its threads may outlive static destructors
  MutexLock lock(mutex);
  if (library != nullptr) {
    if (library->path == path) return *library;
    throw ShoalError(SHOAL_FAILED_PRECONDITION,
                     "the library is already loaded from " + library->path + " and can't be replaced by " + path);
  }
  SetUcxDefaults();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw ShoalError(SHOAL_NOT_FOUND, std::string("can't load Shoal's worker library: ") + dlerror() +
                                          ". Set SHOAL_LIBRARY to the path of libshoal.so.");
  }
  auto loaded = std::make_unique<ShoalLibrary>();
  loaded->path = path;
#define SHOAL_RESOLVE_FUNCTION(name) Resolve(handle, #name, path, loaded->name);
  SHOAL_LIBRARY_FUNCTIONS(SHOAL_RESOLVE_FUNCTION)
#undef SHOAL_RESOLVE_FUNCTION
  if (loaded->shoal_abi_version() != SHOAL_ABI_VERSION) {
    throw ShoalError(SHOAL_FAILED_PRECONDITION,
                     path + " has ABI version " + std::to_string(loaded->shoal_abi_version()) + ", this package " +
                         std::to_string(SHOAL_ABI_VERSION) + "; install both from one source");
  }
  library = loaded.release();
  return *library;
}

}  // namespace shoal::pytorch
