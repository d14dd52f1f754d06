// When a stream of a CUDA device has got to where it is now. Torch's device interface has a wait for that, but it keeps
// a core busy; CUDA's driver tells it by a callback.
//
// Threads: any.
#ifndef SHOAL_PYTORCH_SRC_STREAM_END_H_
#define SHOAL_PYTORCH_SRC_STREAM_END_H_

#include <future>

namespace shoal::pytorch {

// Is ready when what is in `stream` now is done, or its device has failed: ask it for its error then. The stream's
// device has to be current. Not valid where no driver can be asked: it is libcuda.so.1, or the library that
// SHOAL_CUDA_LIBRARY names, and loaded at the first call.
std::future<void> EndOfStream(void* stream);

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_STREAM_END_H_
