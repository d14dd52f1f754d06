#include "worker/device/host_stager.h"

#include <cstring>
#include <utility>

#include "reduce/convert.h"

namespace shoal {

void MoveElements(const DeviceCopy& copy) {
  const bool converts = copy.tensor_type != copy.place_type;
  if (copy.to_device()) {
    if (converts) return WidenToFloat32(copy.place_type, copy.place, copy.tensor, copy.elements);
    std::memcpy(copy.tensor, copy.place, copy.elements * DataTypeSize(copy.tensor_type));
  } else {
    if (converts) return NarrowFloat32(copy.place_type, copy.tensor, copy.place, copy.elements);
    std::memcpy(copy.place, copy.tensor, copy.elements * DataTypeSize(copy.tensor_type));
  }
}

void HostStager::Start(DeviceCopy copy) {
  absl::Status status = CheckConvertible(copy);
  if (status.ok()) MoveElements(copy);
  next_.push_back({.token = copy.token, .status = std::move(status)});
}

std::span<const DeviceCopyEnded> HostStager::Poll() {
  polled_.clear();
  std::swap(polled_, next_);
  return polled_;
}

}  // namespace shoal
