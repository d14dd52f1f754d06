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

#include "process/mutex.h"

namespace shoal::simulated_cuda {

// A place in a stream. A thread that waits for it waits for it alone: the event may be recorded elsewhere meanwhile.
class EventRecord {
 public:
  void Reach();
  void Wait();
  bool is_reached();

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ SHOAL_GUARDED_BY(mutex_) = false;
};

class Event {
 public:
  explicit Event(uint32_t device) : device_(device) {}

  uint32_t device() const { return device_; }
  std::shared_ptr<EventRecord> Record();
  // What waiting for it means now; nullptr: it was never recorded.
  std::shared_ptr<EventRecord> newest_record();

 private:
  const uint32_t device_;
  Mutex mutex_;
  std::shared_ptr<EventRecord> newest_ SHOAL_GUARDED_BY(mutex_);
};

class Stream {
 public:
  using Work = std::function<void()>;

  explicit Stream(uint32_t device);

  uint32_t device() const { return device_; }
  void Put(Work work);
  // Until all that was put in is done.
  void Synchronize();
  // The same for all streams of the device.
  static void SynchronizeAll(uint32_t device);
  std::atomic<bool>& is_capturing() { return is_capturing_; }

 private:
  void Run();

  const uint32_t device_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_ SHOAL_GUARDED_BY(mutex_);
  uint64_t put_ SHOAL_GUARDED_BY(mutex_) = 0;
  uint64_t done_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> is_capturing_ = false;
};

}  // namespace shoal::simulated_cuda

#endif  // SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_STREAM_H_
