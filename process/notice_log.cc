#include "process/notice_log.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/utf8.h"
#include "process/start_thread.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<NoticeLog>> NoticeLog::Start(std::string prefix, bool quiet,
                                                            std::chrono::milliseconds patience) {
  std::unique_ptr<NoticeLog> log(new NoticeLog(patience));
  if (quiet) return log;
  absl::StatusOr<std::thread> thread =
      StartThread("shoal-notice", [lines = log->lines_, prefix = std::move(prefix)] { Run(*lines, prefix); });
  if (!thread.ok()) return thread.status();
  log->thread_ = *std::move(thread);
  return log;
}

NoticeLog::~NoticeLog() {
  if (!thread_.joinable()) return;
  bool ended = false;
  {
    MutexLock lock(lines_->mutex);
    lines_->ending = true;
    lines_->changed.notify_all();
    // A slow reader gets all lines; one that reads nothing must not keep the process alive.
    uint64_t written = 0;
    do {
      written = lines_->written;
      lines_->changed.wait_for(
          lock, patience_, [&]() SHOAL_REQUIRES(lines_->mutex) { return lines_->ended || lines_->written != written; });
    } while (!lines_->ended && lines_->written != written);
    ended = lines_->ended;
    lines_->waiting.clear();
  }
  ended ? thread_.join() : thread_.detach();
}

bool NoticeLog::Say(std::string line) {
  const MutexLock lock(lines_->mutex);
  if (lines_->waiting.size() >= kMaxWaitingLines) return false;
  lines_->waiting.push_back(std::move(line));
  lines_->changed.notify_all();
  return true;
}

void NoticeLog::Run(Lines& lines, const std::string& prefix) {
  MutexLock lock(lines.mutex);
  while (true) {
    lines.changed.wait(lock, [&lines]() SHOAL_REQUIRES(lines.mutex) { return lines.ending || !lines.waiting.empty(); });
    if (lines.waiting.empty()) break;
    const std::string line = absl::StrCat(prefix, EscapeUnprintable(lines.waiting.front(), "\n\t"), "\n");
    lines.waiting.pop_front();
    lock.unlock();
    // One call, so that lines of several processes don't mix. An error means that nobody reads: it is ignored.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    lock.lock();
    ++lines.written;
    lines.changed.notify_all();
  }
  lines.ended = true;
  lines.changed.notify_all();
}

}  // namespace shoal
