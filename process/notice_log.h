// Human-readable lines from inside a library, written to standard error by a thread of its own, so that a terminal or a
// full pipe never blocks the threads that report something, nor the end of the process. What a terminal would obey in
// them is escaped: they have words of other processes.
//
// Thread: any.
#ifndef SHOAL_PROCESS_NOTICE_LOG_H_
#define SHOAL_PROCESS_NOTICE_LOG_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "process/mutex.h"

namespace shoal {

class NoticeLog {
 public:
  static constexpr std::chrono::milliseconds kPatience{1000};

  // Lines begin with `prefix`. ResourceExhausted: the process can't have another thread.
  static absl::StatusOr<std::unique_ptr<NoticeLog>> Start(std::string prefix, bool quiet,
                                                          std::chrono::milliseconds patience = kPatience);
  // Writes what is left. If nobody reads standard error for as long as its patience, the rest is dropped.
  ~NoticeLog();
  NoticeLog(const NoticeLog&) = delete;
  NoticeLog& operator=(const NoticeLog&) = delete;

  // False: dropped, because kMaxWaitingLines are waiting already.
  bool Say(std::string line);

 private:
  static constexpr size_t kMaxWaitingLines = 256;

  // What the log and its thread share. The thread keeps it when it hangs in a write and outlives the log.
  struct Lines {
    Mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> waiting SHOAL_GUARDED_BY(mutex);
    uint64_t written SHOAL_GUARDED_BY(mutex) = 0;
    bool ending SHOAL_GUARDED_BY(mutex) = false;
    bool ended SHOAL_GUARDED_BY(mutex) = false;
  };

  explicit NoticeLog(std::chrono::milliseconds patience) : patience_(patience), lines_(std::make_shared<Lines>()) {}
  static void Run(Lines& lines, const std::string& prefix);

  const std::chrono::milliseconds patience_;
  const std::shared_ptr<Lines> lines_;
  std::thread thread_;  // none: quiet
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_NOTICE_LOG_H_
