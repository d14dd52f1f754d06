// One tensor of an all-reduce, and the contiguous memory that stands for it while it is reduced.
//
// In host memory: a contiguous CPU tensor stands for itself. Another CPU tensor is copied, and copied back. A CUDA
// tensor goes through pinned host memory: the copy to the host waits on a stream of its group for the caller's current
// stream; the copy back is only enqueued.
//
// On a device, for groups that take that: a contiguous CUDA tensor stands for itself, another one is copied on the
// caller's current stream.
//
// What follows the copy back of a CUDA tensor has to be ordered after it by stream (return_stream() is current in the
// guard). No CUDA library is linked: it all goes through c10's device guard interface, which libtorch_cuda registers,
// but for the end of a copy to the host (stream_end.h).
//
// Threads: Stage and StageOnDevice on the caller's thread, then WaitUntilStaged and CopyBack on any one thread at a
// time. All may throw c10::Error (no memory, a device error).
#ifndef SHOAL_PYTORCH_SRC_STAGED_TENSOR_H_
#define SHOAL_PYTORCH_SRC_STAGED_TENSOR_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <future>
#include <memory>
#include <optional>

namespace shoal::pytorch {

// On which a group copies its tensors from and to a device. Each group has its own: a copy to the host waits for what
// makes the tensor, and that may wait for another group's all-reduce. They come from torch's pool of 32 for each
// device: in a process with many groups some have the same.
struct CopyStreams {
  explicit CopyStreams(c10::Device device);

  c10::Stream to_host;
  c10::Stream to_device;
};

class StagedTensor {
 public:
  // A CPU tensor. Copies nothing if it is contiguous.
  static StagedTensor Stage(const at::Tensor& tensor);
  // A CUDA tensor, in host memory.
  static StagedTensor StageInHostMemory(const at::Tensor& tensor, const CopyStreams& streams);
  // A CUDA tensor, on its device. Copies nothing if it is contiguous. CopyBack enqueues on `return_stream`.
  static StagedTensor StageOnDevice(const at::Tensor& tensor, const c10::Stream& return_stream);

  void* data() const { return memory_.data_ptr(); }
  c10::Device device() const { return tensor_.device(); }
  bool on_device() const { return !device().is_cpu(); }

  // Blocks until the host memory holds the tensor's content. Only CUDA tensors in host memory need it.
  void WaitUntilStaged();

  // Puts the memory's content into the tensor. For CUDA: enqueues it on `return_stream()`; neither is used again before
  // what is in that stream now is done, whoever drops them.
  void CopyBack();

  // The stream that results of a CUDA tensor come back on.
  std::optional<c10::Stream> return_stream() const { return return_stream_; }

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
  std::shared_ptr<c10::Event> staged_;
  std::shared_future<int> reached_;  // `staged_`, or its device has failed; not valid where nobody tells
  std::optional<c10::Stream> return_stream_;
};

// Whether the caller's current stream on the tensor's device records a CUDA graph: host work can't be part of that.
bool IsCapturing(const at::Tensor& tensor);

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_STAGED_TENSOR_H_
