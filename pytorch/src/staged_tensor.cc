#include "pytorch/src/staged_tensor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/utils/pybind.h>

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

StagedTensor StagedTensor::Stage(const at::Tensor& tensor, const std::optional<c10::Stream>& return_stream) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  StagedTensor staged;
  staged.tensor_ = tensor;
  staged.memory_ = tensor.contiguous();
  staged.return_stream_ = return_stream;
  return staged;
}

void StagedTensor::CopyBack() {
  const bool is_copy = !memory_.is_same(tensor_);
  if (!on_device()) {
    if (is_copy) Copy(tensor_, memory_);
    return;
  }
  const c10::impl::VirtualGuardImpl guard(tensor_.device().type());
  c10::StreamGuard on_return_stream(*return_stream_);
  if (is_copy) {
    Copy(tensor_, memory_);
    guard.recordDataPtrOnStream(memory_.storage().data_ptr(), *return_stream_);
  }
  guard.recordDataPtrOnStream(tensor_.storage().data_ptr(), *return_stream_);
}

bool IsCapturing(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return false;
  const c10::impl::VirtualGuardImpl guard(tensor.device().type());
  return IsCapturingStream(guard, guard.getStream(tensor.device()));
}

}  // namespace shoal::pytorch
