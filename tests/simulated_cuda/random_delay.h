// Makes the simulated driver late, and the simulated NCCL, by amounts that are random and the same in every run with
// one SIMULATED_CUDA_SEED (1 where it is not set). Each library has its own; thread-safe.
#ifndef SHOAL_TESTS_SIMULATED_CUDA_RANDOM_DELAY_H_
#define SHOAL_TESTS_SIMULATED_CUDA_RANDOM_DELAY_H_

namespace shoal::simulated_cuda {

// Sleeps for less than `most_late_us` microseconds.
void BeLate(int most_late_us);

}  // namespace shoal::simulated_cuda

#endif  // SHOAL_TESTS_SIMULATED_CUDA_RANDOM_DELAY_H_
