// Kernels for x86 with AVX2 and F16C (without fused multiply-add, which would change bits).
#include "reduce/kernel_template.h"

namespace shoal {

extern constinit const KernelTable kAvx2Kernels = MakeKernelTable("avx2");

}  // namespace shoal
