// The public C functions for a scheduler or server inside this process, and for where this process is
// (worker/include/shoal/worker.h).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/flow_plan.h"
#include "process/node_address.h"
#include "process/node_identity.h"
#include "proto/cluster_keys.h"
#include "worker/colocated/service.h"
#include "worker/library/c_boundary.h"

struct shoal_service {
  std::unique_ptr<shoal::Service> service;
};

namespace shoal {
namespace {

constexpr size_t kMaxAddressBytes = 200;

template <size_t kBytes>
absl::Status CopyText(const std::string& text, char (&to)[kBytes]) {
  if (text.size() >= kBytes) return absl::InternalError(absl::StrCat("a text of ", text.size(), " bytes does not fit"));
  to[text.copy(to, kBytes - 1)] = '\0';
  return absl::OkStatus();
}

absl::StatusOr<ServerConfig> ReadConfig(const shoal_server_options* options) {
  if (absl::Status status = CheckNotNull(options, "options"); !status.ok()) return status;
  absl::StatusOr<std::string> scheduler = RequiredText(options->scheduler, "options->scheduler", kMaxAddressBytes);
  if (!scheduler.ok()) return scheduler.status();
  absl::StatusOr<std::string> advertise = RequiredText(options->advertise, "options->advertise", kMaxAddressBytes);
  if (!advertise.ok()) return advertise.status();
  ServerConfig config;
  config.scheduler = *std::move(scheduler);
  config.advertise = *std::move(advertise);
  config.name = OptionalText(options->name, "");
  config.io_threads = std::max(options->io_threads, 1u);
  if (options->slot_memory_bytes != 0) config.slot_memory_bytes = options->slot_memory_bytes;
  config.net_device = OptionalText(options->net_device, "");
  config.transports = OptionalText(options->transports, config.transports);
  config.network_only = options->network_only != 0;
  config.flight_recorder = OptionalText(options->flight_recorder, config.flight_recorder);
  if (options->timeout_ms != 0) config.timeout_ms = options->timeout_ms;
  config.credentials = CredentialFilesOf(*options);
  return config;
}

absl::StatusOr<SchedulerConfig> ReadConfig(const shoal_scheduler_options* options) {
  if (absl::Status status = CheckNotNull(options, "options"); !status.ok()) return status;
  absl::StatusOr<std::string> listen = RequiredText(options->listen, "options->listen", kMaxAddressBytes);
  if (!listen.ok()) return listen.status();
  if (options->port_buffer_bytes > kMaxPortBufferBytes) {
    return absl::InvalidArgumentError(absl::StrCat("options->port_buffer_bytes is ", options->port_buffer_bytes,
                                                   "; it may be up to ", kMaxPortBufferBytes,
                                                   ", or 0 if it is not known what ports hold"));
  }
  SchedulerConfig config;
  config.listen = *std::move(listen);
  config.port_buffer_bytes = options->port_buffer_bytes;
  config.encrypt = options->encrypt != 0;
  config.insecure_network = options->insecure_network != 0;
  config.credentials = CredentialFilesOf(*options);
  return config;
}

absl::Status CopyKeys(const KeyPair& pair, shoal_key_pair* to) {
  absl::Status status = CopyText(pair.certificate, to->cert);
  status.Update(CopyText(pair.key, to->key));
  return status;
}

absl::Status HandOut(absl::StatusOr<std::unique_ptr<Service>> started, shoal_service** service) {
  if (!started.ok()) return started.status();
  auto handle = std::make_unique<shoal_service>();
  handle->service = *std::move(started);
  *service = handle.release();
  return absl::OkStatus();
}

}  // namespace
}  // namespace shoal

extern "C" {

shoal_code shoal_describe_node(const char* net_device, const char* peer, shoal_node* node, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (absl::Status status = shoal::CheckNotNull(node, "node"); !status.ok()) return status;
    if (absl::Status status = shoal::CopyText(shoal::NetworkIdentity(), node->identity); !status.ok()) return status;
    const absl::StatusOr<std::string> address =
        shoal::OwnAddress(shoal::OptionalText(net_device, ""), shoal::OptionalText(peer, ""));
    return address.ok() ? shoal::CopyText(*address, node->address) : address.status();
  });
}

shoal_code shoal_draw_keys(shoal_keys* keys, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (absl::Status status = shoal::CheckNotNull(keys, "keys"); !status.ok()) return status;
    const absl::StatusOr<shoal::ClusterKeys> drawn = shoal::DrawClusterKeys();
    if (!drawn.ok()) return drawn.status();
    absl::Status status = shoal::CopyText(drawn->authorities, keys->ca);
    status.Update(shoal::CopyKeys(drawn->scheduler, &keys->scheduler));
    status.Update(shoal::CopyKeys(drawn->server, &keys->server));
    status.Update(shoal::CopyKeys(drawn->worker, &keys->worker));
    status.Update(shoal::CopyKeys(drawn->operators, &keys->operators));
    return status;
  });
}

shoal_code shoal_start_scheduler(const shoal_scheduler_options* options, shoal_service** service, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (service == nullptr) return absl::InvalidArgumentError("service is NULL");
    absl::StatusOr<shoal::SchedulerConfig> config = shoal::ReadConfig(options);
    if (!config.ok()) return config.status();
    shoal::MarkFutureChildren();
    return shoal::HandOut(shoal::Service::StartScheduler(*std::move(config)), service);
  });
}

shoal_code shoal_start_server(const shoal_server_options* options, shoal_service** service, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (service == nullptr) return absl::InvalidArgumentError("service is NULL");
    absl::StatusOr<shoal::ServerConfig> config = shoal::ReadConfig(options);
    if (!config.ok()) return config.status();
    shoal::MarkFutureChildren();
    return shoal::HandOut(shoal::Service::StartServer(*std::move(config)), service);
  });
}

const char* shoal_service_address(const shoal_service* service) {
  return service == nullptr ? "" : service->service->address().c_str();
}

uint32_t shoal_service_live_ranks(const shoal_service* service) {
  return service == nullptr ? UINT32_MAX : service->service->live_ranks().value_or(UINT32_MAX);
}

void shoal_service_stop(shoal_service* service) {
  if (service == nullptr) return;
  shoal::Guarded(nullptr, [&]() -> absl::Status {
    const std::unique_ptr<shoal_service> freed(service);
    freed->service->Stop();
    return absl::OkStatus();
  });
}

}  // extern "C"
