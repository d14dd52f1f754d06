#include "pytorch/src/stream_end.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <memory>

namespace shoal::pytorch {
namespace {

// As in CUDA's driver API. The callback must not call the driver.
using Callback = void (*)(void* stream, int result, void* user_data);
using AddCallback = int (*)(void* stream, Callback callback, void* user_data, unsigned flags);

AddCallback FindAddCallback() {
  const char* const library = getenv("SHOAL_CUDA_LIBRARY");
  void* const driver = dlopen(library == nullptr ? "libcuda.so.1" : library, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return nullptr;
  return reinterpret_cast<AddCallback>(dlsym(driver, "cuStreamAddCallback"));
}

void OnEnd(void* /*stream*/, int /*result*/, void* user_data) {
  const std::unique_ptr<std::promise<void>> end(static_cast<std::promise<void>*>(user_data));
  end->set_value();
}

}  // namespace

std::future<void> EndOfStream(void* stream) {
  static const AddCallback add_callback = FindAddCallback();
  if (add_callback == nullptr) return {};
  auto end = std::make_unique<std::promise<void>>();
  std::future<void> reached = end->get_future();
  if (add_callback(stream, &OnEnd, end.get(), 0) != 0) return {};
  [[maybe_unused]] const auto* const of_callback = end.release();
  return reached;
}

}  // namespace shoal::pytorch
