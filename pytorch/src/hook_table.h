// Functions that are to be called, by number. Needs no torch.
//
// They are called, and destroyed, without a lock: a hook may wait for a lock of its own, and whoever removes the hook
// may hold that lock meanwhile, as torch's flight recorder does. So a hook may still run, or begin to, when Remove has
// returned: it owns what it refers to. What a hook throws does not come out of here, and the others are called
// nevertheless. Any thread.
#ifndef SHOAL_PYTORCH_SRC_HOOK_TABLE_H_
#define SHOAL_PYTORCH_SRC_HOOK_TABLE_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "process/mutex.h"

namespace shoal::pytorch {

template <typename Args>
class HookTable {
 public:
  using Hook = std::function<void(const Args&)>;

  // False: there is one of that number.
  bool Add(int64_t number, Hook hook) {
    std::shared_ptr<const Hooks> before;  // freed after the lock
    const MutexLock lock(mutex_);
    Hooks hooks = *hooks_;
    const bool is_new = hooks.emplace(number, std::move(hook)).second;
    before = Replace(std::move(hooks));
    return is_new;
  }
  void Remove(int64_t number) {
    std::shared_ptr<const Hooks> before;
    const MutexLock lock(mutex_);
    Hooks hooks = *hooks_;
    hooks.erase(number);
    before = Replace(std::move(hooks));
  }
  // Takes no lock.
  bool empty() const { return empty_; }
  // `on_error` is called with what a hook has thrown.
  template <typename OnError>
  void CallAll(const Args& args, const OnError& on_error) const {
    if (empty_) return;
    MutexLock lock(mutex_);
    const std::shared_ptr<const Hooks> hooks = hooks_;
    lock.unlock();
    for (const auto& [number, hook] : *hooks) {
      try {
        hook(args);
      } catch (const std::exception& error) {
        on_error(error);
      }
    }
  }

 private:
  using Hooks = std::map<int64_t, Hook>;

  // Returns those that were there.
  std::shared_ptr<const Hooks> Replace(Hooks hooks) SHOAL_REQUIRES(mutex_) {
    empty_ = hooks.empty();
    return std::exchange(hooks_, std::make_shared<const Hooks>(std::move(hooks)));
  }

  mutable Mutex mutex_;
  std::shared_ptr<const Hooks> hooks_ SHOAL_GUARDED_BY(mutex_) = std::make_shared<const Hooks>();
  std::atomic<bool> empty_{true};
};

}  // namespace shoal::pytorch

#endif  // SHOAL_PYTORCH_SRC_HOOK_TABLE_H_
