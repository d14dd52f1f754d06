#include "pytorch/src/wait_thread.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

namespace shoal::pytorch {
namespace {

// For as long as the process lives.
void Keep(std::function<void()> wait) {
  static auto& mutex = *new std::mutex;
  static auto& kept = *new std::vector<std::function<void()>>;
  std::lock_guard lock(mutex);
  kept.push_back(std::move(wait));
}

}  // namespace

// Outlives the owner where a wait does. All under `mutex`.
struct WaitThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> wait;  // to be called
  bool is_waiting = false;     // from Run on until it has returned
  bool has_ended = false;      // the owner
  std::string failure;
  Clock::time_point latest = Clock::time_point::max();
};

WaitThread::WaitThread() : shared_(std::make_shared<Shared>()) {}

WaitThread::~WaitThread() { Stop(); }

bool WaitThread::Stop() {
  if (!thread_.joinable()) return true;
  bool is_waiting = false;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->has_ended = true;
    is_waiting = shared_->is_waiting;
  }
  shared_->changed.notify_all();
  if (is_waiting || thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
  return !is_waiting;
}

std::optional<std::string> WaitThread::Run(std::function<void()> wait, Clock::time_point deadline) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->is_waiting) return std::nullopt;
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([shared = shared_] { Loop(shared); });
    } catch (const std::system_error& error) {
      return std::string("no thread could be started that waits for it: ") + error.what();
    }
  }
  shared_->wait = std::move(wait);
  shared_->is_waiting = true;
  shared_->changed.notify_all();
  while (shared_->is_waiting) {
    const Clock::time_point until = std::min(deadline, shared_->latest);
    if (Clock::now() >= until) return std::nullopt;
    shared_->changed.wait_until(lock, until);
  }
  return std::exchange(shared_->failure, {});
}

void WaitThread::EndBy(Clock::time_point latest) {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->latest = std::min(shared_->latest, latest);
  }
  shared_->changed.notify_all();
}

void WaitThread::Leave() {
  if (thread_.joinable()) thread_.detach();
}

void WaitThread::Loop(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->has_ended || shared->wait; });
    if (!shared->wait) return;
    std::function<void()> wait = std::exchange(shared->wait, nullptr);
    lock.unlock();
    std::string failure;
    try {
      wait();
    } catch (const std::exception& exception) {
      failure = *exception.what() == '\0' ? "an error without a message" : exception.what();
    }
    lock.lock();
    if (shared->has_ended) Keep(std::exchange(wait, nullptr));
    lock.unlock();
    wait = nullptr;  // frees what it owns
    lock.lock();
    shared->failure = std::move(failure);
    shared->is_waiting = false;
    shared->changed.notify_all();
  }
}

}  // namespace shoal::pytorch
