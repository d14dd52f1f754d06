#include "cli/bandwidth.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/now.h"
#include "process/clock.h"

namespace shoal::cli {
namespace {

constexpr uint64_t kMeasuringMs = 15'000;  // five times what it takes on the slowest way
constexpr uint64_t kEndPollMs = 5;
// Exit codes of shoal-perf: it could not measure, and it does not know this command line.
constexpr int kPerfFailed = 1;
constexpr int kPerfUsage = 2;
constexpr size_t kMostOutputBytes = 64 << 10;

// Beside the program that runs. Empty: there is none.
std::string PathOfPerf() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path path = self.parent_path() / "shoal-perf";
  return !error && access(path.c_str(), X_OK) == 0 ? path.string() : "";
}

struct Output {
  int exit_code = -1;  // -1: it did not end by itself
  std::string text;    // of both its streams
};

// A child whose streams come here. It is killed at the end if it has not ended.
class Child {
 public:
  Child() = default;
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (read_fd_ >= 0) close(read_fd_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  absl::Status Start(std::vector<std::string> arguments) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat("no pipe: ", strerror(errno)));
    }
    read_fd_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const int result = posix_spawn(&pid_, pointers[0], &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (result == 0) return absl::OkStatus();
    pid_ = -1;
    return absl::NotFoundError(absl::StrCat("can't start ", arguments[0], ": ", strerror(result)));
  }

  // What it says beyond kMostOutputBytes is lost.
  Output ReadToEnd(uint64_t deadline_ns) {
    Output output;
    std::array<char, 4096> buffer{};
    bool open = true;
    while (MonotonicNs() < deadline_ns) {
      if (!open) {
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) == pid_) {
          pid_ = -1;
          if (WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
          return output;
        }
      }
      // Once its streams have ended it ends as well, any moment.
      pollfd readable{.fd = open ? read_fd_ : -1, .events = POLLIN, .revents = 0};
      const uint64_t wait_ms = open ? NsUntil(deadline_ns) / kNsPerMs + 1 : kEndPollMs;
      if (poll(&readable, 1, static_cast<int>(wait_ms)) <= 0 || !open) continue;
      const ssize_t size = read(read_fd_, buffer.data(), buffer.size());
      open = size > 0 || (size < 0 && errno == EINTR);
      if (size > 0 && output.text.size() < kMostOutputBytes) {
        output.text.append(buffer.data(), static_cast<size_t>(size));
      }
    }
    return output;
  }

 private:
  pid_t pid_ = -1;
  int read_fd_ = -1;
};

// "shoal-perf: why", without the name; empty: it said nothing.
std::string LastLine(const std::string& text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::StripAsciiWhitespace(text), '\n');
  return std::string(absl::StripPrefix(lines.back(), "shoal-perf: "));
}

}  // namespace

absl::StatusOr<Bandwidth> MeasureBandwidth(const std::vector<std::string>& addresses, const std::string& scheduler,
                                           const DataPlane& data_plane, const CredentialFiles& credentials,
                                           uint64_t timeout_ms) {
  const std::string perf = PathOfPerf();
  if (perf.empty()) {
    return absl::NotFoundError("there is no shoal-perf, which measures it, in the folder of this program");
  }
  const uint64_t timeout_s = std::max<uint64_t>((timeout_ms + 999) / 1000, 1);
  Child child;
  absl::Status started = child.Start(
      {perf, absl::StrCat("--way=", absl::StrJoin(addresses, ",")), absl::StrCat("--scheduler=", scheduler),
       absl::StrCat("--net-device=", data_plane.net_device), absl::StrCat("--transports=", data_plane.transports),
       absl::StrCat("--timeout=", timeout_s), absl::StrCat("--tls-cert=", credentials.certificate),
       absl::StrCat("--tls-key=", credentials.key), absl::StrCat("--tls-ca=", credentials.authorities)});
  if (!started.ok()) return started;
  const Output output = child.ReadToEnd(DeadlineIn(timeout_s * 1000 + kMeasuringMs));
  if (output.exit_code == 0) return ParseWay(output.text);
  const std::string said = LastLine(output.text);
  if (output.exit_code == kPerfUsage) {
    return absl::NotFoundError(absl::StrCat("the shoal-perf in the folder of this program refused to measure: ", said));
  }
  if (output.exit_code == kPerfFailed) return absl::UnavailableError(said);
  return absl::InternalError(absl::StrCat("shoal-perf did not end, or died", said.empty() ? "" : ": ", said));
}

absl::StatusOr<Bandwidth> ParseWay(const std::string& output) {
  for (const absl::string_view line : absl::StrSplit(output, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty() || words[0] != "way") continue;
    Bandwidth bandwidth;
    int found = 0;
    for (absl::string_view word : words) {
      if (absl::ConsumePrefix(&word, "mbit_per_s=")) found += absl::SimpleAtod(word, &bandwidth.mbit_per_s) ? 1 : 0;
      if (absl::ConsumePrefix(&word, "processor_share=")) {
        found += absl::SimpleAtod(word, &bandwidth.processor_share) ? 1 : 0;
      }
      if (absl::ConsumePrefix(&word, "transports=")) bandwidth.transports = std::string(word);
    }
    if (found == 2 && !bandwidth.transports.empty()) return bandwidth;
  }
  return absl::InternalError(absl::StrCat("shoal-perf printed what this release does not read: \"", LastLine(output),
                                          "\"; install both of one release"));
}

}  // namespace shoal::cli
