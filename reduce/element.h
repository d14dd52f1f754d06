// Vectors of elements: how they are loaded into accumulators and stored back. For kernel_template.h alone.
//
// Written with the compiler's vector extension, because what the auto-vectoriser makes of such loops differs by type
// and compiler. Part of a kernel file (see kernel_template.h): all of it has internal linkage and calls nothing of the
// standard library.
#ifndef SHOAL_REDUCE_ELEMENT_H_
#define SHOAL_REDUCE_ELEMENT_H_

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(SHOAL_NEON_KERNELS)
#include <arm_neon.h>
#endif

namespace shoal {
namespace {

#if defined(__AVX512BW__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif

template <typename Number, size_t kBytes>
struct VectorOf {
  typedef Number Type __attribute__((vector_size(kBytes)));
};
template <typename Number, size_t kBytes = kVectorBytes>
using Vector = typename VectorOf<Number, kBytes>::Type;

using Float32s = Vector<float>;
using Float64s = Vector<double>;
using Uint32s = Vector<uint32_t>;
using Uint64s = Vector<uint64_t>;
using Halves = Vector<uint16_t, kVectorBytes / 2>;  // as many as there are Float32s

// Every NaN that leaves a kernel is this one: which of two NaNs an addition returns depends on the processor and on how
// the compiler ordered the operands, and results must not.
constexpr uint32_t kCanonicalNanFloat32 = 0x7fc00000u;
constexpr uint64_t kCanonicalNanFloat64 = 0x7ff8000000000000u;

inline Float32s CanonicalNan(Float32s value) {
  return value == value ? value : (Float32s)(Uint32s{} + kCanonicalNanFloat32);
}
inline Float64s CanonicalNan(Float64s value) {
  return value == value ? value : (Float64s)(Uint64s{} + kCanonicalNanFloat64);
}

// Changes the width of unsigned lanes (narrowing: their upper halves are zero). GCC 12 makes four instructions of
// __builtin_convertvector where there is one.
#if defined(__AVX512BW__)
// The unmasked intrinsics start from an uninitialised register, which GCC 12 warns about.
constexpr __mmask16 kAllLanes = 0xffff;
inline Uint32s WidenLanes(Halves halves) { return (Uint32s)_mm512_maskz_cvtepu16_epi32(kAllLanes, (__m256i)halves); }
inline Halves NarrowLanes(Uint32s words) { return (Halves)_mm512_maskz_cvtepi32_epi16(kAllLanes, (__m512i)words); }
#elif defined(__AVX2__)
inline Uint32s WidenLanes(Halves halves) { return (Uint32s)_mm256_cvtepu16_epi32((__m128i)halves); }
inline Halves NarrowLanes(Uint32s words) {
  const __m256i packed = _mm256_packus_epi32((__m256i)words, (__m256i)words);
  return (Halves)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0b1000));
}
#elif defined(SHOAL_NEON_KERNELS)
inline Uint32s WidenLanes(Halves halves) { return (Uint32s)vmovl_u16((uint16x4_t)halves); }
inline Halves NarrowLanes(Uint32s words) { return (Halves)vmovn_u32((uint32x4_t)words); }
#else
inline Uint32s WidenLanes(Halves halves) { return __builtin_convertvector(halves, Uint32s); }
inline Halves NarrowLanes(Uint32s words) { return __builtin_convertvector(words, Halves); }
#endif

inline Float32s WidenBfloat16(Halves bits) { return (Float32s)(WidenLanes(bits) << 16); }

// The upper halves are the bfloat16 numbers, to nearest even. The only NaN allowed is the canonical one.
inline Uint32s RoundToBfloat16(Float32s value) {
  const Uint32s bits = (Uint32s)value;
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}
inline Halves NarrowToBfloat16(Float32s value) { return NarrowLanes(RoundToBfloat16(value) >> 16); }

// fp16: by the processor's own conversion where it has one; both ways give the same bits (NaNs are canonical when
// stored).
#if defined(__AVX512BW__)
inline Float32s WidenFloat16(Halves halves) { return (Float32s)_mm512_maskz_cvtph_ps(kAllLanes, (__m256i)halves); }
inline Halves NarrowToFloat16(Float32s value) {
  return (Halves)_mm512_maskz_cvtps_ph(kAllLanes, (__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(__AVX2__) && defined(__F16C__)
inline Float32s WidenFloat16(Halves halves) { return (Float32s)_mm256_cvtph_ps((__m128i)halves); }
inline Halves NarrowToFloat16(Float32s value) {
  return (Halves)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif defined(SHOAL_NEON_KERNELS)
inline Float32s WidenFloat16(Halves halves) { return (Float32s)vcvt_f32_f16((float16x4_t)halves); }
inline Halves NarrowToFloat16(Float32s value) { return (Halves)vcvt_f16_f32((float32x4_t)value); }
#else
// No operand below is a denormal fp32 number: on those some processors are a hundred times slower.
inline Float32s WidenFloat16(Halves halves) {
  constexpr uint32_t kExponentMask = 0x7c00u << 13;
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  constexpr float kSmallestNormal = 0x1p-14f;
  const Uint32s half = WidenLanes(halves);
  const Uint32s shifted = (half & 0x7fffu) << 13;
  const Uint32s exponent = shifted & kExponentMask;
  const Uint32s normal = shifted + kRebias;
  // Infinity and NaN: the exponent of all ones stays all ones.
  const Uint32s special = normal + kRebias;
  // A denormal m * 2^-24 is (2^-14 + m * 2^-24) - 2^-14, exactly.
  const Float32s denormal = (Float32s)(normal + (1u << 23)) - kSmallestNormal;
  const Uint32s finite = exponent == 0 ? (Uint32s)denormal : normal;
  const Uint32s magnitude = exponent == kExponentMask ? special : finite;
  return (Float32s)(magnitude | ((half & 0x8000u) << 16));
}

// To nearest even. The only NaN allowed is the canonical one.
inline Halves NarrowToFloat16(Float32s value) {
  constexpr uint32_t kOverflow = (127u + 16u) << 23;        // 2^16: from there on all is infinite
  constexpr uint32_t kSmallestNormal = (127u - 14u) << 23;  // 2^-14
  constexpr uint32_t kRebias = (127u - 15u) << 23;
  constexpr uint32_t kInfinity = 0x7f800000u;
  constexpr uint32_t kHalf = 126u << 23;  // 0.5f
  const Uint32s bits = (Uint32s)value;
  const Uint32s magnitude = bits & 0x7fffffffu;
  const Uint32s normal = (magnitude - kRebias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // In 0.5 + x the lowest bit weighs 2^-24, as in a denormal half: the adder rounds for us. (What is normal or a
  // denormal fp32 number takes another way or vanishes; masking it off keeps it from slowing the addition.)
  const Uint32s small = magnitude < kSmallestNormal ? magnitude : Uint32s{};
  const Uint32s denormal = (Uint32s)((Float32s)(small < (1u << 23) ? Uint32s{} : small) + 0.5f) - kHalf;
  const Uint32s special = magnitude > kInfinity ? Uint32s{} + 0x7e00u : Uint32s{} + 0x7c00u;
  const Uint32s finite = magnitude < kSmallestNormal ? denormal : normal;
  const Uint32s result = magnitude >= kOverflow ? special : finite;
  return NarrowLanes(result | ((bits >> 16) & 0x8000u));
}
#endif

// Element<type>: how numbers lie in memory (Stored) and what sums are kept in (Accumulator). A vector of stored numbers
// (Storeds, kLanes of them) becomes kParts vectors of accumulators (Part), of which each holds as many. block_element.h
// has another one, for numbers that do not lie one by one.
template <typename StoredNumber, typename AccumulatorNumber, bool kInteger, size_t kPartCount = 1>
struct ElementBase {
  using Stored = StoredNumber;
  using Accumulator = AccumulatorNumber;
  static constexpr bool kIsInteger = kInteger;
  static constexpr size_t kParts = kPartCount;
  static constexpr size_t kLanes = kParts * kVectorBytes / sizeof(Accumulator);
  using Part = Vector<Accumulator>;
  using Storeds = Vector<Stored, kLanes * sizeof(Stored)>;
  // Of the first elements of a vector.
  static constexpr size_t StoredBytes(size_t elements) { return elements * sizeof(Stored); }
};

template <typename Number>
struct FloatElement : ElementBase<Number, Number, false> {
  static void Load(Vector<Number> stored, Vector<Number>* part) { *part = stored; }
  static Vector<Number> Store(const Vector<Number>* part) { return CanonicalNan(*part); }
};

template <typename Number>
struct IntegerElement : ElementBase<Number, Number, true> {
  static void Load(Vector<Number> stored, Vector<Number>* part) { *part = stored; }
  static Vector<Number> Store(const Vector<Number>* part) { return *part; }
};

template <DataType type>
struct Element;

// clang-format off
template <> struct Element<DataType::kFloat32> : FloatElement<float> {};
template <> struct Element<DataType::kFloat64> : FloatElement<double> {};
template <> struct Element<DataType::kInt8> : IntegerElement<int8_t> {};
template <> struct Element<DataType::kInt16> : IntegerElement<int16_t> {};
template <> struct Element<DataType::kInt32> : IntegerElement<int32_t> {};
template <> struct Element<DataType::kInt64> : IntegerElement<int64_t> {};
template <> struct Element<DataType::kUint8> : IntegerElement<uint8_t> {};
// clang-format on

template <>
struct Element<DataType::kFloat16> : ElementBase<uint16_t, float, false> {
  static void Load(Halves stored, Float32s* part) { *part = WidenFloat16(stored); }
  static Halves Store(const Float32s* part) { return NarrowToFloat16(CanonicalNan(*part)); }
};

// Two neighbours share 32 bits, and a bfloat16 is the upper half of its fp32 number: the even ones go to one part and
// the odd ones to the other with a shift and a mask, where widening in order would move lanes across the register.
template <>
struct Element<DataType::kBfloat16> : ElementBase<uint16_t, float, false, 2> {
  static void Load(Vector<uint16_t> stored, Float32s* parts) {
    parts[0] = (Float32s)((Uint32s)stored << 16);
    parts[1] = (Float32s)((Uint32s)stored & 0xffff0000u);
  }
  static Vector<uint16_t> Store(const Float32s* parts) {
    return (Vector<uint16_t>)((RoundToBfloat16(CanonicalNan(parts[0])) >> 16) |
                              (RoundToBfloat16(CanonicalNan(parts[1])) & 0xffff0000u));
  }
};

// One vector of memory of any alignment; `bytes` below a whole one: the other lanes are zero.
template <typename Element>
void LoadFrom(const std::byte* memory, size_t bytes, typename Element::Part* parts) {
  if constexpr (requires { Element::LoadFrom(memory, bytes, parts); }) {
    Element::LoadFrom(memory, bytes, parts);
  } else {
    typename Element::Storeds stored{};
    __builtin_memcpy(&stored, memory, bytes);
    Element::Load(stored, parts);
  }
}

template <typename Element>
void StoreTo(const typename Element::Part* parts, std::byte* memory, size_t bytes) {
  if constexpr (requires { Element::StoreTo(parts, memory, bytes); }) {
    Element::StoreTo(parts, memory, bytes);
  } else {
    const typename Element::Storeds stored = Element::Store(parts);
    __builtin_memcpy(memory, &stored, bytes);
  }
}

}  // namespace
}  // namespace shoal

#endif  // SHOAL_REDUCE_ELEMENT_H_
