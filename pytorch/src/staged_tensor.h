// One tensor of an all-reduce, and the contiguous memory that stands for it while it is reduced.
//
// A contiguous tensor stands for itself. Another one is copied, and copied back: on a device in the caller's current
// stream, and back in `return_stream`, behind the result. What follows the copy back of a CUDA tensor has to be ordered
// after it by stream. No CUDA library is linked: it all goes through c10's device guard interface, which libtorch_cuda
// registers.
//
// Threads: Stage on the caller's thread, then CopyBack on any one thread at a time. Both may throw c10::Error (no
// memory, a device error).
#ifndef SHOAL_PYTORCH_SRC_STAGED_TENSOR_H_
#define SHOAL_PYTORCH_SRC_STAGED_TENSOR_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

namespace shoal::pytorch {

class StagedTensor {
 public:
  // `return_stream`: of a tensor on a device.
  static StagedTensor Stage(const at::Tensor& tensor, const std::optional<c10::Stream>& return_stream);

  void* data() const { return memory_.data_ptr(); }
  c10::Device device() const { return tensor_.device(); }
  bool on_device() const { return !device().is_cpu(); }

  // Puts the memory's content into the tensor. On a device: enqueues it; neither is used again before what is in the
  // return stream now is done, whoever drops them.
  void CopyBack();

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
  std::optional<c10::Stream> return_stream_;
};

// Whether the caller's current stream on the tensor's device records a CUDA graph: host work can't be part of that.
bool IsCapturing(const at::Tensor& tensor);

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_STAGED_TENSOR_H_
