// A mutex whose rules clang checks when it compiles. A field says which mutex guards it (SHOAL_GUARDED_BY), a function
// says which one its caller must hold (SHOAL_REQUIRES) or must not hold (SHOAL_EXCLUDES). clang's -Wthread-safety
// refuses a read, a write or a call without that mutex (tests/tidy/test_locks.py). For other compilers the words mean
// nothing.
//
//   Mutex mutex_;
//   std::condition_variable changed_;
//   bool stopping_ SHOAL_GUARDED_BY(mutex_) = false;
//
//   MutexLock lock(mutex_);
//   changed_.wait(lock, [this]() SHOAL_REQUIRES(mutex_) { return stopping_; });
//
// std::mutex of libstdc++ has no such words. Neither abseil's mutex nor its words are used: Debian's abseil is not
// compiled for ThreadSanitizer, which then reports races that are none. And the plugin, which includes this header, is
// compiled where there is no abseil.
//
// Threads: any. Ownership: a lock must not outlive its mutex.
#ifndef SHOAL_PROCESS_MUTEX_H_
#define SHOAL_PROCESS_MUTEX_H_

#include <mutex>

#ifdef __clang__
#define SHOAL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define SHOAL_THREAD_ATTRIBUTE(x)
#endif

// Of a field: it is read and written with the mutex alone.
#define SHOAL_GUARDED_BY(mutex) SHOAL_THREAD_ATTRIBUTE(guarded_by(mutex))
// Of a pointer: what it points to is.
#define SHOAL_POINTEE_GUARDED_BY(mutex) SHOAL_THREAD_ATTRIBUTE(pt_guarded_by(mutex))
// Of a function or lambda: its caller holds the mutexes.
#define SHOAL_REQUIRES(...) SHOAL_THREAD_ATTRIBUTE(exclusive_locks_required(__VA_ARGS__))
// Of a function: its caller must not hold them, because the function takes them.
#define SHOAL_EXCLUDES(...) SHOAL_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
// Of a function that gives access to a mutex: which one.
#define SHOAL_RETURNS_MUTEX(mutex) SHOAL_THREAD_ATTRIBUTE(lock_returned(mutex))

namespace shoal {

class SHOAL_THREAD_ATTRIBUTE(lockable) Mutex : public std::mutex {
 public:
  void lock() SHOAL_THREAD_ATTRIBUTE(exclusive_lock_function()) { std::mutex::lock(); }
  void unlock() SHOAL_THREAD_ATTRIBUTE(unlock_function()) { std::mutex::unlock(); }
  bool try_lock() SHOAL_THREAD_ATTRIBUTE(exclusive_trylock_function(true)) { return std::mutex::try_lock(); }
};

// Holds the mutex while it lives, but for the time between unlock() and lock(). A std::condition_variable waits with
// it.
class SHOAL_THREAD_ATTRIBUTE(scoped_lockable) MutexLock : public std::unique_lock<std::mutex> {
 public:
  explicit MutexLock(Mutex& mutex) SHOAL_THREAD_ATTRIBUTE(exclusive_lock_function(mutex))
      : std::unique_lock<std::mutex>(mutex) {}
  ~MutexLock() SHOAL_THREAD_ATTRIBUTE(unlock_function()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() SHOAL_THREAD_ATTRIBUTE(exclusive_lock_function()) { std::unique_lock<std::mutex>::lock(); }
  void unlock() SHOAL_THREAD_ATTRIBUTE(unlock_function()) { std::unique_lock<std::mutex>::unlock(); }
};

}  // namespace shoal

#endif  // SHOAL_PROCESS_MUTEX_H_
