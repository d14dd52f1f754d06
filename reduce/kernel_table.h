// The reduction kernels by instruction set, for reduce.cc and for tests that compare them with each other.
//
// This header is also compiled with AVX flags, so it defines no function: an inline function compiled that way could be
// the copy that the linker keeps for all, and would stop the program on an older processor.
// Immutable; any thread.
#ifndef SHOAL_REDUCE_KERNEL_TABLE_H_
#define SHOAL_REDUCE_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>

namespace shoal {

inline constexpr int kReduceDataTypes = 9;
inline constexpr int kReduceOps = 6;

// The contract of Reduce() in reduce.h, in the default floating point environment. `premul_factor` is read by
// kPremulSum alone, `ranks_per_input` by kAvg.
using ReduceKernel = void (*)(const std::byte* const* inputs, size_t input_count, std::byte* output,
                              size_t element_count, double premul_factor, uint32_t ranks_per_input);

// The contract of Encode() and Decode() in convert.h for float32 on a narrower wire, in the default floating point
// environment.
using ConvertKernel = void (*)(const std::byte* input, std::byte* output, size_t element_count);
struct ConvertKernels {
  ConvertKernel narrow;
  ConvertKernel widen;
};

// Of float32 sent in blocks.
struct BlockKernels {
  ReduceKernel reduce[kReduceOps];  // by op as below
  ConvertKernels convert;
};

struct KernelTable {
  const char* name;
  // [number of DataType - 1][number of ReduceOp - 1]; nullptr where CanReduce of core/dtype.h says no.
  ReduceKernel kernels[kReduceDataTypes][kReduceOps];
  ConvertKernels float16;
  ConvertKernels bfloat16;
  BlockKernels int8_blocks;
  BlockKernels float8_blocks;
};

extern const KernelTable kPortableKernels;
#if defined(SHOAL_REDUCE_X86)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
#elif defined(SHOAL_REDUCE_NEON)
extern const KernelTable kNeonKernels;
#endif

// The tables that this processor can run, best first, ended by nullptr. Defined in reduce.cc.
const KernelTable* const* RunnableKernels();

}  // namespace shoal

#endif  // SHOAL_REDUCE_KERNEL_TABLE_H_
