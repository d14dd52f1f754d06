// Shifts the wall clock of a program (LD_PRELOAD): by the nanoseconds in the file that SHOAL_CHAOS_CLOCK names, which may
// change at any time. The monotonic clock is not touched, as on a machine whose date is set.
//
// Covers clock_gettime(CLOCK_REALTIME, CLOCK_REALTIME_COARSE), gettimeofday and time, and waits until a moment of the wall
// clock (condition variables, timed mutexes, semaphores), whose moment is put back into the kernel's time when the wait
// begins. Does not cover a jump in the middle of such a wait, file times, and timers of the kernel.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL

static const volatile int64_t* shift_ns;

__attribute__((constructor)) static void OpenShift(void) {
  const char* path = getenv("SHOAL_CHAOS_CLOCK");
  if (path == NULL) return;
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  void* memory = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, descriptor, 0);
  if (memory != MAP_FAILED) shift_ns = memory;
  close(descriptor);
}

static void Add(struct timespec* time, int64_t amount_ns) {
  const int64_t total = (int64_t)time->tv_sec * NS_PER_S + time->tv_nsec + amount_ns;
  time->tv_sec = total / NS_PER_S;
  time->tv_nsec = total % NS_PER_S;
}

static int64_t Shift(void) { return shift_ns == NULL ? 0 : *shift_ns; }

static struct timespec InKernelTime(const struct timespec* until) {
  struct timespec moment = *until;
  Add(&moment, -Shift());
  return moment;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int clock_gettime(clockid_t clock, struct timespec* now) {
  static __typeof__(&clock_gettime) next;
  if (next == NULL) next = NEXT(clock_gettime);
  const int result = next(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) Add(now, Shift());
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec time;
  const int result = clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return result;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex,
                           const struct timespec* restrict until) {
  static __typeof__(&pthread_cond_timedwait) next;
  // A condition variable may be of the monotonic clock: a moment near that clock's now is left as it is.
  if (next == NULL) next = (__typeof__(next))dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  struct timespec monotonic;
  clock_gettime(CLOCK_MONOTONIC, &monotonic);
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  const int is_wall = llabs((long long)until->tv_sec - wall.tv_sec) < llabs((long long)until->tv_sec - monotonic.tv_sec);
  const struct timespec moment = is_wall ? InKernelTime(until) : *until;
  return next(condition, mutex, &moment);
}

int pthread_cond_clockwait(pthread_cond_t* restrict condition, pthread_mutex_t* restrict mutex, clockid_t clock,
                           const struct timespec* restrict until) {
  static __typeof__(&pthread_cond_clockwait) next;
  if (next == NULL) next = NEXT(pthread_cond_clockwait);
  const struct timespec moment = clock == CLOCK_REALTIME ? InKernelTime(until) : *until;
  return next(condition, mutex, clock, &moment);
}

int pthread_mutex_timedlock(pthread_mutex_t* restrict mutex, const struct timespec* restrict until) {
  static __typeof__(&pthread_mutex_timedlock) next;
  if (next == NULL) next = NEXT(pthread_mutex_timedlock);
  const struct timespec moment = InKernelTime(until);
  return next(mutex, &moment);
}

int sem_timedwait(sem_t* restrict semaphore, const struct timespec* restrict until) {
  static __typeof__(&sem_timedwait) next;
  if (next == NULL) next = NEXT(sem_timedwait);
  const struct timespec moment = InKernelTime(until);
  return next(semaphore, &moment);
}
