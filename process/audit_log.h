// The file of an audit: one line for each call, a JSON object as in the log (process/event_log.h), appended.
//
// A thread of its own writes, so that a slow disk stops nobody: each line with one write to the end of the file, and
// all of them to the disk (fdatasync) before it waits again. So lines survive the end of the process at once, and that
// of the node but for those of a moment. A file that was renamed or removed is opened anew before the next line
// (logrotate), without a signal.
//
// Calls go on while the file can't be written (a full disk): a cluster must not stop training for want of an audit. Up
// to kMostWaiting lines wait then, and are written when that works again; the log tells both, and how many were lost.
//
// Thread: any.
#ifndef SHOAL_PROCESS_AUDIT_LOG_H_
#define SHOAL_PROCESS_AUDIT_LOG_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/log_event.h"
#include "process/file_descriptor.h"
#include "process/mutex.h"

namespace shoal {

class AuditLog {
 public:
  static constexpr size_t kMostWaiting = 16384;

  // Opens the file, or makes it for its owner and group to read. `log` is told when it can't be written any more, from
  // the thread that writes. FailedPrecondition names the file and says why it can't be opened. ResourceExhausted: no
  // thread.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Start(const std::string& path, EventSink log);
  ~AuditLog();  // tries once to write what is left
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // An event that tells of a call; others are left out. Never blocks.
  void Write(const LogEvent& event);

 private:
  AuditLog(std::string path, EventSink log) : path_(std::move(path)), log_(std::move(log)) {}

  void Run();
  // Opens the file, unless it is open and has its name. Not OK: says why not.
  absl::Status Open();
  // Writes what is left of the line.
  absl::Status Append(const std::string& line);
  // Appends lines until there is none, or one can't be written. Takes them from `lines`.
  absl::Status AppendAll(std::deque<std::string>* lines);
  void TellTrouble(const absl::Status& status);

  const std::string path_;
  const EventSink log_;
  FileDescriptor file_;       // of the thread, as the next two
  size_t written_bytes_ = 0;  // of the first line that is not whole in the file
  bool in_trouble_ = false;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_ SHOAL_GUARDED_BY(mutex_);
  uint64_t lost_ SHOAL_GUARDED_BY(mutex_) = 0;
  bool ending_ SHOAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_AUDIT_LOG_H_
