#include "net/ucx/ucx_worker.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/ucx/ucx_lanes.h"
#include "net/ucx/ucx_status.h"
#include "process/lockable_memory.h"

namespace shoal {
namespace {

// Payloads are summed where UCX has put them (UcxTransport::Borrow).
constexpr size_t kPayloadAlignmentBytes = 64;

absl::Status Modify(const UcxApi& api, ucp_config_t* config, const std::vector<UcxSetting>& settings) {
  for (const UcxSetting& setting : settings) {
    const ucs_status_t status = api.ucp_config_modify(config, setting.name.c_str(), setting.value.c_str());
    if (status == UCS_OK) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("UCX refused ", setting.name, "=", setting.value, ": ", api.ucs_status_string(status)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Make(const UcxApi& api, const UcxTransportOptions& options,
                                                           const UcxSettings& settings, size_t max_header_bytes) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker(api, settings));
  if (absl::Status status = worker->MakeContext(); !status.ok()) return status;
  if (absl::Status status = worker->MakeWorker(max_header_bytes); !status.ok()) return status;
  worker->RegisterRegion(options.region);
  return worker;
}

absl::Status UcxWorker::MakeContext() {
  std::vector<UcxSetting> settings = settings_.settings();
  if (absl::Status status = InitUcx(settings); !status.ok()) return status;
  transports_ = TransportsOf(api_, context_);
  if (transports_.empty()) return NoSuchTransport();
  if (!MayLock(kLockableBytesForRdma)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "RDMA (", *transports_.begin(), ") needs locked memory, at least ", kLockableBytesForRdma >> 20,
        " MiB, and this process may lock less; allow it with \"ulimit -l unlimited\", ",
        "LimitMEMLOCK=infinity (systemd; in Kubernetes for the node's container runtime), --ulimit memlock=-1 "
        "(Docker), or the capability IPC_LOCK for a process that runs as root"));
  }
  const std::vector<UcxSetting> limits = SilenceLimits(transports_, api_.Version());
  if (limits.empty()) return absl::OkStatus();
  // UCX lists its transports only after it has started, and takes its settings only before.
  api_.ucp_cleanup(std::exchange(context_, nullptr));
  settings.insert(settings.end(), limits.begin(), limits.end());
  return InitUcx(settings);
}

absl::Status UcxWorker::InitUcx(const std::vector<UcxSetting>& settings) {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = api_.ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("UCX can't read its UCX_... environment variables: ", api_.ucs_status_string(status)));
  }
  const absl::Status modified = Modify(api_, config, settings);
  ucs_status_t status = UCS_OK;
  if (modified.ok()) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = api_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  }
  api_.ucp_config_release(config);
  if (!modified.ok()) return modified;
  if (status == UCS_ERR_NO_DEVICE) return NoSuchTransport();
  return StatusFromUcs(api_, status, "UCX can't start");
}

absl::Status UcxWorker::NoSuchTransport() const {
  std::string text = absl::StrCat("UCX has no transport for transports=\"", settings_.transports(), "\" on device \"",
                                  settings_.devices().empty() ? "any" : settings_.devices(),
                                  "\" here; ucx_info -d lists what this node has (a container needs /dev/infiniband)");
  if (!settings_.from_environment().empty()) {
    absl::StrAppend(&text, "; the environment says ", settings_.from_environment());
  }
  absl::StrAppend(&text, "; without RDMA use transports=tcp");
  return absl::InvalidArgumentError(text);
}

absl::Status UcxWorker::MakeWorker(size_t max_header_bytes) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  params.am_alignment = kPayloadAlignmentBytes;
  // One thread at a time, but not always the same one (docs/adr/0016).
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const ucs_status_t status = api_.ucp_worker_create(context_, &params, &worker_); status != UCS_OK) {
    return StatusFromUcs(api_, status, "UCX can't create a worker");
  }
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  if (api_.ucp_worker_query(worker_, &attributes) != UCS_OK || attributes.max_am_header < max_header_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the transports that UCX chose carry headers of ",
                                                   attributes.max_am_header, " bytes, not of ", max_header_bytes));
  }
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  if (const ucs_status_t status = api_.ucp_worker_get_address(worker_, &address, &address_bytes); status != UCS_OK) {
    return StatusFromUcs(api_, status, "UCX has no address");
  }
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  address_.assign(first, first + address_bytes);
  api_.ucp_worker_release_address(worker_, address);
  return StatusFromUcs(api_, api_.ucp_worker_get_efd(worker_, &event_fd_), "UCX has no event descriptor");
}

// UCX's own cache of registrations needs to see every munmap of the process, for which it would patch the functions of
// the C library under whatever else is loaded. Without it each payload is registered when it is sent or received.
void UcxWorker::RegisterRegion(std::span<std::byte> region) {
  region_ = region;
  // With a limit UCX's own buffers could run into it later, in the middle of something.
  if (region.empty() || !MayLockAnything()) return;
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = region.data();
  params.length = region.size();
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  if (api_.ucp_mem_map(context_, &params, &region_handle_) != UCS_OK) region_handle_ = nullptr;
}

ucp_mem_h UcxWorker::HandleOf(std::span<const std::byte> memory) const {
  const std::less_equal<> is_at_most;  // also of pointers into different objects
  const bool within = is_at_most(region_.data(), memory.data()) &&
                      is_at_most(memory.data() + memory.size(), region_.data() + region_.size());
  return within ? region_handle_ : nullptr;
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) api_.ucp_worker_destroy(worker_);
  if (region_handle_ != nullptr) api_.ucp_mem_unmap(context_, region_handle_);
  if (context_ != nullptr) api_.ucp_cleanup(context_);
}

}  // namespace shoal
