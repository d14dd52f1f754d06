// Integers divided, several lanes at a time. For kernel_template.h alone; as there, all has
// internal linkage and calls nothing of the standard library.
#ifndef SHOAL_REDUCE_DIVIDED_INTEGER_H_
#define SHOAL_REDUCE_DIVIDED_INTEGER_H_

#include <cstddef>
#include <cstdint>

#include "reduce/element.h"

namespace shoal {
namespace {

template <size_t kBytes>
struct IntegersOfSize;
// clang-format off
template <> struct IntegersOfSize<1> { using Unsigned = uint8_t; using Quotient = float; };
template <> struct IntegersOfSize<2> { using Unsigned = uint16_t; using Quotient = float; };
template <> struct IntegersOfSize<4> { using Unsigned = uint32_t; using Quotient = double; };
template <> struct IntegersOfSize<8> { using Unsigned = uint64_t; using Quotient = double; };
// clang-format on

// Towards zero. Up to 32 bits by a floating point division that is exact enough: a quotient that is no integer is at
// least 1/divisor away from one, and the rounding error is less than that while |value| < 2^24 (float), 2^53 (double).
template <typename Number>
Vector<Number> DivideIntegers(Vector<Number> values, size_t divisor) {
  constexpr size_t kNumbers = kVectorBytes / sizeof(Number);
  if constexpr (sizeof(Number) == 8) {
    for (size_t i = 0; i < kNumbers; ++i) values[i] /= static_cast<int64_t>(divisor);
    return values;
  } else {
    using Quotient = typename IntegersOfSize<sizeof(Number)>::Quotient;
    constexpr size_t kLanes = kVectorBytes / sizeof(Quotient);
    using Few = Vector<Number, kLanes * sizeof(Number)>;
    using Wide = Vector<int32_t, kLanes * sizeof(int32_t)>;
    Number numbers[kNumbers];
    __builtin_memcpy(numbers, &values, sizeof(values));
    for (size_t first = 0; first < kNumbers; first += kLanes) {
      Few few;
      __builtin_memcpy(&few, numbers + first, sizeof(few));
      const Vector<Quotient> quotient = __builtin_convertvector(__builtin_convertvector(few, Wide), Vector<Quotient>) /
                                        static_cast<Quotient>(divisor);
      few = __builtin_convertvector(__builtin_convertvector(quotient, Wide), Few);
      __builtin_memcpy(numbers + first, &few, sizeof(few));
    }
    __builtin_memcpy(&values, numbers, sizeof(values));
    return values;
  }
}

}  // namespace
}  // namespace shoal

#endif  // SHOAL_REDUCE_DIVIDED_INTEGER_H_
