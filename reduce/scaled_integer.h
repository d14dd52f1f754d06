// Integers times a factor and integers divided, several lanes at a time. For kernel_template.h alone; as there, all has
// internal linkage and calls nothing of the standard library.
#ifndef SHOAL_REDUCE_SCALED_INTEGER_H_
#define SHOAL_REDUCE_SCALED_INTEGER_H_

#include <cstddef>
#include <cstdint>

#include "reduce/element.h"

namespace shoal {
namespace {

template <size_t kBytes>
struct IntegersOfSize;
// clang-format off
template <> struct IntegersOfSize<1> { using Unsigned = uint8_t; using Sum = int32_t; using Quotient = float; };
template <> struct IntegersOfSize<2> { using Unsigned = uint16_t; using Sum = int32_t; using Quotient = float; };
template <> struct IntegersOfSize<4> { using Unsigned = uint32_t; using Sum = int32_t; using Quotient = double; };
template <> struct IntegersOfSize<8> { using Unsigned = uint64_t; using Sum = int64_t; using Quotient = double; };
// clang-format on

// The element of kPremulSum: contributions are scaled in double while they are loaded, truncated towards zero, and kept
// within the type's range (NaN gives 0). What is up to 32 bits wide is summed in 32 bits, which is the same modulo 2^n:
// doubles convert to and from those in one instruction.
template <typename StoredNumber>
struct ScaledInteger {
  using Stored = StoredNumber;
  using Accumulator = typename IntegersOfSize<sizeof(Stored)>::Sum;
  static constexpr bool kIsInteger = true;
  static constexpr size_t kParts = 1;
  static constexpr size_t kLanes = kVectorBytes / sizeof(double);
  using Part = Vector<Accumulator, kLanes * sizeof(Accumulator)>;
  using Storeds = Vector<Stored, kLanes * sizeof(Stored)>;

  static constexpr bool kIsSigned = static_cast<Stored>(-1) < 0;
  static constexpr Stored kHighest =
      static_cast<Stored>(~uint64_t{0} >> (64 - 8 * sizeof(Stored) + (kIsSigned ? 1 : 0)));
  static constexpr Stored kLowest = kIsSigned ? static_cast<Stored>(-kHighest - 1) : Stored{0};

  static Float64s ToFloat64s(Storeds stored) {
#if defined(__AVX512BW__)
    // GCC 12 takes these apart where there is one instruction.
    constexpr __mmask8 kAllFloat64s = 0xff;
    if constexpr (sizeof(Stored) == 4) return (Float64s)_mm512_maskz_cvtepi32_pd(kAllFloat64s, (__m256i)stored);
    if constexpr (sizeof(Stored) == 2) {
      return (Float64s)_mm512_maskz_cvtepi32_pd(kAllFloat64s, _mm256_cvtepi16_epi32((__m128i)stored));
    }
    if constexpr (sizeof(Stored) == 1) {
      long long eight = 0;
      __builtin_memcpy(&eight, &stored, sizeof(eight));
      const __m128i bytes = _mm_cvtsi64_si128(eight);
      const __m256i wide = kIsSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
      return (Float64s)_mm512_maskz_cvtepi32_pd(kAllFloat64s, wide);
    }
#endif
    return __builtin_convertvector(__builtin_convertvector(stored, Part), Float64s);
  }

  static void LoadScaled(Storeds stored, double factor, Part* part) {
    Float64s product = ToFloat64s(stored) * factor;
    product = product == product ? product : Float64s{};
    constexpr double kLowestFloat64 = static_cast<double>(kLowest);
    product = product > kLowestFloat64 ? product : Float64s{} + kLowestFloat64;
    if constexpr (sizeof(Stored) == 8) {
      constexpr double kEnd = 0x1p63;  // the highest number is no double
      const Vector<int64_t> too_high = product >= kEnd;
      const Part within = __builtin_convertvector(product >= kEnd ? Float64s{} : product, Part);
      *part = too_high ? Part{} + kHighest : within;
    } else {
      constexpr double kHighestFloat64 = static_cast<double>(kHighest);
      product = product < kHighestFloat64 ? product : Float64s{} + kHighestFloat64;
      *part = __builtin_convertvector(product, Part);
    }
  }

  static Storeds Store(const Part* part) { return __builtin_convertvector(*part, Storeds); }
};

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

#endif  // SHOAL_REDUCE_SCALED_INTEGER_H_
