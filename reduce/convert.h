// Conversion of fp32 numbers to 16 bits and back: what a group with a 16-bit wire sends instead of fp32.
//
// To 16 bits it rounds to nearest even (float16 beyond 65504 becomes infinite, after rounding); to fp32 it is exact.
// Every NaN becomes the canonical one. An element's bits do not depend on the processor, the length or the alignment.
// Pure functions, any thread, no allocation. `type` is kFloat16 or kBfloat16; input and output must not overlap.
#ifndef SHOAL_REDUCE_CONVERT_H_
#define SHOAL_REDUCE_CONVERT_H_

#include <cstddef>

#include "core/dtype.h"

namespace shoal {

// `input` holds element_count fp32 numbers, `output` takes as many 16-bit ones.
void NarrowFloat32(DataType type, const std::byte* input, std::byte* output, size_t element_count);

// The other way.
void WidenToFloat32(DataType type, const std::byte* input, std::byte* output, size_t element_count);

}  // namespace shoal

#endif  // SHOAL_REDUCE_CONVERT_H_
