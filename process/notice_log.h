// Human-readable lines from inside a library, written to standard error by a thread of its own, so that a terminal or a
// full pipe never blocks the threads that report something.
//
// Thread: any.
#ifndef SHOAL_PROCESS_NOTICE_LOG_H_
#define SHOAL_PROCESS_NOTICE_LOG_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"

namespace shoal {

class NoticeLog {
 public:
  // Lines begin with `prefix`. ResourceExhausted: the process can't have another thread.
  static absl::StatusOr<std::unique_ptr<NoticeLog>> Start(std::string prefix, bool quiet);
  ~NoticeLog();  // writes what is left
  NoticeLog(const NoticeLog&) = delete;
  NoticeLog& operator=(const NoticeLog&) = delete;

  // False: dropped, because kMaxWaitingLines are waiting already.
  bool Say(std::string line);

 private:
  static constexpr size_t kMaxWaitingLines = 256;

  explicit NoticeLog(std::string prefix) : prefix_(std::move(prefix)) {}
  void Run();

  const std::string prefix_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;  // under mutex_
  bool ending_ = false;            // under mutex_
  std::thread thread_;             // none: quiet
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_NOTICE_LOG_H_
