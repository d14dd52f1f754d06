// When a stream of a CUDA device has got to where it is now. Torch's device interface has a wait for that, but it keeps
// a core busy; CUDA's driver tells it by a callback.
//
// Threads: any.
#ifndef SHOAL_PYTORCH_SRC_STREAM_END_H_
#define SHOAL_PYTORCH_SRC_STREAM_END_H_

#include <future>

namespace shoal::pytorch {

// As in CUDA's driver. The callback must not call the driver.
using StreamCallback = void (*)(void* stream, int result, void* user_data);
using AddStreamCallback = int (*)(void* stream, StreamCallback callback, void* user_data, unsigned flags);

// Is ready when what is in `stream` now is done (0), or its device has failed (the driver's number of the error). The
// stream's device has to be current. Not valid where there is no driver to ask (it is libcuda.so.1, or the library that
// SHOAL_CUDA_LIBRARY names, and loaded at the first call), or where it refuses: wait in another way then.
std::future<int> EndOfStream(void* stream);

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_STREAM_END_H_
