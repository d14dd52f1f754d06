#include "scheduler/store/save_thread.h"

#include <utility>

#include "absl/status/statusor.h"
#include "process/start_thread.h"

namespace shoal::scheduler {

SaveThread::SaveThread(Write write) : write_(std::move(write)) {
  absl::StatusOr<std::thread> started = StartThread("shoal-save", [this] { WriteOrders(); });
  if (started.ok()) {
    writer_ = *std::move(started);
  } else {
    not_started_ = started.status();
  }
}

SaveThread::~SaveThread() {
  {
    const MutexLock guard(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();
}

void SaveThread::StartSave(uint64_t number, std::string state) {
  if (!not_started_.ok()) {
    std::function<void()> wake;
    {
      const MutexLock guard(mutex_);
      saved_ = Store::Saved{number, not_started_};
      wake = wake_;
    }
    if (wake) wake();
    return;
  }
  {
    const MutexLock guard(mutex_);
    order_ = Order{number, std::move(state)};
  }
  changed_.notify_all();
}

std::optional<Store::Saved> SaveThread::PollSaved() {
  const MutexLock guard(mutex_);
  return std::exchange(saved_, std::nullopt);
}

void SaveThread::SetWake(std::function<void()> wake) {
  const MutexLock guard(mutex_);
  wake_ = std::move(wake);
}

void SaveThread::WriteOrders() {
  MutexLock guard(mutex_);
  for (;;) {
    changed_.wait(guard, [this]() SHOAL_REQUIRES(mutex_) { return order_.has_value() || closing_; });
    if (!order_.has_value()) return;
    const Order order = *std::exchange(order_, std::nullopt);
    guard.unlock();
    absl::Status status = write_(order.state);
    guard.lock();
    saved_ = Store::Saved{order.number, std::move(status)};
    const std::function<void()> wake = wake_;
    guard.unlock();
    if (wake) wake();
    guard.lock();
  }
}

}  // namespace shoal::scheduler
