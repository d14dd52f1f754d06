// The kernel of copy_kernel.h as PTX, which CUDA's driver compiles for the device that it finds.
#ifndef SHOAL_WORKER_DEVICE_COPY_KERNEL_PTX_H_
#define SHOAL_WORKER_DEVICE_COPY_KERNEL_PTX_H_

namespace shoal {

extern const char kCopyKernelPtx[];

}  // namespace shoal

#endif  // SHOAL_WORKER_DEVICE_COPY_KERNEL_PTX_H_
