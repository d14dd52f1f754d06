#include "perf/local_processes.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "perf/rank_process.h"
#include "perf/session.h"
#include "shoal/worker.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kStopGrace = std::chrono::seconds(10);  // that a rank or a service has to end after it was told to
constexpr char kLocalAddress[] = "127.0.0.1";

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("ended with code ", WEXITSTATUS(wait_status));
}

// The children of this process, by name. The destructor kills those that are left.
class Children {
 public:
  Children() = default;
  ~Children() { Kill(); }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // `body` runs in the child and returns its exit code. Unavailable: fork failed.
  absl::Status Fork(const std::string& name, const std::function<int()>& body) {
    std::fflush(nullptr);
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) return absl::UnavailableError(absl::StrCat("can't fork ", name, ": ", std::strerror(errno)));
    if (child > 0) {
      names_[child] = name;
      return absl::OkStatus();
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kExitFailed);  // it died before the line above
    const int code = body();
    std::fflush(nullptr);
    // No destructors of globals: they belong to the parent's copy.
    _exit(code);
  }

  // Waits at most until `deadline` for one child to end. True: one did, and `name` and `wait_status` say which and how.
  bool WaitForOne(Clock::time_point deadline, std::string* name, int* wait_status) {
    for (;;) {
      for (const auto& [child, child_name] : names_) {
        if (waitpid(child, wait_status, WNOHANG) != child) continue;
        *name = child_name;
        names_.erase(child);
        return true;
      }
      if (names_.empty() || Clock::now() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void Kill() {
    for (const auto& [child, name] : names_) kill(child, SIGKILL);
    for (const auto& [child, name] : names_) waitpid(child, nullptr, 0);
    names_.clear();
  }

  bool empty() const { return names_.empty(); }

 private:
  std::map<pid_t, std::string> names_;
};

// A scheduler or server in a process of its own. It writes its address to one pipe and runs until the other one closes.
class ServiceProcess {
 public:
  using StartService = std::function<shoal_code(shoal_service** service, shoal_error* error)>;

  static absl::StatusOr<ServiceProcess> Start(const std::string& name, uint32_t timeout_s, Children* children,
                                              const StartService& start) {
    int report[2];
    int stop[2];
    if (pipe(report) != 0 || pipe(stop) != 0) {
      return absl::UnavailableError(absl::StrCat("can't make a pipe for ", name, ": ", std::strerror(errno)));
    }
    absl::Status forked = children->Fork(name, [&] {
      close(report[0]);
      close(stop[1]);
      return Service(name, start, report[1], stop[0]);
    });
    close(report[1]);
    close(stop[0]);
    if (!forked.ok()) return forked;
    ServiceProcess process;
    process.stop_fd_ = stop[1];
    process.address_ = ReadLine(report[0], timeout_s);
    close(report[0]);
    if (process.address_.empty()) {
      return absl::UnavailableError(
          absl::StrCat(name, " did not start within ", timeout_s, " s; give it longer with --timeout"));
    }
    return process;
  }

  const std::string& address() const { return address_; }
  void Stop() { close(stop_fd_); }

 private:
  // In the child.
  static int Service(const std::string& name, const StartService& start, int report_fd, int stop_fd) {
    shoal_error error{};
    shoal_service* service = nullptr;
    if (start(&service, &error) != SHOAL_OK) {
      std::fprintf(stderr, "shoal-perf %s: %s\n", name.c_str(), error.message);
      return kExitFailed;
    }
    const std::string line = absl::StrCat(shoal_service_address(service), "\n");
    if (write(report_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return kExitFailed;
    close(report_fd);
    char nothing;
    while (read(stop_fd, &nothing, 1) < 0 && errno == EINTR) {
    }
    shoal_service_stop(service);
    return kExitOk;
  }

  // Empty: the other end closed without a line, or the time is over.
  static std::string ReadLine(int fd, uint32_t timeout_s) {
    const Clock::time_point deadline = Clock::now() + std::chrono::seconds(timeout_s);
    std::string line;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      pollfd waiting{fd, POLLIN, 0};
      const int ready = left <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return "";
      char letter;
      if (read(fd, &letter, 1) != 1) return "";
      if (letter == '\n') return line;
      line.push_back(letter);
    }
  }

  std::string address_;
  int stop_fd_ = -1;
};

shoal_code StartServer(const PerfOptions& options, const std::string& scheduler, const std::string& name,
                       shoal_service** service, shoal_error* error) {
  shoal_server_options server{};
  server.scheduler = scheduler.c_str();
  server.advertise = kLocalAddress;
  server.name = name.c_str();
  const std::string first_device = options.net_device.substr(0, options.net_device.find('/'));
  server.net_device = first_device.empty() ? nullptr : first_device.c_str();
  server.transports = options.transports.empty() ? nullptr : options.transports.c_str();
  server.network_only = options.network_only ? 1 : 0;
  server.flight_recorder = options.flight_recorder.c_str();
  server.timeout_ms = uint64_t{1000} * options.timeout_s;
  return shoal_start_server(&server, service, error);
}

// Starts a scheduler and options.servers servers; returns the scheduler's address.
absl::StatusOr<std::string> StartCluster(const PerfOptions& options, Children* children,
                                         std::vector<ServiceProcess>* services) {
  absl::StatusOr<ServiceProcess> scheduler =
      ServiceProcess::Start("scheduler", options.timeout_s, children, [](shoal_service** service, shoal_error* error) {
        const std::string listen = absl::StrCat(kLocalAddress, ":0");
        shoal_scheduler_options scheduler_options{};
        scheduler_options.listen = listen.c_str();
        return shoal_start_scheduler(&scheduler_options, service, error);
      });
  if (!scheduler.ok()) return scheduler.status();
  const std::string address = scheduler->address();
  services->push_back(*scheduler);
  for (uint32_t i = 0; i < options.servers; ++i) {
    const std::string name = absl::StrCat("shoal-perf-server-", i);
    absl::StatusOr<ServiceProcess> server =
        ServiceProcess::Start(name, options.timeout_s, children, [&](shoal_service** service, shoal_error* error) {
          return StartServer(options, address, name, service, error);
        });
    if (!server.ok()) return server.status();
    services->push_back(*server);
  }
  return address;
}

// Waits for all ranks. A service that ends before them is a failure as well.
int CollectRanks(const PerfOptions& options, Children* ranks, Children* services) {
  int code = kExitOk;
  Clock::time_point deadline = Clock::time_point::max();
  std::string name;
  int wait_status = 0;
  while (!ranks->empty()) {
    const Clock::time_point slice = std::min(deadline, Clock::now() + std::chrono::milliseconds(200));
    bool failed = false;
    if (ranks->WaitForOne(slice, &name, &wait_status)) failed = wait_status != 0;
    if (!failed && services->WaitForOne(Clock::now(), &name, &wait_status)) failed = true;
    if (failed) {
      std::fprintf(stderr, "shoal-perf: %s %s\n", name.c_str(), DescribeEnd(wait_status).c_str());
      code = kExitFailed;
      if (deadline == Clock::time_point::max())
        deadline = Clock::now() + std::chrono::seconds(options.timeout_s) + kStopGrace;
    }
    if (Clock::now() >= deadline) {
      std::fprintf(stderr, "shoal-perf: killing the ranks that are left %u s after the first failure\n",
                   options.timeout_s);
      ranks->Kill();
    }
  }
  return code;
}

}  // namespace

int RunLocalRanks(const PerfOptions& options, const std::vector<std::string>& arguments) {
  Children service_children;
  Children rank_children;
  std::vector<ServiceProcess> services;
  PerfOptions of_rank = options;
  if (options.scheduler.empty()) {
    const absl::StatusOr<std::string> scheduler = StartCluster(options, &service_children, &services);
    if (!scheduler.ok()) {
      std::fprintf(stderr, "shoal-perf: %s\n", std::string(scheduler.status().message()).c_str());
      return kExitFailed;
    }
    of_rank.scheduler = *scheduler;
    of_rank.credentials = {};  // all is within this node
  }
  if (of_rank.job.empty()) of_rank.job = absl::StrCat("shoal-perf-", getpid());
  for (uint32_t rank = 0; rank < options.spawn; ++rank) {
    of_rank.rank = rank;
    const absl::Status forked =
        rank_children.Fork(absl::StrCat("rank ", rank), [&] { return RunRank(of_rank, arguments); });
    if (!forked.ok()) {
      std::fprintf(stderr, "shoal-perf: %s\n", std::string(forked.message()).c_str());
      return kExitFailed;
    }
  }
  const int code = CollectRanks(options, &rank_children, &service_children);
  // Servers end first, because they say goodbye to the scheduler.
  for (size_t i = services.size(); i-- > 0;) services[i].Stop();
  std::string name;
  int wait_status = 0;
  while (service_children.WaitForOne(Clock::now() + kStopGrace, &name, &wait_status)) {
  }
  return code;
}

}  // namespace shoal
