#include "pytorch/src/staged_tensor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>

#include "pytorch/src/stream_end.h"

namespace shoal::pytorch {
namespace {

// Copies below autograd: gradients, version counters and inference mode don't concern a collective.
void Copy(const at::Tensor& to, const at::Tensor& from) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  to.copy_(from, /*non_blocking=*/true);
}

template <typename Guard>
bool IsCapturingStream(const Guard& guard, const c10::Stream& stream) {
  if constexpr (requires { guard.isStreamCapturing(stream); }) {
    return guard.isStreamCapturing(stream);
  } else {  // torch 2.11 says it in Python alone
    const c10::DeviceGuard on_its_device(stream.device());
    const pybind11::gil_scoped_acquire acquired;
    return pybind11::module_::import("torch.cuda").attr("is_current_stream_capturing")().template cast<bool>();
  }
}

}  // namespace

CopyStreams::CopyStreams(c10::Device device)
    : to_host(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, true)),
      to_device(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, true)) {}

StagedTensor StagedTensor::Stage(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  StagedTensor staged;
  staged.tensor_ = tensor;
  staged.memory_ = tensor.contiguous();
  return staged;
}

StagedTensor StagedTensor::StageInHostMemory(const at::Tensor& tensor, const CopyStreams& streams) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::Device device = tensor.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  StagedTensor staged;
  staged.tensor_ = tensor;
  staged.return_stream_ = streams.to_device;
  staged.memory_ = at::empty(tensor.sizes(), tensor.options().device(c10::kCPU).pinned_memory(true));

  c10::Event produced(device.type());
  produced.record(guard.getStream(device));
  produced.block(streams.to_host);
  c10::StreamGuard on_copy_stream(streams.to_host);
  Copy(staged.memory_, tensor);
  guard.recordDataPtrOnStream(tensor.storage().data_ptr(), streams.to_host);
  staged.staged_ = std::make_shared<c10::Event>(device.type());
  staged.staged_->record(streams.to_host);
  staged.reached_ = EndOfStream(streams.to_host.native_handle()).share();
  return staged;
}

StagedTensor StagedTensor::StageOnDevice(const at::Tensor& tensor, const c10::Stream& return_stream) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  StagedTensor staged;
  staged.tensor_ = tensor;
  staged.memory_ = tensor.contiguous();
  staged.return_stream_ = return_stream;
  return staged;
}

// The event's own wait keeps a core busy. And whoever asks the driver, unlike a wait that has begun, may do so in the
// middle of another thread's capture of a CUDA graph, and end that: so it is asked where the device has failed, or
// nobody tells.
void StagedTensor::WaitUntilStaged() {
  if (!staged_ || (reached_.valid() && reached_.get() == 0)) return;
  staged_->synchronize();  // throws what the device has failed with
  TORCH_CHECK(!reached_.valid(), "CUDA's driver says error ", reached_.get(), " of the tensor's device");
}

void StagedTensor::CopyBack() {
  if (!on_device()) {
    if (!memory_.is_same(tensor_)) Copy(tensor_, memory_);
    return;
  }
  const c10::impl::VirtualGuardImpl guard(tensor_.device().type());
  c10::StreamGuard on_copy_stream(*return_stream_);
  if (!memory_.is_same(tensor_)) {
    Copy(tensor_, memory_);
    if (!memory_.device().is_cpu()) guard.recordDataPtrOnStream(memory_.storage().data_ptr(), *return_stream_);
  }
  guard.recordDataPtrOnStream(tensor_.storage().data_ptr(), *return_stream_);
}

bool IsCapturing(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return false;
  const c10::impl::VirtualGuardImpl guard(tensor.device().type());
  return IsCapturingStream(guard, guard.getStream(tensor.device()));
}

}  // namespace shoal::pytorch
