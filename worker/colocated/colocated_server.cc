#include "worker/colocated/colocated_server.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/wait_report.h"
#include "process/clock.h"
#include "process/node_address.h"

namespace shoal {
namespace {

constexpr size_t kMaxNodeNameBytes = 100;  // of a server's name, which has a limit
constexpr std::chrono::milliseconds kDrainPoll(10);

// What a server says while it registers is about the link or the scheduler that it waits for.
struct Registering {
  WaitReport wait;
  std::atomic<bool> over = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ColocatedServer>> ColocatedServer::Start(const ColocatedServerOptions& options,
                                                                        NoticeLog* notices) {
  const auto explain = [&](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat("rank ", options.rank, " on ", options.node_name,
                                     " was to run a colocated server for its job, but: ", status.message(),
                                     "; fix the cause, or disable colocated servers (SHOAL_COLOCATE=off)"));
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
      absl::StrCat(options.node_name.substr(0, kMaxNodeNameBytes), "-job", options.job.value(), "-rank", options.rank);
  config.job = options.job;
  config.node_name = options.node_name;
  config.boot_id = options.boot_id;
  config.net_device = options.net_device;
  config.transports = options.transports;
  config.network_only = options.network_only;
  config.flight_recorder = options.flight_recorder;
  config.credentials = options.credentials;
  config.timeout_ms = options.timeout_ms;
  const uint64_t since_ns = MonotonicNs();
  const auto registering = std::make_shared<Registering>();
  registering->wait = WaitReport(since_ns, since_ns + options.timeout_ms * kNsPerMs);
  // What goes wrong comes back as a status; the program's own output stays its own.
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config, [registering, notices](const LogEvent& event) {
    if (event.kind == EventKind::kFlightRecorded) notices->Say(absl::StrCat("colocated server: ", event.text));
    const bool waits = event.kind == EventKind::kLeaseMissing || event.kind == EventKind::kLinkMissing;
    const uint64_t now_ns = MonotonicNs();
    if (registering->over || !waits || !registering->wait.TakeDue(now_ns)) return;
    notices->Say(
        absl::StrCat(registering->wait.WaitedFor("its colocated server to register", now_ns), ": ", event.text));
  });
  registering->over = true;
  if (!server.ok()) return explain(server.status());
  return std::unique_ptr<ColocatedServer>(new ColocatedServer(*std::move(server), notices));
}

void ColocatedServer::Leave(uint64_t wait_ms) {
  const uint64_t since_ns = MonotonicNs();
  const uint64_t until_ns = since_ns + wait_ms * kNsPerMs;
  WaitReport wait(since_ns, until_ns);
  server_->Drain("its rank leaves the job");
  for (uint64_t now_ns = since_ns; now_ns < until_ns && !server_->drained(); now_ns = MonotonicNs()) {
    if (wait.TakeDue(now_ns)) {
      notices_->Say(absl::StrCat(wait.WaitedFor("the other ranks to leave this rank's colocated server", now_ns), ": ",
                                 server_->open_groups()));
    }
    std::this_thread::sleep_for(kDrainPoll);
  }
  server_->Stop("its rank left the job");
}

}  // namespace shoal
