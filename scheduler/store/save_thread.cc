#include "scheduler/store/save_thread.h"

#include <utility>

namespace shoal::scheduler {

SaveThread::SaveThread(Write write) : write_(std::move(write)), writer_([this] { WriteOrders(); }) {}

SaveThread::~SaveThread() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void SaveThread::StartSave(uint64_t number, std::string state) {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    order_ = Order{number, std::move(state)};
  }
  changed_.notify_all();
}

std::optional<Store::Saved> SaveThread::PollSaved() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return std::exchange(saved_, std::nullopt);
}

void SaveThread::SetWake(std::function<void()> wake) {
  const std::lock_guard<std::mutex> guard(mutex_);
  wake_ = std::move(wake);
}

void SaveThread::WriteOrders() {
  std::unique_lock<std::mutex> guard(mutex_);
  for (;;) {
    changed_.wait(guard, [this] { return order_.has_value() || closing_; });
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
