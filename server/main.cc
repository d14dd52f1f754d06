// shoal-server: a reduction server as a process of its own.
//
// Exit codes: 0 after SIGTERM, SIGINT or shoalctl drain; 1 when it can't start or lost its place in the cluster; 2 for
// wrong options.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/now.h"
#include "core/version.h"
#include "core/wait_report.h"
#include "metrics/http_server.h"
#include "net/ucx/ucx_api.h"
#include "net/wake_up.h"
#include "process/clock.h"
#include "process/event_log.h"
#include "process/listen_address.h"
#include "process/mutex.h"
#include "process/open_files.h"
#include "program/option_table.h"
#include "server/server.h"
#include "server/server_config.h"
#include "server/server_metrics.h"

namespace shoal {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int64_t kDrainPollNs = 20 * kNsPerMs;
constexpr uint64_t kOneSignalNs = kNsPerS;
constexpr unsigned kStopPatienceS = 5;

int FailUsage(const absl::Status& status) {
  std::cerr << "shoal-server: " << status.message() << '\n';
  return kExitUsage;
}

int Fail(const absl::Status& status, EventLog* log) {
  log->Write({.kind = EventKind::kServerFailed, .text = std::string(status.message())});
  return kExitFailure;
}

// Before it has served: a signal has come, or it can't start.
int EndEarly(const absl::Status& status, EventLog* log) {
  if (!absl::IsCancelled(status)) return Fail(status, log);
  log->Write({.kind = EventKind::kServerStopped, .text = std::string(status.message())});
  return kExitOk;
}

// From now on SIGTERM and SIGINT only make the descriptor readable; threads started later inherit that. -1: the kernel
// refused.
int CatchSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) return -1;
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

std::string TakeSignalName(int signal_fd) {
  signalfd_siginfo info{};
  if (read(signal_fd, &info, sizeof(info)) != sizeof(info)) return "a signal";
  return info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT";
}

// Ends the process with kExitFailure if it has not ended by itself after so many seconds.
void EndWithin(unsigned seconds) {
  signal(SIGALRM, [](int) { _exit(kExitFailure); });
  alarm(seconds);
}

// The server as the threads of HTTP see it: none before it is registered, and when it ends.
class ShownServer {
 public:
  void Show(const Server* server) {
    const MutexLock lock(mutex_);
    server_ = server;
  }
  // Its numbers are shown until it ends; it is not ready any more.
  void Leave() {
    const MutexLock lock(mutex_);
    leaves_ = true;
  }

  std::string Metrics(uint64_t slot_memory_bytes, uint64_t log_events_left_out) const {
    const MutexLock lock(mutex_);
    if (server_ == nullptr) return ServerMetricsText(nullptr, slot_memory_bytes, log_events_left_out);
    const ServerCounters counters = server_->counters();
    return ServerMetricsText(&counters, slot_memory_bytes, log_events_left_out);
  }

  // A registered server is ready also while the scheduler is away: its groups continue.
  absl::Status Ready() const {
    const MutexLock lock(mutex_);
    if (leaves_ || (server_ != nullptr && server_->asked_to_drain())) {
      return absl::UnavailableError("this server leaves the cluster");
    }
    if (server_ == nullptr) return absl::UnavailableError("this server has not registered with the scheduler yet");
    return server_->failure();
  }

 private:
  mutable Mutex mutex_;
  const Server* server_ SHOAL_GUARDED_BY(mutex_) = nullptr;
  bool leaves_ SHOAL_GUARDED_BY(mutex_) = false;
};

// Null: none is wanted. Cancelled: a signal has come before the address was free.
absl::StatusOr<std::unique_ptr<HttpServer>> StartHttp(const ServerConfig& config, const ShownServer* shown,
                                                      EventLog* log, int signal_fd) {
  if (config.http.empty()) return nullptr;
  const absl::Status status = RetryWhileTaken(
      [&config] { return CheckHttpAddress(config.http, config.insecure_network); },
      [log](std::string line) { log->Write({.kind = EventKind::kAddressTaken, .text = std::move(line)}); },
      [signal_fd](uint64_t ns) { return WaitReadable({signal_fd}, static_cast<int64_t>(ns)); });
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<HttpServer>> http = HttpServer::Start(
      config.http,
      {.metrics = [bytes = config.slot_memory_bytes, shown, log] { return shown->Metrics(bytes, log->left_out()); },
       .ready = [shown] { return shown->Ready(); }});
  if (!http.ok()) return http.status();
  log->Write(
      {.kind = EventKind::kHttpListening, .text = absl::StrCat("metrics and health on http://", (*http)->address())});
  if (OthersMayReach(config.http)) {
    log->Write(
        {.kind = EventKind::kInsecureNetwork, .text = "everybody who reaches the address of --http can read metrics"});
  }
  return *std::move(http);
}

// `by_operator`: the server has begun to drain by itself; `why` otherwise is a signal's name. False: the server goes
// on, or has to end for another reason: an operator asked it to stay before all groups had ended, or it lost its place.
bool DrainAndStop(const ServerConfig& config, bool by_operator, const std::string& why, int signal_fd, Server* server,
                  ShownServer* shown, EventLog* log) {
  log->Write({.kind = EventKind::kServerLeaving,
              .text = absl::StrCat(why, ": leaving the cluster; open groups get ", config.drain_timeout_ms,
                                   " ms to end; another signal ends them at once, the same one after a second")});
  if (!by_operator) server->Drain(why);
  const uint64_t since_ns = MonotonicNs();
  const uint64_t until_ns = since_ns + config.drain_timeout_ms * kNsPerMs;
  WaitReport wait(since_ns, until_ns);
  bool signalled_again = false;
  bool drained = false;
  for (uint64_t now_ns = since_ns; now_ns < until_ns && !signalled_again; now_ns = MonotonicNs()) {
    drained = server->drained();
    if (drained) break;
    if (wait.TakeDue(now_ns)) {
      log->Write({.kind = EventKind::kServerWaitsForGroups,
                  .text = absl::StrCat(wait.WaitedFor("open groups to end", now_ns), ": ", server->open_groups())});
    }
    // GNU timeout, for example, signals a process and then its group: within a second that is one signal.
    if (WaitReadable({signal_fd}, kDrainPollNs)) {
      signalled_again = TakeSignalName(signal_fd) != why || MonotonicNs() - since_ns > kOneSignalNs;
    }
    if (by_operator && !signalled_again && (!server->asked_to_drain() || !server->failure().ok())) return false;
  }
  shown->Leave();
  if (!drained) {
    const std::string open = server->open_groups();
    log->Write({.kind = EventKind::kServerCutsGroups,
                .text = absl::StrCat("stopping although groups are open; their workers will see a lost server: ",
                                     open.empty() ? "there was no time to find out which" : open)});
  }
  shown->Show(nullptr);
  server->Stop(why);
  log->Write({.kind = EventKind::kServerStopped, .text = absl::StrCat("stopped after ", why)});
  return true;
}

int Serve(const ServerConfig& config, LogFormat format, EventLog* log, int signal_fd) {
  ShownServer shown;
  const absl::StatusOr<std::unique_ptr<HttpServer>> http = StartHttp(config, &shown, log, signal_fd);
  if (!http.ok()) return EndEarly(http.status(), log);
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(config, log->sink(), signal_fd);
  if (!server.ok()) return EndEarly(server.status(), log);
  shown.Show(server->get());
  const std::string addresses = absl::StrJoin((*server)->addresses(), ",");
  if (format == LogFormat::kText) {
    std::cout << "shoal-server " << (*server)->name() << " listening on " << addresses << '\n' << std::flush;
  }
  log->Write({.kind = EventKind::kServerListening,
              .subject = absl::StrCat("server ", (*server)->name()),
              .text = absl::StrCat("Shoal ", kSoftwareVersion, " listens on ", addresses)});
  while (true) {
    while (!WaitReadable({signal_fd, (*server)->end_fd()}, std::nullopt)) {
    }
    if (const absl::Status failure = (*server)->failure(); !failure.ok()) {
      shown.Leave();
      shown.Show(nullptr);
      const int exit_code = Fail(failure, log);
      EndWithin(kStopPatienceS);  // a thread of it may hang: that is what servers are evicted for
      (*server)->Stop("lost its place");
      return exit_code;
    }
    const bool asked = (*server)->asked_to_drain();
    // It was called back before this thread saw that it was to leave.
    if (!asked && !WaitReadable({signal_fd}, 0)) continue;
    if (!asked) shown.Leave();
    const std::string why = asked ? "shoalctl drain" : TakeSignalName(signal_fd);
    if (DrainAndStop(config, asked, why, signal_fd, server->get(), &shown, log)) return kExitOk;
  }
}

int Main(const std::vector<std::string>& arguments) {
  ServerConfig config;
  OptionTable options(
      "shoal-server",
      "A reduction server of a Shoal cluster: sums the chunks that workers push and sends the sums back. "
      "It takes --scheduler HOST:PORT and --advertise IP at least.\n"
      "SIGTERM, SIGINT and `shoalctl drain` make it leave the cluster and stop.");
  DeclareServerOptions(&config, &options);
  absl::Status status = options.Parse(arguments);
  if (status.ok() && !options.answer().empty()) {
    std::cout << options.answer() << std::flush;
    return kExitOk;
  }
  if (status.ok()) status = CheckServerConfig(config);
  const absl::StatusOr<LogFormat> format = ParseLogFormat(config.log_format);
  status.Update(format.status());
  if (!status.ok()) return FailUsage(status);
  // In JSON the log alone says what people read on standard output.
  if (*format == LogFormat::kText) {
    std::cout << "shoal-server " << kSoftwareVersion << " with\n" << options.Effective() << std::flush;
  }
  RaiseOpenFileLimit();
  const int signal_fd = CatchSignals();
  const absl::StatusOr<std::unique_ptr<EventLog>> log = EventLog::Start(*format);
  if (!log.ok()) {
    std::cerr << "shoal-server: " << log.status().message() << '\n';
    return kExitFailure;
  }
  if (signal_fd < 0) return Fail(absl::InternalError("the kernel returned no descriptor for signals"), log->get());
  return Serve(config, *format, log->get(), signal_fd);
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  shoal::PrepareUcxEnvironment();
  return shoal::Main({argv + 1, argv + argc});
}
