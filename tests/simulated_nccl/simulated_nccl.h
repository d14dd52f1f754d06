// What tests can do with the simulated NCCL beside calling it.
#ifndef SHOAL_TESTS_SIMULATED_NCCL_SIMULATED_NCCL_H_
#define SHOAL_TESTS_SIMULATED_NCCL_SIMULATED_NCCL_H_

#include <cstdint>

extern "C" {

// The next call of that function in this process is refused; "ncclCommGetAsyncError": it says that what went before has
// failed.
void simulated_nccl_refuse_next(const char* function);

// From now on it takes so long to destroy a communicator of this process, as where a device has much to do.
void simulated_nccl_delay_destroy(uint64_t milliseconds);

// So many communicators of this process were made, and neither destroyed nor aborted.
uint64_t simulated_nccl_comms();
// So many collectives of this process are in streams, and have not ended.
uint64_t simulated_nccl_kernels();
}

#endif  // SHOAL_TESTS_SIMULATED_NCCL_SIMULATED_NCCL_H_
