// What tests can do with the simulated driver beside calling it.
#ifndef SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_CUDA_H_
#define SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_CUDA_H_

#include <cstdint>

extern "C" {

// The device fails: what its streams have not done yet is not done, and every call and callback says so.
void simulated_cuda_fail(uint32_t device);

// The next call of that function is refused.
void simulated_cuda_refuse_next(const char* function);
// Not 0: calls that put something into a stream wait until this is called with 0.
void simulated_cuda_hold(int hold);

// A kernel of the caller's own: called with `user_data` when the stream comes to it, unless the device has failed.
int simulated_cuda_run(void* stream, void (*kernel)(void* user_data), void* user_data);
// Memory of a device, as kernels see it.
void* simulated_cuda_in_kernels(uint64_t address);

// So many bytes of host memory are registered, and so many kernels of the worker run or wait to run.
uint64_t simulated_cuda_registered_bytes();
uint64_t simulated_cuda_copy_kernels();
// So many streams (with a priority) and events were made since the start.
uint64_t simulated_cuda_objects_made();
}

#endif  // SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_CUDA_H_
