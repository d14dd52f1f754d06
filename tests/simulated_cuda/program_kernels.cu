// Kernels of a program that has tensors on a device (program_on_device.h). scripts/copy_kernel.py makes
// program_kernels_ptx.h of them; the simulated driver knows them by name.
#if defined(__CUDA_ARCH__)
#define KERNEL extern "C" __attribute__((global))

static __attribute__((device)) unsigned long long FirstElement() {
  return 256ull * __nvvm_read_ptx_sreg_ctaid_x() + __nvvm_read_ptx_sreg_tid_x();
}
static __attribute__((device)) unsigned long long Step() { return 256ull * __nvvm_read_ptx_sreg_nctaid_x(); }

KERNEL void test_fill(float* tensor, unsigned long long count, float value) {
  for (unsigned long long i = FirstElement(); i < count; i += Step()) tensor[i] = value + static_cast<float>(i % 251);
}

KERNEL void test_scale(float* tensor, unsigned long long count, float factor) {
  for (unsigned long long i = FirstElement(); i < count; i += Step()) tensor[i] *= factor;
}

KERNEL void test_wait(const unsigned int* word) {
  unsigned int value = 0;
  while (value == 0) asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
}
#endif
