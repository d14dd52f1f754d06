// Memory of the simulated devices, and host memory that they may reach.
//
// Threads: any.
#ifndef SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_MEMORY_H_
#define SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_MEMORY_H_

#include <cstddef>
#include <cstdint>

namespace shoal::simulated_cuda {

// An address of a device, which the host can't touch (with ThreadSanitizer it can). nullptr: there is no more.
void* AllocateOnDevice(size_t bytes);
void FreeOnDevice(void* address);
// Where the simulation finds what lies at an address of a device. Ends the process if that is none.
void* OnDevice(uint64_t address);

bool Register(void* start, size_t bytes);
bool Unregister(void* start);
uint64_t RegisteredBytes();
// Ends the process if it is not registered.
void* Registered(uint64_t address);

}  // namespace shoal::simulated_cuda

#endif  // SHOAL_TESTS_SIMULATED_CUDA_SIMULATED_MEMORY_H_
