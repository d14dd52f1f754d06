#include "worker/device/host_stager.h"

#include <utility>

#include "reduce/convert.h"

namespace shoal {

void MoveElements(const DeviceCopy& copy) {
  if (copy.to_device()) {
    Decode(copy.codec, copy.place, copy.tensor, copy.elements);
  } else {
    Encode(copy.codec, copy.tensor, copy.place, copy.elements);
  }
}

void HostStager::Start(DeviceCopy copy) {
  MoveElements(copy);
  next_.push_back({.token = copy.token, .status = absl::OkStatus()});
}

std::span<const DeviceCopyEnded> HostStager::Poll() {
  polled_.clear();
  std::swap(polled_, next_);
  return polled_;
}

}  // namespace shoal
