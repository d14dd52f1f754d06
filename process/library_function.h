// The functions of a library that is loaded while the program runs: CUDA's driver, NCCL and UCX, of which a machine may
// have none. Thread-safe.
#ifndef SHOAL_PROCESS_LIBRARY_FUNCTION_H_
#define SHOAL_PROCESS_LIBRARY_FUNCTION_H_

#include <dlfcn.h>

#include <string>

namespace shoal {

// Whether the library, a handle of dlopen's, has a function of this name. Where it has none, `*missing` is the name and
// `*function` is nullptr. The caller answers for the function's type.
template <typename Function>
bool FindFunction(void* library, const char* name, Function* function, std::string* missing) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) *missing = name;
  return *function != nullptr;
}

}  // namespace shoal

#endif  // SHOAL_PROCESS_LIBRARY_FUNCTION_H_
