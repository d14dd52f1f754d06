// A stream: a thread that carries out what was put into it, in order, each thing a while too late.
//
// Threads: any. Streams are never destroyed: the driver's threads end with the process.
#ifndef SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_STREAM_H_
#define SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_STREAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace shoal::simulated_cuda {

// Counts how often it was recorded, and how often that was reached.
class Event {
 public:
  uint64_t Record();
  void Reach(uint64_t record);
  // What waiting for it means now; 0: it was never recorded.
  uint64_t newest_record();
  void Wait(uint64_t record);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t recorded_ = 0;
  uint64_t reached_ = 0;
};

class Stream {
 public:
  using Work = std::function<void()>;

  explicit Stream(uint32_t device);

  uint32_t device() const { return device_; }
  void Put(Work work);
  // Until all that was put in is done.
  void Synchronize();
  std::atomic<bool>& is_capturing() { return is_capturing_; }

 private:
  void Run();

  const uint32_t device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;  // under mutex_
  uint64_t put_ = 0;       // likewise
  uint64_t done_ = 0;      // likewise
  std::atomic<bool> is_capturing_ = false;
};

}  // namespace shoal::simulated_cuda

#endif  // SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_STREAM_H_
