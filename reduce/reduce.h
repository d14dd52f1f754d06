// n-way one-pass reduction of chunks: the servers' arithmetic.
//
// Inputs are read once, in rank order, and the output is written once. 16-bit floats and 8-bit blocks are accumulated
// in fp32 and rounded once to nearest even; the scale of kAvg and kPremulSum is part of the same pass. The bits of an
// element depend on the inputs at its index (of blocks: on those at its block), their order and the op alone: not on
// vector width, block size, length or alignment (invariant I1). Pure functions, any thread, no allocation.
#ifndef SHOAL_REDUCE_REDUCE_H_
#define SHOAL_REDUCE_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "core/wire_codec.h"

namespace shoal {

inline constexpr size_t kMaxReduceInputs = 4096;

struct ReduceSpec {
  WireCodec codec;  // inputs and output are as it has them on the wire
  ReduceOp op = ReduceOp::kSum;
  double premul_factor = 1.0;    // kPremulSum only
  uint32_t ranks_per_input = 1;  // kAvg only: of so many ranks each input is the sum
};

// output[i] = op over inputs[0][i], inputs[1][i], ...; the divisor of kAvg is the number of ranks. `output` may be one
// of the inputs, but must not overlap one in part. Between 1 and kMaxReduceInputs inputs of element_count elements
// each, of at least 1 and together at most kMaxReduceInputs ranks. CanReduce(spec.codec.tensor_type(), spec.op) holds.
void Reduce(const ReduceSpec& spec, std::span<const std::byte* const> inputs, std::byte* output, size_t element_count);

// "avx512", "avx2" or "portable": the kernels that this processor runs (chosen once, by cpuid).
const char* ReduceKernelName();

}  // namespace shoal

#endif  // SHOAL_REDUCE_REDUCE_H_
