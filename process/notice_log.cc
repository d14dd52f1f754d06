#include "process/notice_log.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "process/start_thread.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<NoticeLog>> NoticeLog::Start(std::string prefix, bool quiet) {
  std::unique_ptr<NoticeLog> log(new NoticeLog(std::move(prefix)));
  if (quiet) return log;
  absl::StatusOr<std::thread> thread = StartThread("shoal-notice", [raw = log.get()] { raw->Run(); });
  if (!thread.ok()) return thread.status();
  log->thread_ = *std::move(thread);
  return log;
}

NoticeLog::~NoticeLog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool NoticeLog::Say(std::string line) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() >= kMaxWaitingLines) return false;
  lines_.push_back(std::move(line));
  changed_.notify_all();
  return true;
}

void NoticeLog::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !lines_.empty(); });
    if (lines_.empty()) return;
    const std::string line = absl::StrCat(prefix_, lines_.front(), "\n");
    lines_.pop_front();
    lock.unlock();
    // One call, so that lines of several processes don't mix. An error means that nobody reads: it is ignored.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    lock.lock();
  }
}

}  // namespace shoal
