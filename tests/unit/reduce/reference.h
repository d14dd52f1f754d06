// A plain reduction, one element at a time, to compare the kernels with. It shares no code with them: 16-bit floats are
// converted through doubles with the C library's functions.
#ifndef SHOAL_TESTS_UNIT_REDUCE_REFERENCE_H_
#define SHOAL_TESTS_UNIT_REDUCE_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "reduce/kernel_table.h"
#include "reduce/reduce.h"

namespace shoal {

// `format` of a 16-bit float: bits of exponent and of mantissa.
struct HalfFormat {
  int exponent_bits;
  int mantissa_bits;
};
inline constexpr HalfFormat kFloat16Format{5, 10};
inline constexpr HalfFormat kBfloat16Format{8, 7};

double DecodeHalf(HalfFormat format, uint16_t bits);
// To nearest even; NaN is canonical.
uint16_t EncodeHalf(HalfFormat format, double value);

void ReferenceReduce(const ReduceSpec& spec, std::span<const std::byte* const> inputs, std::byte* output,
                     size_t element_count);

std::vector<const KernelTable*> AllKernels();
ReduceKernel KernelOf(const KernelTable& table, const ReduceSpec& spec);
std::string Describe(const KernelTable& table, const ReduceSpec& spec);

std::vector<ReduceSpec> AllSpecs();

}  // namespace shoal

#endif  // SHOAL_TESTS_UNIT_REDUCE_REFERENCE_H_
