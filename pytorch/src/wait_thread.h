// Waits that may never return, such as for a device, without whoever asked being held up for ever.
//
// Threads: Run from one thread at a time, EndBy from any. fork(): in a child call Leave before the destructor.
#ifndef SHOAL_PYTORCH_SRC_WAIT_THREAD_H_
#define SHOAL_PYTORCH_SRC_WAIT_THREAD_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace shoal::pytorch {

class WaitThread {
 public:
  using Clock = std::chrono::steady_clock;

  WaitThread();
  ~WaitThread();  // Stop
  WaitThread(const WaitThread&) = delete;
  WaitThread& operator=(const WaitThread&) = delete;

  // Calls `wait` on the thread, until a `deadline` of some years at most. Returns what it threw, or that there was no
  // thread for it, or "". Absent: it had not returned by `deadline` or by what EndBy said; until it has, every later
  // call returns at once, without a value. `wait` has to own what it refers to. It is destroyed on the thread, or never
  // if Stop was called meanwhile: what it owns may need an interpreter that is ending.
  std::optional<std::string> Run(std::function<void()> wait, Clock::time_point deadline);
  // Run returns by then, this time and from now on.
  void EndBy(Clock::time_point latest);
  // Ends the thread, or leaves it behind if it waits, and says so: false. No Run may follow. Idempotent.
  bool Stop();
  // Leaves the thread behind.
  void Leave();

 private:
  struct Shared;
  static void Loop(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
  std::thread thread_;  // started by the first Run
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_WAIT_THREAD_H_
