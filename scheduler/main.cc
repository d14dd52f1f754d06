// shoal-scheduler: keeps the membership of a cluster and the shard map.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/log_event.h"
#include "core/now.h"
#include "core/version.h"
#include "metrics/http_server.h"
#include "process/audit_log.h"
#include "process/event_log.h"
#include "process/listen_address.h"
#include "process/open_files.h"
#include "program/option_table.h"
#include "proto/credentials.h"
#include "scheduler/config/scheduler_config.h"
#include "scheduler/page/cluster_page.h"
#include "scheduler/scheduler.h"
#include "scheduler/scheduler_metrics.h"

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int FailUsage(const absl::Status& status) {
  std::fprintf(stderr, "shoal-scheduler: %s\n", std::string(status.message()).c_str());
  return kExitUsage;
}

int Fail(const absl::Status& status, shoal::EventLog* log) {
  log->Write({.kind = shoal::EventKind::kSchedulerFailed, .text = std::string(status.message())});
  return kExitFailure;
}

// What people read on standard output. In JSON the log alone says it.
void PrintStart(const shoal::SchedulerConfig& config, const std::string& effective, const std::string& address) {
  std::printf("shoal-scheduler %s with:\n%s", shoal::kSoftwareVersion, effective.c_str());
  if (config.state_file.empty() && config.store.empty()) {
    std::printf("The state is kept in memory and lost at a restart; --state-file PATH keeps it in a file.\n");
  }
  std::printf("shoal-scheduler listening on %s\n", address.c_str());
  std::fflush(stdout);
}

// Null: none is wanted. It is ready while it answers: a scheduler that does not lead passes calls on.
absl::StatusOr<std::unique_ptr<shoal::HttpServer>> StartHttp(const shoal::SchedulerConfig& config,
                                                             const shoal::Scheduler* scheduler,
                                                             shoal::ClusterPage* page, shoal::EventLog* log) {
  if (config.http.empty()) return nullptr;
  auto http = shoal::HttpServer::Start(
      config.http,
      {.metrics = [scheduler, log] { return shoal::SchedulerMetricsText(scheduler->numbers().get(), log->left_out()); },
       .ready = [] { return absl::OkStatus(); },
       .files = page->Files()});
  if (!http.ok()) return http.status();
  log->Write({.kind = shoal::EventKind::kHttpListening,
              .text = absl::StrCat("page, metrics and health on http://", (*http)->address())});
  return *std::move(http);
}

// The scheduler, once nobody else has its addresses and its state file. Cancelled: one of the signals came before.
absl::StatusOr<std::unique_ptr<shoal::Scheduler>> StartScheduler(const shoal::SchedulerConfig& config,
                                                                 const sigset_t& stop_signals,
                                                                 const shoal::EventSink& sink, shoal::EventLog* log) {
  absl::StatusOr<std::unique_ptr<shoal::Scheduler>> scheduler;
  const auto attempt = [&] {
    if (!config.http.empty()) {
      // Before the scheduler serves anybody.
      const absl::Status status = shoal::CheckHttpAddress(config.http, config.insecure_network);
      if (!status.ok()) return status;
    }
    scheduler = shoal::Scheduler::Start(config, sink);
    return scheduler.status();
  };
  const absl::Status status = shoal::RetryWhileTaken(
      attempt,
      [log](std::string line) { log->Write({.kind = shoal::EventKind::kAddressTaken, .text = std::move(line)}); },
      [&stop_signals](uint64_t ns) {
        const timespec timeout = {.tv_sec = static_cast<time_t>(ns / shoal::kNsPerS),
                                  .tv_nsec = static_cast<int64_t>(ns % shoal::kNsPerS)};
        return sigtimedwait(&stop_signals, nullptr, &timeout) > 0;
      });
  if (!status.ok()) return status;
  return scheduler;
}

// Serves until SIGINT or SIGTERM, which all threads started from here on leave to this one.
int Serve(const shoal::SchedulerConfig& config, shoal::LogFormat format, const std::string& effective) {
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGINT);
  sigaddset(&stop_signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  const absl::StatusOr<std::unique_ptr<shoal::EventLog>> started = shoal::EventLog::Start(format);
  if (!started.ok()) {
    FailUsage(started.status());
    return kExitFailure;
  }
  shoal::EventLog* const log = started->get();
  std::unique_ptr<shoal::AuditLog> audit;
  if (!config.audit_log.empty()) {
    absl::StatusOr<std::unique_ptr<shoal::AuditLog>> opened = shoal::AuditLog::Start(config.audit_log, log->sink());
    if (!opened.ok()) return Fail(opened.status(), log);
    audit = *std::move(opened);
  }
  const auto sink = [log, &audit, says_all = config.log_events](const shoal::LogEvent& event) {
    if (audit != nullptr) audit->Write(event);
    if (says_all || shoal::LevelOf(event.kind) != shoal::EventLevel::kInfo) log->Write(event);
  };
  const auto scheduler = StartScheduler(config, stop_signals, sink, log);
  if (absl::IsCancelled(scheduler.status())) {
    log->Write({.kind = shoal::EventKind::kSchedulerStopped, .text = std::string(scheduler.status().message())});
    return 0;
  }
  if (!scheduler.ok()) return Fail(scheduler.status(), log);
  const std::string address = (*scheduler)->address();
  // The scheduler has read them, and tells of changes.
  const absl::StatusOr<shoal::Credentials> credentials = shoal::Credentials::Load(config.credentials, nullptr);
  if (!credentials.ok()) return Fail(credentials.status(), log);
  shoal::ClusterPage page(address, *credentials);
  const auto http = StartHttp(config, scheduler->get(), &page, log);
  if (!http.ok()) return Fail(http.status(), log);
  if (format == shoal::LogFormat::kText) PrintStart(config, effective, address);
  log->Write({.kind = shoal::EventKind::kSchedulerListening,
              .text = absl::StrCat("Shoal ", shoal::kSoftwareVersion, " listens on ", address)});
  if (std::string open = shoal::OpenToNetwork(config); !open.empty()) {
    log->Write({.kind = shoal::EventKind::kInsecureNetwork, .text = std::move(open)});
  }

  int signal_number = 0;
  sigwait(&stop_signals, &signal_number);
  (*scheduler)->Stop();
  log->Write({.kind = shoal::EventKind::kSchedulerStopped, .text = absl::StrCat("stopped by signal ", signal_number)});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  shoal::SchedulerConfig config;
  config.log_events = true;
  shoal::OptionTable options(
      "shoal-scheduler",
      "Keeps the membership of a Shoal cluster and the shard map: reduction servers register here, workers join jobs "
      "here. Gradients never pass through it.");
  shoal::DeclareSchedulerOptions(&config, &options);
  const absl::Status status = options.Parse({argv + 1, argv + argc});
  if (!status.ok()) return FailUsage(status);
  if (!options.answer().empty()) {
    std::printf("%s", options.answer().c_str());
    return 0;
  }
  const absl::StatusOr<shoal::LogFormat> format = shoal::ParseLogFormat(config.log_format);
  if (!format.ok()) return FailUsage(format.status());
  shoal::RaiseOpenFileLimit();
  // A cipher of TLS 1.2 that no handshake with certificates can agree on, and nothing that is older: gRPC has no other
  // way to say that TLS 1.3 alone is spoken.
  setenv("GRPC_SSL_CIPHER_SUITES", "DHE-PSK-AES256-GCM-SHA384", 1);
  return Serve(config, *format, options.Effective());
}
