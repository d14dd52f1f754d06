#include "tests/simulated_nccl/driver.h"

#include <dlfcn.h>

#include <string>

#include "tests/simulated_nccl/meeting.h"

namespace shoal::simulated_nccl {
namespace {

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) End(std::string("the simulated driver has no function ") + name);
}

Driver Load() {
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&Driver::Get), &own) == 0) End("it does not find itself");
  const std::string path = own.dli_fname;
  const std::string library = path.substr(0, path.rfind('/') + 1) + "libsimulated_cuda.so";
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) End("the program has not loaded " + library);
  Driver driver = {};
  Find(handle, "simulated_cuda_run", &driver.run);
  Find(handle, "simulated_cuda_in_kernels", &driver.in_kernels);
  Find(handle, "cuCtxPushCurrent_v2", &driver.context_push);
  Find(handle, "cuCtxPopCurrent_v2", &driver.context_pop);
  return driver;
}

}  // namespace

const Driver& Driver::Get() {
  static const Driver driver = Load();
  return driver;
}

void* Driver::CurrentContext() const {
  void* context = nullptr;
  if (context_pop(&context) != 0) return nullptr;
  context_push(context);
  return context;
}

}  // namespace shoal::simulated_nccl
