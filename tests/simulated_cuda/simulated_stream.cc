#include "tests/simulated_cuda/simulated_stream.h"

#include <thread>
#include <vector>

#include "process/mutex.h"
#include "tests/simulated_cuda/random_delay.h"

namespace shoal::simulated_cuda {
namespace {

constexpr int kMostLateUs = 400;

Mutex all_mutex;
std::vector<Stream*>& AllStreams() SHOAL_REQUIRES(all_mutex) {
  static auto* const streams = new std::vector<Stream*>();
  return *streams;
}

}  // namespace

void EventRecord::Reach() {
  const MutexLock lock(mutex_);
  is_reached_ = true;
  changed_.notify_all();
}

void EventRecord::Wait() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() SHOAL_REQUIRES(mutex_) { return is_reached_; });
}

bool EventRecord::is_reached() {
  const MutexLock lock(mutex_);
  return is_reached_;
}

std::shared_ptr<EventRecord> Event::Record() {
  const MutexLock lock(mutex_);
  newest_ = std::make_shared<EventRecord>();
  return newest_;
}

std::shared_ptr<EventRecord> Event::newest_record() {
  const MutexLock lock(mutex_);
  return newest_;
}

Stream::Stream(uint32_t device) : device_(device) {
  {
    const MutexLock lock(all_mutex);
    AllStreams().push_back(this);
  }
  std::thread([this] { Run(); }).detach();
}

void Stream::Put(Work work) {
  const MutexLock lock(mutex_);
  work_.push_back(std::move(work));
  ++put_;
  changed_.notify_all();
}

void Stream::Synchronize() {
  MutexLock lock(mutex_);
  const uint64_t until = put_;
  changed_.wait(lock, [&]() SHOAL_REQUIRES(mutex_) { return done_ >= until; });
}

void Stream::SynchronizeAll(uint32_t device) {
  std::vector<Stream*> streams;
  {
    const MutexLock lock(all_mutex);
    streams = AllStreams();
  }
  for (Stream* const stream : streams) {
    if (stream->device() == device) stream->Synchronize();
  }
}

void Stream::Run() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() SHOAL_REQUIRES(mutex_) { return !work_.empty(); });
    const Work work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    BeLate(kMostLateUs);
    work();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace shoal::simulated_cuda
