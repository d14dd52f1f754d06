// The public C functions for a scheduler or server inside this process (worker/include/shoal/worker.h).
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "worker/colocated/host.h"
#include "worker/library/c_boundary.h"

struct shoal_host {
  std::unique_ptr<shoal::Host> host;
};

namespace shoal {
namespace {

constexpr size_t kMaxAddressBytes = 200;

absl::StatusOr<ServerConfig> ReadConfig(const shoal_host_server_options* options) {
  if (absl::Status status = CheckStruct(options, "options"); !status.ok()) return status;
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
  if (options->timeout_ms != 0) config.timeout_ms = options->timeout_ms;
  return config;
}

absl::Status HandOut(absl::StatusOr<std::unique_ptr<Host>> started, shoal_host** host) {
  if (!started.ok()) return started.status();
  auto handle = std::make_unique<shoal_host>();
  handle->host = *std::move(started);
  *host = handle.release();
  return absl::OkStatus();
}

}  // namespace
}  // namespace shoal

extern "C" {

shoal_code shoal_host_scheduler(const char* listen, shoal_host** host, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (host == nullptr) return absl::InvalidArgumentError("host is NULL");
    const absl::StatusOr<std::string> address = shoal::RequiredText(listen, "listen", shoal::kMaxAddressBytes);
    if (!address.ok()) return address.status();
    shoal::MarkFutureChildren();
    return shoal::HandOut(shoal::Host::StartScheduler(*address), host);
  });
}

shoal_code shoal_host_server(const shoal_host_server_options* options, shoal_host** host, shoal_error* error) {
  return shoal::Guarded(error, [&]() -> absl::Status {
    if (host == nullptr) return absl::InvalidArgumentError("host is NULL");
    absl::StatusOr<shoal::ServerConfig> config = shoal::ReadConfig(options);
    if (!config.ok()) return config.status();
    shoal::MarkFutureChildren();
    return shoal::HandOut(shoal::Host::StartServer(*std::move(config)), host);
  });
}

const char* shoal_host_address(const shoal_host* host) { return host == nullptr ? "" : host->host->address().c_str(); }

void shoal_host_stop(shoal_host* host) {
  if (host == nullptr) return;
  shoal::Guarded(nullptr, [&]() -> absl::Status {
    const std::unique_ptr<shoal_host> freed(host);
    freed->host->Stop();
    return absl::OkStatus();
  });
}

}  // extern "C"
