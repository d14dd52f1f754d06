// Kernels for x86 with AVX-512 F, BW, VL and DQ.
#include "reduce/kernel_template.h"

namespace shoal {

extern constinit const KernelTable kAvx512Kernels = MakeKernelTable("avx512");

}  // namespace shoal
