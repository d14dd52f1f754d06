// Conversion between fp32 and the 16-bit floats as a template. Part of a kernel file (see kernel_template.h): all of it
// has internal linkage and calls nothing of the standard library.
#ifndef SHOAL_REDUCE_CONVERT_TEMPLATE_H_
#define SHOAL_REDUCE_CONVERT_TEMPLATE_H_

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "reduce/element.h"
#include "reduce/kernel_table.h"

namespace shoal {
namespace {

template <DataType type>
Halves Narrow(Float32s value) {
  if constexpr (type == DataType::kFloat16) return NarrowToFloat16(CanonicalNan(value));
  if constexpr (type == DataType::kBfloat16) return NarrowToBfloat16(CanonicalNan(value));
}

template <DataType type>
Float32s Widen(Halves halves) {
  if constexpr (type == DataType::kFloat16) return CanonicalNan(WidenFloat16(halves));
  if constexpr (type == DataType::kBfloat16) return CanonicalNan(WidenBfloat16(halves));
}

// Applies kConvert to vectors of memory of any alignment; at the end to a part of one, whose other lanes are zero.
template <typename From, typename To, To (*kConvert)(From)>
void ConvertAll(const std::byte* input, std::byte* output, size_t element_count) {
  constexpr size_t kLanes = sizeof(Float32s) / sizeof(float);
  constexpr size_t kFromBytes = sizeof(From) / kLanes;
  constexpr size_t kToBytes = sizeof(To) / kLanes;
  const auto convert = [&](size_t first, size_t count) {
    From from{};
    __builtin_memcpy(&from, input + first * kFromBytes, count * kFromBytes);
    const To to = kConvert(from);
    __builtin_memcpy(output + first * kToBytes, &to, count * kToBytes);
  };
  size_t first = 0;
#pragma GCC unroll 4
  for (; first + kLanes <= element_count; first += kLanes) convert(first, kLanes);
  if (first < element_count) convert(first, element_count - first);
}

template <DataType type>
constexpr ConvertKernels MakeConvertKernels() {
  return {.narrow = &ConvertAll<Float32s, Halves, &Narrow<type>>, .widen = &ConvertAll<Halves, Float32s, &Widen<type>>};
}

}  // namespace
}  // namespace shoal

#endif  // SHOAL_REDUCE_CONVERT_TEMPLATE_H_
