#include "net/ucx/ucx_worker.h"

#include "absl/strings/str_cat.h"
#include "core/frame.h"
#include "net/socket_address.h"
#include "net/ucx/ucx_status.h"

namespace shoal {
namespace {

absl::Status Configure(ucp_config_t* config, const UcxTransportOptions& options) {
  const struct {
    const char* key;
    std::string value;
  } settings[] = {
      {"TLS", options.transports},
      {"NET_DEVICES", options.net_device},
      // Unless a device was named, stay on the one that the connection's route uses: others (of containers or virtual
      // machines) may not lead to the peer.
      {"CM_USE_ALL_DEVICES", options.net_device.empty() ? "n" : ""},
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

absl::Status UcxWorker::Listen(const std::string& ip, uint16_t port, ucp_listener_conn_callback_t on_request,
                               void* argument) {
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(ip, port);
  if (!address.ok()) return address.status();
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = address->get();
  params.sockaddr.addrlen = address->length;
  params.conn_handler.cb = on_request;
  params.conn_handler.arg = argument;
  const ucs_status_t status = ucp_listener_create(worker_, &params, &listener_);
  const std::string where = FormatSocketAddress(address->storage);
  if (status == UCS_ERR_BUSY) {
    return absl::AlreadyExistsError(
        absl::StrCat("can't listen on ", where, ": another process has this port; choose another, or 0 for any"));
  }
  if (status == UCS_ERR_INVALID_ADDR || status == UCS_ERR_UNREACHABLE || status == UCS_ERR_IO_ERROR) {
    return absl::InvalidArgumentError(absl::StrCat(
        "can't listen on ", where,
        ": is it an address of this machine, and the port permitted? (UCX: ", ucs_status_string(status), ")"));
  }
  if (status != UCS_OK) return StatusFromUcs(status, absl::StrCat("can't listen on ", where));
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (const ucs_status_t queried = ucp_listener_query(listener_, &attributes); queried != UCS_OK) {
    return StatusFromUcs(queried, absl::StrCat("no port number for the listener on ", where));
  }
  listen_address_ = FormatSocketAddress(attributes.sockaddr);
  return absl::OkStatus();
}

UcxWorker::~UcxWorker() {
  if (listener_ != nullptr) ucp_listener_destroy(listener_);
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

}  // namespace shoal
