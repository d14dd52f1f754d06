#include "worker/device/local_devices.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {

static_assert(sizeof(DeviceMeeting) == LocalDevices::kStreams * sizeof(nccl::UniqueId));

absl::StatusOr<DeviceMeeting> LocalDevices::DrawMeeting(const nccl::Api& api) {
  DeviceMeeting meeting;
  for (size_t stream = 0; stream < kStreams; ++stream) {
    nccl::UniqueId id;
    if (absl::Status drawn = api.Check(api.get_unique_id(&id), "ncclGetUniqueId"); !drawn.ok()) return drawn;
    std::memcpy(meeting.data() + stream * sizeof(id), &id, sizeof(id));
  }
  return meeting;
}

absl::Status LocalDevices::Meet(uint32_t device, const std::shared_ptr<const cuda::Api>& driver,
                                const std::function<absl::Status()>& is_over) {
  {
    const std::lock_guard lock(mutex_);
    if (device_.has_value() && *device_ != device) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the group's tensors were on device ", *device_, " before, and this one is on device ", device,
          ": a group that is reduced within nodes has one device for each rank. Make another group for the other one"));
    }
    if (comms_.back() != nullptr) return absl::OkStatus();
    device_ = device;
  }
  const auto is_over_here = [&] { return aborted() ? absl::AbortedError("the group has failed") : is_over(); };
  for (size_t stream = 0; stream < kStreams; ++stream) {
    nccl::UniqueId id;
    std::memcpy(&id, meeting_.data() + stream * sizeof(id), sizeof(id));
    absl::StatusOr<std::unique_ptr<DeviceComm>> comm = DeviceComm::Make(api_, id, place_, is_over_here, driver);
    if (!comm.ok()) return comm.status();
    const std::lock_guard lock(mutex_);
    comms_[stream] = *std::move(comm);
    if (aborted()) comms_[stream]->Abort();
  }
  return absl::OkStatus();
}

void LocalDevices::Abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (const std::unique_ptr<DeviceComm>& comm : comms_) {
    if (comm != nullptr) comm->Abort();
  }
}

}  // namespace shoal
