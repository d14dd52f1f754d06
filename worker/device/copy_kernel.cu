// The kernel of copy_kernel.h for devices. scripts/copy_kernel.py makes copy_kernel_ptx.cc of it.
#include "worker/device/copy_kernel.h"

extern "C" __attribute__((global)) void shoal_copy(shoal::device::OpControl* control, shoal::device::Uint64 tensor,
                                                   shoal::device::Uint64 tensor_bytes) {
#if defined(__CUDA_ARCH__)
  static __attribute__((shared)) shoal::device::BlockState state;
  shoal::device::RunBlock(control, &state, tensor, tensor_bytes);
#endif
}
