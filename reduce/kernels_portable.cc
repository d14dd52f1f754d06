// Kernels for every processor: what the compiler makes of the template for the processor family's baseline.
#include "reduce/kernel_template.h"

namespace shoal {

extern constinit const KernelTable kPortableKernels = MakeKernelTable("portable");

}  // namespace shoal
