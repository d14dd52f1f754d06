#include "tests/simulated_cuda/random_delay.h"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

namespace shoal::simulated_cuda {

void BeLate(int most_late_us) {
  static std::mutex mutex;
  static const char* const seed = std::getenv("SIMULATED_CUDA_SEED");
  static auto* const random = new std::mt19937(seed == nullptr ? 1 : std::strtoul(seed, nullptr, 10));
  int late_us = 0;
  {
    const std::lock_guard lock(mutex);
    late_us = static_cast<int>((*random)() % most_late_us);
  }
  std::this_thread::sleep_for(std::chrono::microseconds(late_us));
}

}  // namespace shoal::simulated_cuda
