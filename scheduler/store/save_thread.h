// The thread on which a store saves, so that the scheduler's loop never waits for a disk or a network.
//
// Threads: all functions from the store's user, as Store says; `write` and `wake` are called from the thread itself.
#ifndef SHOAL_SCHEDULER_STORE_SAVE_THREAD_H_
#define SHOAL_SCHEDULER_STORE_SAVE_THREAD_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "process/mutex.h"
#include "scheduler/store/store.h"

namespace shoal::scheduler {

class SaveThread {
 public:
  using Write = std::function<absl::Status(const std::string& state)>;  // blocks

  // Every save fails with ResourceExhausted if the process can't have another thread.
  explicit SaveThread(Write write);
  ~SaveThread();  // after the save under way
  SaveThread(const SaveThread&) = delete;
  SaveThread& operator=(const SaveThread&) = delete;

  // As the functions of Store.
  void StartSave(uint64_t number, std::string state);
  std::optional<Store::Saved> PollSaved();
  void SetWake(std::function<void()> wake);

 private:
  struct Order {
    uint64_t number = 0;
    std::string state;
  };

  void WriteOrders();

  const Write write_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Order> order_ SHOAL_GUARDED_BY(mutex_);
  std::optional<Store::Saved> saved_ SHOAL_GUARDED_BY(mutex_);
  std::function<void()> wake_ SHOAL_GUARDED_BY(mutex_);
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  absl::Status not_started_;  // set at the start
  std::thread writer_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STORE_SAVE_THREAD_H_
