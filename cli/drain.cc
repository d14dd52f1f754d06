#include "cli/drain.h"

#include <cstdint>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/tables.h"

namespace shoal::cli {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{200};
constexpr std::chrono::seconds kQuietInterval{10};  // at least one line in that time

std::string AskedText(const DrainOptions& options, const v1::DrainServerResponse& asked) {
  std::string text =
      absl::StrCat("server ", options.server, asked.was_draining() ? " drains already" : " drains", "\n");
  if (asked.groups_kept() > 0) {
    absl::StrAppend(
        &text, "WARNING: it is the last server of ", asked.groups_kept(),
        " open group(s). It serves them as long as its --drain-timeout allows; start another server, and they "
        "will move there\n");
  }
  return text;
}

std::string ProgressText(const v1::ServerStatus& server) {
  return absl::StrCat("server ", server.name(), " is ", server.state(), ": ", server.load().groups_open(),
                      " group(s) open, ", server.load().peers(), " connected; last heartbeat ",
                      AgeText(server.last_heartbeat_age_ms()), " ago\n");
}

// Watches one process of a server's name from the moment when it was asked to leave.
class DrainWatch {
 public:
  DrainWatch(const DrainOptions& options, const v1::DrainServerResponse& asked, ClusterClient* client,
             std::ostream& out)
      : options_(options), registered_at_unix_ms_(asked.registered_at_unix_ms()), client_(client), out_(out) {}

  absl::Status Wait() {
    const auto deadline = steady_clock::now() + options_.deadline;
    while (true) {
      // If the scheduler restarts, or another takes over, this waits for it as it waits for the server.
      const absl::StatusOr<v1::ServerStatus> server = client_->FindServer(options_.server);
      if (absl::IsNotFound(server.status())) return absl::OkStatus();  // gone, and forgotten already
      if (server.ok()) {
        if (const std::optional<absl::Status> end = Look(*server)) return *end;
      } else if (!absl::IsUnavailable(server.status())) {
        return server.status();
      }
      if (steady_clock::now() >= deadline) return Overdue(server.status());
      std::this_thread::sleep_for(kPollInterval);
    }
  }

  // The server as it was seen last; without a name if the scheduler had forgotten it at once.
  const v1::ServerStatus& last() const { return last_; }

 private:
  // nullopt: the server is still there. Otherwise how it ended.
  std::optional<absl::Status> Look(const v1::ServerStatus& server) {
    // An older scheduler does not say which process it has asked.
    if (registered_at_unix_ms_ == 0) registered_at_unix_ms_ = server.registered_at_unix_ms();
    if (server.registered_at_unix_ms() != registered_at_unix_ms_) {
      Say(absl::StrCat("server ", options_.server, " has left; another process uses its name now\n"));
      return absl::OkStatus();
    }
    last_ = server;
    if (server.state() == "left") {
      Say(absl::StrCat("server ", options_.server, " has left\n"));
      return absl::OkStatus();
    }
    if (server.state() == "lost") {
      return absl::AbortedError(
          absl::StrCat("server ", options_.server, " was lost while it drained: ", server.reason()));
    }
    ShowProgress();
    return std::nullopt;
  }

  void ShowProgress() {
    const auto now = steady_clock::now();
    const uint32_t groups = last_.load().groups_open();
    if (groups == shown_groups_ && now - shown_at_ < kQuietInterval) return;
    shown_groups_ = groups;
    shown_at_ = now;
    Say(ProgressText(last_));
  }

  absl::Status Overdue(const absl::Status& scheduler) const {
    if (!scheduler.ok()) return scheduler;
    return absl::DeadlineExceededError(
        absl::StrCat("server ", options_.server, " has not left within ", AgeText(options_.deadline.count()),
                     ": it is ", last_.state(), " with ", last_.load().groups_open(),
                     " group(s) open, and continues to drain; wait longer with --deadline S, or see its log"));
  }

  void Say(const std::string& line) {
    if (!options_.json) out_ << line << std::flush;
  }

  const DrainOptions& options_;
  uint64_t registered_at_unix_ms_;
  ClusterClient* const client_;
  std::ostream& out_;
  v1::ServerStatus last_;
  std::optional<uint32_t> shown_groups_;
  steady_clock::time_point shown_at_;
};

}  // namespace

absl::Status Drain(const DrainOptions& options, ClusterClient* client, std::ostream& out) {
  const absl::StatusOr<v1::DrainServerResponse> asked = client->DrainServer(options.server);
  if (!asked.ok()) return asked.status();
  if (!options.json) out << AskedText(options, *asked) << std::flush;
  if (!options.wait) {
    if (options.json) out << ToJson(*asked) << "\n";
    return absl::OkStatus();
  }
  DrainWatch watch(options, *asked, client, out);
  const absl::Status status = watch.Wait();
  // One document, at the end, also if it ended badly.
  if (options.json) {
    const std::string server = watch.last().name().empty() ? "" : absl::StrCat(",\"server\":", ToJson(watch.last()));
    out << "{\"drain\":" << ToJson(*asked) << server << "}\n";
  }
  return status;
}

}  // namespace shoal::cli
