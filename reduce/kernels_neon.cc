// Kernels for 64-bit Arm, where every processor has NEON. The compiler makes vector instructions of most of the
// template by itself, also for the portable kernels; what it does lane by lane is written out for these (without fused
// multiply-add, which would change bits).
#define SHOAL_NEON_KERNELS
#include "reduce/kernel_template.h"

namespace shoal {

extern constinit const KernelTable kNeonKernels = MakeKernelTable("neon");

}  // namespace shoal
