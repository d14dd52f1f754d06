// The simulated driver that the program has loaded, as far as the simulated NCCL needs it. Any thread.
#ifndef SHOAL_TESTS_SIMULATED_NCCL_DRIVER_H_
#define SHOAL_TESTS_SIMULATED_NCCL_DRIVER_H_

#include <cstdint>

namespace shoal::simulated_nccl {

struct Driver {
  // Ends the process if there is none: the one that lies beside this library, which the program loads for itself alone.
  static const Driver& Get();

  int (*run)(void* stream, void (*kernel)(void* user_data), void* user_data);
  void* (*in_kernels)(uint64_t address);
  int (*context_push)(void* context);
  int (*context_pop)(void** context);

  // That of this thread; nullptr: it has none.
  void* CurrentContext() const;
};

}  // namespace shoal::simulated_nccl

#endif  // SHOAL_TESTS_SIMULATED_NCCL_DRIVER_H_
