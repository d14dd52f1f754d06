// The log of a scheduler or a server: one line on standard error for each event, as text or as a JSON object.
//
//   2026-11-22T19:54:33.120Z WARNING server rank-absent (job=7 group=12 epoch=3 rank=1): its connection was reset
//   {"time":"...","level":"warning","component":"server","event":"rank-absent","job":"7",...,"text":"..."}
//
// A thread of its own writes the lines (notice_log.h), so that a full pipe stops nobody. Events of a kind that come too
// fast (core/event_rate.h) are counted instead of written, and the log says how many.
//
// Thread: any.
#ifndef SHOAL_PROCESS_EVENT_LOG_H_
#define SHOAL_PROCESS_EVENT_LOG_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/event_rate.h"
#include "core/log_event.h"
#include "core/now.h"
#include "process/mutex.h"
#include "process/notice_log.h"

namespace shoal {

enum class LogFormat { kText, kJson };

// "text" or "json". InvalidArgument says so.
absl::StatusOr<LogFormat> ParseLogFormat(const std::string& text);

// One line without its end. Control characters are escaped, and in JSON what is not UTF-8.
std::string FormatEvent(const LogEvent& event, uint64_t at_unix_ms, LogFormat format);

class EventLog {
 public:
  // ResourceExhausted: the process can't have another thread.
  static absl::StatusOr<std::unique_ptr<EventLog>> Start(LogFormat format);
  ~EventLog();  // says what was left out, and writes what is left
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void Write(const LogEvent& event);
  // At a time that the caller has; `now` does not go back.
  void WriteAt(const LogEvent& event, Now now);
  // For those that know no EventLog; `this` outlives it.
  EventSink sink() {
    return [this](const LogEvent& event) { Write(event); };
  }

  // Events that were not written, since the start.
  uint64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }

 private:
  EventLog(LogFormat format, std::unique_ptr<NoticeLog> lines) : format_(format), lines_(std::move(lines)) {}

  void SayTooFast(EventKind kind, Now now) SHOAL_REQUIRES(mutex_);
  void Say(const LogEvent& event, uint64_t at_unix_ms) SHOAL_REQUIRES(mutex_);

  const LogFormat format_;
  const std::unique_ptr<NoticeLog> lines_;
  Mutex mutex_;
  EventRate rate_ SHOAL_GUARDED_BY(mutex_);
  uint64_t unread_ SHOAL_GUARDED_BY(mutex_) =
      0;  // events for which no line was free, and of which the log has not told
  std::atomic<uint64_t> left_out_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_EVENT_LOG_H_
