#include "worker/job_server.h"

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/own_address.h"

namespace shoal {
namespace {

constexpr size_t kMaxHostNameBytes = 100;  // of a server's name, which has a limit
constexpr std::chrono::milliseconds kDrainPoll(10);

}  // namespace

absl::StatusOr<std::unique_ptr<JobServer>> JobServer::Start(const JobServerOptions& options) {
  const auto explain = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("rank ", options.rank, " on ", options.host_name,
                                                    " was to host a server for its job, but: ", status.message(),
                                                    "; mend it, or switch the ranks' servers off (colocation)"));
  };
  ServerConfig config;
  config.scheduler = options.scheduler;
  config.advertise = options.address;
  if (config.advertise.empty()) {
    absl::StatusOr<std::string> address = OwnAddress(options.net_device, options.scheduler);
    if (!address.ok()) return explain(address.status());
    config.advertise = *std::move(address);
  }
  config.name =
      absl::StrCat(options.host_name.substr(0, kMaxHostNameBytes), "-job", options.job.value(), "-rank", options.rank);
  config.job = options.job;
  config.host_name = options.host_name;
  config.net_device = options.net_device;
  config.transports = options.transports;
  config.network_only = options.network_only;
  config.timeout_ms = options.timeout_ms;
  // What goes wrong comes back as a status; the program's own output stays its own.
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config, [](std::string_view) {});
  if (!server.ok()) return explain(server.status());
  return std::unique_ptr<JobServer>(new JobServer(*std::move(server)));
}

void JobServer::Leave(uint64_t wait_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  server_->Drain("its rank leaves the job");
  while (!server_->drained() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(kDrainPoll);
  server_->Stop("its rank left the job");
}

}  // namespace shoal
