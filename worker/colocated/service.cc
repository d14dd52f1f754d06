#include "worker/colocated/service.h"

#include <unistd.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "process/node_name.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<Service>> Service::StartScheduler(SchedulerConfig config) {
  config.is_colocated = true;
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = Scheduler::Start(config);
  if (!scheduler.ok()) return scheduler.status();
  std::unique_ptr<Service> service(new Service);
  service->scheduler_ = *std::move(scheduler);
  service->address_ = service->scheduler_->address();
  return service;
}

absl::StatusOr<std::unique_ptr<Service>> Service::StartServer(ServerConfig config) {
  static std::atomic<uint32_t> servers_started = 0;
  if (config.name.empty()) {
    config.name = absl::StrCat(NodeName(), "-", getpid(), "-", ++servers_started);
  }
  // What goes wrong comes back as a status; the program's own output stays its own.
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config, [](const LogEvent&) {});
  if (!server.ok()) return server.status();
  std::unique_ptr<Service> service(new Service);
  service->server_ = *std::move(server);
  service->address_ = absl::StrJoin(service->server_->addresses(), ",");
  return service;
}

std::optional<uint32_t> Service::live_ranks() const {
  const auto numbers = scheduler_ == nullptr ? nullptr : scheduler_->numbers();
  return numbers == nullptr ? std::nullopt : std::optional(numbers->workers);
}

Service::~Service() { Stop(); }

void Service::Stop() {
  if (server_ != nullptr) server_->Stop("the process that runs it stopped it");
  if (scheduler_ != nullptr) scheduler_->Stop();
}

}  // namespace shoal
