#include "net/ucx/ucx_worker.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/frame.h"
#include "net/ucx/local_address.h"
#include "net/ucx/ucx_status.h"

namespace shoal {
namespace {

// As long as addresses may choose the device. Which RDMA device goes with an address can't be told from the address,
// and UCX reads its environment variable itself.
bool AddressesChooseDevice(const UcxTransportOptions& options) {
  return options.net_device.empty() && options.transports == "tcp" && getenv("UCX_NET_DEVICES") == nullptr;
}

std::string DeviceToListenOn(const UcxTransportOptions& options) {
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(options.listen_ip, options.port);
  return address.ok() ? DeviceOfAddress(*address) : "";
}

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

absl::Status Configure(ucp_config_t* config, const UcxTransportOptions& options) {
  const bool choose = AddressesChooseDevice(options);
  const struct {
    const char* key;
    std::string value;
  } settings[] = {
      {"TLS", options.transports},
      {"NET_DEVICES", choose ? DeviceToListenOn(options) : options.net_device},
      // A connection stays on the device of its route: others (of containers or virtual machines) may not lead to the
      // peer. Both sides must say the same, or UCX 1.13 ends the process, so it does not depend on net_device.
      {"CM_USE_ALL_DEVICES", options.transports == "tcp" ? "n" : ""},
      // Connections are made over TCP, also those that then carry data by RDMA: RDMA's own way has no gate.
      {"SOCKADDR_TLS_PRIORITY", "tcp"},
  };
  for (const auto& setting : settings) {
    if (setting.value.empty()) continue;
    if (const ucs_status_t status = ucp_config_modify(config, setting.key, setting.value.c_str()); status != UCS_OK) {
      return absl::InvalidArgumentError(
          absl::StrCat("UCX refused ", setting.key, "=", setting.value, ": ", ucs_status_string(status)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string UcxWorker::Settings(const UcxTransportOptions& options) {
  const char* from_environment = getenv("UCX_TLS");
  std::string transports = options.transports;
  if (transports.empty()) transports = from_environment != nullptr ? from_environment : "all";
  const std::set<std::string> sorted = absl::StrSplit(transports, ',');
  std::string settings = absl::StrCat("transports=", absl::StrJoin(sorted, ","));
  for (const char* name : {"UCX_TCP_RX_SEG_SIZE", "UCX_TCP_TX_SEG_SIZE", "UCX_CM_USE_ALL_DEVICES"}) {
    if (const char* value = getenv(name); value != nullptr) absl::StrAppend(&settings, " ", name, "=", value);
  }
  return settings;
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Make(const UcxTransportOptions& options) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker());
  if (absl::Status status = worker->MakeContext(options); !status.ok()) return status;
  if (absl::Status status = worker->MakeWorker(); !status.ok()) return status;
  return worker;
}

absl::Status UcxWorker::MakeContext(const UcxTransportOptions& options) {
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("UCX can't read its UCX_... environment variables: ", ucs_status_string(status)));
  }
  const absl::Status configured = Configure(config, options);
  ucs_status_t status = UCS_OK;
  if (configured.ok()) {
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
  if (!configured.ok()) return configured;
  if (status == UCS_ERR_NO_DEVICE) {
    return absl::InvalidArgumentError(absl::StrCat(
        "UCX has no transport for transports=\"", options.transports, "\" on device \"",
        options.net_device.empty() ? "any" : options.net_device, "\" here; ucx_info -d lists what this machine has"));
  }
  return StatusFromUcs(status, "UCX can't start");
}

absl::Status UcxWorker::MakeWorker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const ucs_status_t status = ucp_worker_create(context_, &params, &worker_); status != UCS_OK) {
    return StatusFromUcs(status, "UCX can't create a worker");
  }
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  if (ucp_worker_query(worker_, &attributes) != UCS_OK || attributes.max_am_header < kMaxNoteBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the transports that UCX chose carry headers of ",
                                                   attributes.max_am_header, " bytes, not of ", kMaxNoteBytes));
  }
  return StatusFromUcs(ucp_worker_get_efd(worker_, &event_fd_), "UCX has no event descriptor");
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
  if (status != UCS_OK) return StatusFromUcs(status, what);
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (status = ucp_listener_query(listener_, &attributes); status != UCS_OK) return StatusFromUcs(status, what);
  return SocketAddress{.storage = attributes.sockaddr, .length = address->length};
}

UcxWorker::~UcxWorker() {
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

}  // namespace shoal
