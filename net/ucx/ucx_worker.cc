#include "net/ucx/ucx_worker.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/frame.h"
#include "net/peer_socket.h"
#include "net/ucx/ucx_lanes.h"
#include "net/ucx/ucx_status.h"
#include "process/lockable_memory.h"
#include "process/node_address.h"

namespace shoal {
namespace {

// Payloads are summed where UCX has put them (UcxTransport::Borrow).
constexpr size_t kPayloadAlignmentBytes = 64;

struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
};

// "20000-20999" as in UCX_TCP_PORT_RANGE, by which UCX chooses its data ports. What is no range means any port.
PortRange PortsToListenAt() {
  const char* text = getenv("UCX_TCP_PORT_RANGE");
  if (text == nullptr) return {};
  PortRange range;
  const char* end = text + strlen(text);
  const auto first = std::from_chars(text, end, range.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return {};
  const auto last = std::from_chars(first.ptr + 1, end, range.last);
  if (last.ec != std::errc() || last.ptr != end || range.first == 0 || range.last < range.first) return {};
  return range;
}

absl::Status Modify(ucp_config_t* config, const std::vector<UcxSetting>& settings) {
  for (const UcxSetting& setting : settings) {
    const ucs_status_t status = ucp_config_modify(config, setting.name.c_str(), setting.value.c_str());
    if (status == UCS_OK) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("UCX refused ", setting.name, "=", setting.value, ": ", ucs_status_string(status)));
  }
  return absl::OkStatus();
}

// Unavailable: devices are named, the kernel knows all of them, and none has a link. (An RDMA device has a name of its
// own, with a port: "mlx5_0:1".)
absl::Status CheckAnyHasLink(const std::string& net_devices) {
  const std::vector<std::string> devices = absl::StrSplit(net_devices, ',', absl::SkipEmpty());
  const auto is_without = [](const std::string& device) {
    return !absl::StrContains(device, ':') && LacksLink(device);
  };
  if (devices.empty() || !std::ranges::all_of(devices, is_without)) return absl::OkStatus();
  return NoLink(devices.front());
}

// Unavailable says that waiting for a link may help, and nothing else.
absl::Status FailedSetUp(ucs_status_t status, const std::string& what) {
  const absl::Status failed = StatusFromUcs(status, what);
  return absl::IsUnavailable(failed) ? absl::InternalError(failed.message()) : failed;
}

absl::Status NoSuchTransport(const UcxSettings& settings) {
  std::string text = absl::StrCat("UCX has no transport for transports=\"", settings.transports(), "\" on device \"",
                                  settings.net_devices().empty() ? "any" : settings.net_devices(),
                                  "\" here; ucx_info -d lists what this node has (a container needs /dev/infiniband)");
  if (const std::string from = settings.FromEnvironment(); !from.empty()) {
    absl::StrAppend(&text, "; the environment says ", from);
  }
  if (!settings.tcp_may_carry_payload()) absl::StrAppend(&text, "; add tcp to the list to allow that instead");
  return absl::InvalidArgumentError(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Make(const UcxTransportOptions& options,
                                                           const UcxSettings& settings) {
  if (absl::Status status = CheckAnyHasLink(settings.net_devices()); !status.ok()) return status;
  std::unique_ptr<UcxWorker> worker(new UcxWorker(settings));
  worker->devices_ = DevicesWithLink();
  if (absl::Status status = worker->MakeContext(options); !status.ok()) return status;
  if (absl::Status status = worker->MakeWorker(); !status.ok()) return status;
  if (std::ranges::any_of(worker->transports_, IsRdma)) worker->RegisterRegion(options.region);
  // One that lost its link meanwhile may not have been found.
  const std::set<std::string> still = DevicesWithLink();
  std::erase_if(worker->devices_, [&](const std::string& device) { return !still.contains(device); });
  return worker;
}

bool UcxWorker::IsOlderThanLinkOf(const SocketAddress& own_address) const {
  const std::string device = DeviceOfAddress(own_address);
  return !devices_.contains(device) && DevicesWithLink().contains(device);
}

absl::Status UcxWorker::MakeContext(const UcxTransportOptions& options) {
  std::vector<UcxSetting> settings = settings_.settings();
  if (absl::Status status = InitUcx(options, settings); !status.ok()) return status;
  transports_ = TransportsOf(context_);
  if (absl::Status status = CheckTransports(); !status.ok()) return status;
  const std::vector<UcxSetting> limits = SilenceLimits(transports_);
  if (limits.empty()) return absl::OkStatus();
  // UCX lists its transports only after it has started, and takes its settings only before.
  ucp_cleanup(std::exchange(context_, nullptr));
  settings.insert(settings.end(), limits.begin(), limits.end());
  return InitUcx(options, settings);
}

absl::Status UcxWorker::InitUcx(const UcxTransportOptions& options, const std::vector<UcxSetting>& settings) {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("UCX can't read its UCX_... environment variables: ", ucs_status_string(status)));
  }
  const absl::Status modified = Modify(config, settings);
  ucs_status_t status = UCS_OK;
  if (modified.ok()) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    if (options.expected_peers > 0) {
      params.field_mask |= UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
      params.estimated_num_eps = options.expected_peers;
    }
    status = ucp_init(&params, config, &context_);
  }
  ucp_config_release(config);
  if (!modified.ok()) return modified;
  if (status != UCS_ERR_NO_DEVICE) return FailedSetUp(status, "UCX can't start");
  // It may have lost its link while UCX looked.
  const absl::Status has_link = CheckAnyHasLink(settings_.net_devices());
  return has_link.ok() ? NoSuchTransport(settings_) : has_link;
}

absl::Status UcxWorker::CheckTransports() const {
  if (!settings_.tcp_may_carry_payload() && std::ranges::all_of(transports_, IsTcp)) return NoSuchTransport(settings_);
  if (std::ranges::any_of(transports_, IsRdma) && !MayLock(kLockableBytesForRdma)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "RDMA (", *std::ranges::find_if(transports_, IsRdma), ") needs locked memory, at least ",
        kLockableBytesForRdma >> 20, " MiB, and this process may lock less; allow it with \"ulimit -l unlimited\", ",
        "LimitMEMLOCK=infinity (systemd; in Kubernetes for the node's container runtime), --ulimit memlock=-1 "
        "(Docker), or "
        "the capability IPC_LOCK for a process that runs as root"));
  }
  return absl::OkStatus();
}

absl::Status UcxWorker::MakeWorker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  params.am_alignment = kPayloadAlignmentBytes;
  // One thread at a time, but not always the same one (docs/adr/0016).
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const ucs_status_t status = ucp_worker_create(context_, &params, &worker_); status != UCS_OK) {
    return FailedSetUp(status, "UCX can't create a worker");
  }
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  if (ucp_worker_query(worker_, &attributes) != UCS_OK || attributes.max_am_header < kMaxNoteBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the transports that UCX chose carry headers of ",
                                                   attributes.max_am_header, " bytes, not of ", kMaxNoteBytes));
  }
  return FailedSetUp(ucp_worker_get_efd(worker_, &event_fd_), "UCX has no event descriptor");
}

absl::StatusOr<SocketAddress> UcxWorker::Listen(const std::string& ip, ucp_listener_conn_callback_t on_request,
                                                void* argument) {
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(ip, 0);
  if (!address.ok()) return address.status();
  const PortRange ports = PortsToListenAt();
  const uint32_t count = uint32_t{ports.last} - ports.first + 1;
  // Not all from the first one on: UCX complains on the standard error about every port that is taken.
  const auto start = static_cast<uint32_t>(getpid());
  ucs_status_t status = UCS_ERR_BUSY;
  for (uint32_t i = 0; i < count && status == UCS_ERR_BUSY; ++i) {
    const SocketAddress at = WithPort(*address, static_cast<uint16_t>(ports.first + (start + i) % count));
    ucp_listener_params_t params{};
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr = at.get();
    params.sockaddr.addrlen = at.length;
    params.conn_handler.cb = on_request;
    params.conn_handler.arg = argument;
    status = ucp_listener_create(worker_, &params, &listener_);
  }
  if (status == UCS_ERR_BUSY) {
    return absl::ResourceExhaustedError(
        absl::StrCat("none of the ports ", ports.first, "-", ports.last, " of UCX_TCP_PORT_RANGE is free on ", ip));
  }
  const std::string what = absl::StrCat("UCX can't listen on ", ip);
  if (status != UCS_OK) return FailedSetUp(status, what);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (status = ucp_listener_query(listener_, &attributes); status != UCS_OK) return FailedSetUp(status, what);
  return SocketAddress{.storage = attributes.sockaddr, .length = address->length};
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
  if (ucp_mem_map(context_, &params, &region_handle_) != UCS_OK) region_handle_ = nullptr;
}

ucp_mem_h UcxWorker::HandleOf(std::span<const std::byte> memory) const {
  const std::less_equal<> is_at_most;  // also of pointers into different objects
  const bool within = is_at_most(region_.data(), memory.data()) &&
                      is_at_most(memory.data() + memory.size(), region_.data() + region_.size());
  return within ? region_handle_ : nullptr;
}

UcxWorker::~UcxWorker() {
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (region_handle_ != nullptr) ucp_mem_unmap(context_, region_handle_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

}  // namespace shoal
