// What a group with error feedback keeps, as tensors.
#include "pytorch/src/shoal_backend.h"

namespace shoal::pytorch {

std::vector<at::Tensor> ShoalBackend::ErrorFeedback() {
  const Members now = members();
  std::vector<at::Tensor> found;
  if (!now.group) return found;
  while (true) {
    const auto index = static_cast<uint32_t>(found.size());
    uint64_t count = 0;
    shoal_error error = now.group->ReadFeedback(index, nullptr, &count);
    if (error.code == SHOAL_NOT_FOUND) return found;
    at::Tensor values = at::empty({static_cast<int64_t>(count)}, at::kFloat);
    if (error.code == SHOAL_OK) error = now.group->ReadFeedback(index, values.mutable_data_ptr<float>(), &count);
    TORCH_CHECK_WITH(DistBackendError, error.code == SHOAL_OK,
                     "shoal: what rounding took can't be read: ", error.message);
    found.push_back(std::move(values));
  }
}

void ShoalBackend::AddErrorFeedback(const std::vector<at::Tensor>& values) {
  const Members now = members();
  for (const at::Tensor& each : values) {
    if (!now.group) return;
    const at::Tensor on_host = each.to(at::kCPU, at::kFloat).contiguous();
    const shoal_error error =
        now.group->AddFeedback(on_host.const_data_ptr<float>(), static_cast<uint64_t>(on_host.numel()));
    TORCH_CHECK_WITH(DistBackendError, error.code == SHOAL_OK,
                     "shoal: what rounding took can't be given back: ", error.message);
  }
}

}  // namespace shoal::pytorch
