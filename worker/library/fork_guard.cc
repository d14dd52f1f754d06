#include "worker/library/fork_guard.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace shoal {
namespace {

std::atomic<bool> is_marked_child = false;
std::once_flag registered;

void MarkThisChild() { is_marked_child.store(true, std::memory_order_relaxed); }

}  // namespace

void MarkFutureChildren() {
  std::call_once(registered, [] { pthread_atfork(nullptr, nullptr, &MarkThisChild); });
}

bool IsMarkedChild() { return is_marked_child.load(std::memory_order_relaxed); }

}  // namespace shoal
