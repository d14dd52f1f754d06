#include "process/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "process/clock.h"
#include "process/event_log.h"
#include "process/start_thread.h"

namespace shoal {
namespace {

constexpr std::chrono::seconds kBetweenTries{1};
constexpr mode_t kMode = 0640;

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Start(const std::string& path, EventSink log) {
  std::unique_ptr<AuditLog> audit(new AuditLog(path, std::move(log)));
  if (absl::Status status = audit->Open(); !status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--audit-log: ", status.message(), "; make its folder, or give one that may be written"));
  }
  absl::StatusOr<std::thread> thread = StartThread("shoal-audit", [raw = audit.get()] { raw->Run(); });
  if (!thread.ok()) return thread.status();
  audit->thread_ = *std::move(thread);
  return audit;
}

AuditLog::~AuditLog() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void AuditLog::Write(const LogEvent& event) {
  if (event.call == nullptr) return;
  std::string line =
      FormatEvent(event, event.at_unix_ms != 0 ? event.at_unix_ms : ReadNow().unix_ms, LogFormat::kJson) + "\n";
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() >= kMostWaiting) {
      ++lost_;
      return;
    }
    waiting_.push_back(std::move(line));
  }
  changed_.notify_all();
}

void AuditLog::Run() {
  std::deque<std::string> lines;
  bool ends = false;
  absl::Status status;
  while (!ends || (status.ok() && !lines.empty())) {
    {
      MutexLock lock(mutex_);
      if (lines.empty()) {
        changed_.wait(lock, [this]() SHOAL_REQUIRES(mutex_) { return ending_ || !waiting_.empty(); });
        lines.swap(waiting_);
      } else {
        changed_.wait_for(lock, kBetweenTries, [this]() SHOAL_REQUIRES(mutex_) { return ending_; });
      }
      ends = ending_;
    }
    status = AppendAll(&lines);
    TellTrouble(status);
    const MutexLock lock(mutex_);
    if (ends && status.ok()) lines.swap(waiting_);
  }
}

absl::Status AuditLog::Open() {
  struct stat named {};
  struct stat open_one {};
  const bool has_name = stat(path_.c_str(), &named) == 0;
  if (file_.get() >= 0 && has_name && fstat(file_.get(), &open_one) == 0 && named.st_ino == open_one.st_ino &&
      named.st_dev == open_one.st_dev) {
    return absl::OkStatus();
  }
  FileDescriptor file(open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode));
  if (file.get() < 0) {
    return absl::UnavailableError(absl::StrCat(path_, " can't be opened: ", std::strerror(errno)));
  }
  file_ = std::move(file);
  written_bytes_ = 0;  // the whole line goes to the new file
  return absl::OkStatus();
}

absl::Status AuditLog::Append(const std::string& line) {
  while (written_bytes_ < line.size()) {
    const ssize_t written = write(file_.get(), line.data() + written_bytes_, line.size() - written_bytes_);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::UnavailableError(absl::StrCat(path_, " can't be written: ", std::strerror(errno)));
    written_bytes_ += static_cast<size_t>(written);
  }
  written_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status AuditLog::AppendAll(std::deque<std::string>* lines) {
  while (!lines->empty()) {
    if (absl::Status status = Open(); !status.ok()) return status;
    if (absl::Status status = Append(lines->front()); !status.ok()) return status;
    lines->pop_front();
  }
  // A pipe or a device has no disk to be on.
  if (fdatasync(file_.get()) != 0 && errno != EINVAL && errno != EROFS) {
    return absl::UnavailableError(absl::StrCat(path_, " can't be brought to the disk: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void AuditLog::TellTrouble(const absl::Status& status) {
  if (status.ok() != in_trouble_ || !log_) return;  // as before
  in_trouble_ = !status.ok();
  if (in_trouble_) {
    return log_({.kind = EventKind::kAuditLogFailed,
                 .text = absl::StrCat(status.message(), "; calls go on, and up to ", kMostWaiting,
                                      " lines wait until it can be written again")});
  }
  uint64_t lost = 0;
  {
    const MutexLock lock(mutex_);
    lost = std::exchange(lost_, 0);
  }
  log_({.kind = EventKind::kAuditLogWritten,
        .text = absl::StrCat(path_, " is written again; it lacks ", lost, " lines, for which there was no room")});
}

}  // namespace shoal
