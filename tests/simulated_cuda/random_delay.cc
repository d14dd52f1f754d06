#include "tests/simulated_cuda/random_delay.h"

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "process/mutex.h"

namespace shoal::simulated_cuda {

void BeLate(int most_late_us) {
  static Mutex mutex;
  static const char* const seed = std::getenv("SIMULATED_CUDA_SEED");
  static auto* const random = new std::mt19937(seed == nullptr ? 1 : std::strtoul(seed, nullptr, 10));
  int late_us = 0;
  {
    const MutexLock lock(mutex);
    late_us = static_cast<int>((*random)() % most_late_us);
  }
  std::this_thread::sleep_for(std::chrono::microseconds(late_us));
}

}  // namespace shoal::simulated_cuda
