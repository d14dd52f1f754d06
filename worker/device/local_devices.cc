#include "worker/device/local_devices.h"

#include <condition_variable>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "process/mutex.h"

namespace shoal {

static_assert(sizeof(DeviceMeeting) == LocalDevices::kStreams * sizeof(nccl::UniqueId));

namespace {

// The threads that give back what NCCL had. Never destroyed: they may outlast main.
struct GivingBack {
  Mutex mutex;
  std::condition_variable ended;
  size_t threads SHOAL_GUARDED_BY(mutex) = 0;

  static GivingBack& Get() {
    static auto* const giving_back = new GivingBack;
    return *giving_back;
  }
  void Begin() {
    const MutexLock lock(mutex);
    ++threads;
  }
  void End() {
    const MutexLock lock(mutex);
    --threads;
    ended.notify_all();
  }
};

}  // namespace

absl::StatusOr<DeviceMeeting> LocalDevices::DrawMeeting(const nccl::Api& api) {
  DeviceMeeting meeting;
  for (size_t stream = 0; stream < kStreams; ++stream) {
    nccl::UniqueId id;
    if (absl::Status drawn = api.Check(api.get_unique_id(&id), "ncclGetUniqueId"); !drawn.ok()) return drawn;
    std::memcpy(meeting.data() + stream * sizeof(id), &id, sizeof(id));
  }
  return meeting;
}

std::shared_ptr<LocalDevices> LocalDevices::Make(std::shared_ptr<const nccl::Api> api, const DeviceMeeting& meeting,
                                                 DeviceComm::Place place,
                                                 std::shared_ptr<const NodeFailures> failures) {
  // Whoever lets go of it last, the I/O thread as it may be, must not wait for a device.
  const auto give_back = [](LocalDevices* devices) {
    GivingBack::Get().Begin();
    try {
      std::thread([devices] {
        delete devices;
        GivingBack::Get().End();
      }).detach();
    } catch (const std::system_error&) {
      // No thread is left for it: NCCL keeps what it has.
      GivingBack::Get().End();
    }
  };
  return {new LocalDevices(std::move(api), meeting, place, std::move(failures)), give_back};
}

bool LocalDevices::AwaitGivenBack(std::chrono::milliseconds within) {
  GivingBack& giving_back = GivingBack::Get();
  MutexLock lock(giving_back.mutex);
  return giving_back.ended.wait_for(lock, within,
                                    [&]() SHOAL_REQUIRES(giving_back.mutex) { return giving_back.threads == 0; });
}

LocalDevices::LocalDevices(std::shared_ptr<const nccl::Api> api, const DeviceMeeting& meeting, DeviceComm::Place place,
                           std::shared_ptr<const NodeFailures> failures)
    : api_(std::move(api)),
      meeting_(meeting),
      place_(place),
      verdict_(std::make_shared<GatheringVerdict>(std::move(failures))) {}

absl::Status LocalDevices::CheckDevice(uint32_t device) {
  const MutexLock lock(mutex_);
  if (!device_.has_value()) device_ = device;
  if (*device_ == device) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the group's tensors were on device ", *device_, " before, and this one is on device ", device,
      ": a group that is reduced within nodes has one device for each rank. Make another group for the other one"));
}

absl::Status LocalDevices::Meet(const std::shared_ptr<const cuda::Api>& driver,
                                const std::function<absl::Status()>& is_over) {
  if (std::exchange(met_, true)) return meeting_status_;  // an id can be used once
  const auto is_over_here = [&] {
    return verdict_->aborted() ? absl::AbortedError("the group has failed") : is_over();
  };
  for (size_t stream = 0; stream < kStreams && meeting_status_.ok(); ++stream) {
    nccl::UniqueId id;
    std::memcpy(&id, meeting_.data() + stream * sizeof(id), sizeof(id));
    absl::StatusOr<std::unique_ptr<DeviceComm>> comm = DeviceComm::Make(api_, id, place_, is_over_here, driver);
    if (!comm.ok()) {
      meeting_status_ = comm.status();
      break;
    }
    const MutexLock lock(mutex_);
    comms_[stream] = *std::move(comm);
    if (verdict_->aborted()) comms_[stream]->Abort();
  }
  return meeting_status_;
}

void LocalDevices::Abort() {
  const MutexLock lock(mutex_);
  verdict_->NoteAborted();
  for (const std::unique_ptr<DeviceComm>& comm : comms_) {
    if (comm != nullptr) comm->Abort();
  }
}

}  // namespace shoal
