#include "pytorch/src/stream_end.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <memory>

namespace shoal::pytorch {
namespace {

AddStreamCallback FindAddCallback() {
  const char* const library = getenv("SHOAL_CUDA_LIBRARY");
  void* const driver = dlopen(library == nullptr ? "libcuda.so.1" : library, RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return nullptr;
  return reinterpret_cast<AddStreamCallback>(dlsym(driver, "cuStreamAddCallback"));
}

void OnEnd(void* /*stream*/, int result, void* user_data) {
  const std::unique_ptr<std::promise<int>> end(static_cast<std::promise<int>*>(user_data));
  end->set_value(result);
}

}  // namespace

std::future<int> EndOfStream(void* stream) {
  static const AddStreamCallback add_callback = FindAddCallback();
  if (add_callback == nullptr) return {};
  auto end = std::make_unique<std::promise<int>>();
  std::future<int> reached = end->get_future();
  if (add_callback(stream, &OnEnd, end.get(), 0) != 0) return {};
  [[maybe_unused]] const auto* const of_callback = end.release();
  return reached;
}

}  // namespace shoal::pytorch
