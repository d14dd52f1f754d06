// The numbers of a block that has one scale: what a byte stands for, and which scale a block gets (docs/numerics.md).
// block_element.h makes blocks of them. For kernel files alone; as in kernel_template.h, all has internal linkage and
// calls nothing of the standard library.
//
// The element types and the scale are those of the Open Compute Project's Microscaling formats (MX v1.0, 2023): MXINT8
// but for the point's place, MXFP8 with E4M3, and E8M0 for scales.
//
// The scale is the smallest with which the block's largest number rounds to at most kMost. So with half the scale it
// would round to more, and its rounded value would as well: int8 has 64 or more, which becomes 128, and E4M3 has 240 or
// more, which becomes 480. So the scale of what was decoded is the same again, all numbers are exact, and the bytes
// come back. Where the scale is at its lower bound that holds as well, because it stays there.
#ifndef SHOAL_REDUCE_BLOCK_NUMBERS_H_
#define SHOAL_REDUCE_BLOCK_NUMBERS_H_

#include <cstddef>
#include <cstdint>

#include "core/wire_codec.h"
#include "reduce/element.h"

namespace shoal {
namespace {

constexpr size_t kNumbersPerPart = kVectorBytes / sizeof(float);
constexpr size_t kBlockParts = kBlockElements / kNumbersPerPart;
using Bytes = Vector<uint8_t, kNumbersPerPart>;  // as many as there are Float32s

// Where the compiler makes of __builtin_convertvector, or of a comparison, more than there has to be.
#if defined(__AVX512BW__)
inline Float32s FloatsOfSigned(Bytes integers) {
  return (Float32s)_mm512_maskz_cvtepi32_ps(kAllLanes, _mm512_maskz_cvtepi8_epi32(kAllLanes, (__m128i)integers));
}
inline Halves SignedHalves(Bytes integers) { return (Halves)_mm256_cvtepi8_epi16((__m128i)integers); }
inline Uint32s LargerOf(Uint32s a, Uint32s b) {
  return (Uint32s)_mm512_maskz_max_epu32(kAllLanes, (__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__)
inline __m128i InRegister(Bytes bytes) { return _mm_cvtsi64_si128((long long)bytes); }
inline Float32s FloatsOfSigned(Bytes integers) {
  return (Float32s)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(InRegister(integers)));
}
inline Halves SignedHalves(Bytes integers) { return (Halves)_mm_cvtepi8_epi16(InRegister(integers)); }
inline Uint32s LargerOf(Uint32s a, Uint32s b) { return (Uint32s)_mm256_max_epu32((__m256i)a, (__m256i)b); }
#elif defined(SHOAL_NEON_KERNELS)
inline int16x4_t WidenedSigned(Bytes integers) {
  return vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32((uint32_t)integers))));
}
inline Float32s FloatsOfSigned(Bytes integers) { return (Float32s)vcvtq_f32_s32(vmovl_s16(WidenedSigned(integers))); }
inline Halves SignedHalves(Bytes integers) { return (Halves)WidenedSigned(integers); }
inline Uint32s LargerOf(Uint32s a, Uint32s b) { return (Uint32s)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b); }
#else
using Int8s = Vector<int8_t, kNumbersPerPart>;
inline Float32s FloatsOfSigned(Bytes integers) {
  return __builtin_convertvector(__builtin_convertvector((Int8s)integers, Vector<int32_t>), Float32s);
}
inline Halves SignedHalves(Bytes integers) {
  return (Halves) __builtin_convertvector((Int8s)integers, Vector<int16_t, kVectorBytes / 2>);
}
inline Uint32s LargerOf(Uint32s a, Uint32s b) { return a > b ? a : b; }
#endif

// For each type:
//   kMost                 the largest number
//   kMostExponent         2^kMostExponent <= kMost < 2^(kMostExponent + 1)
//   kTooLargeMantissa     of float32: numbers of that binade with this one or a larger one would round to more
//   kFractionBits         2^-kFractionBits is the smallest number above zero
//   kDecodedExponent      Decode gives numbers in units of 2^kDecodedExponent
// Decode takes any bytes. Encode rounds finite numbers from -kMost to kMost, and those that round to them, to nearest
// even; what is above the lowest byte of a word is of no account.

struct Int8Numbers {
  static constexpr float kMost = 127.0f;
  static constexpr uint32_t kMostExponent = 6;
  static constexpr uint32_t kTooLargeMantissa = 0x7f0000;  // 127.5, a tie, which goes to 128
  static constexpr uint32_t kFractionBits = 0;
  static constexpr uint32_t kDecodedExponent = 0;

  static Float32s Decode(Bytes bytes) { return FloatsOfSigned(bytes); }

  // In 1.5 * 2^23 + x the lowest bit weighs 1, so the adder rounds, and the lowest byte of the sum's bits is the
  // integer in two's complement.
  static Uint32s Encode(Float32s units) { return (Uint32s)(units + 12582912.0f); }
};

// A sign, four bits of exponent and three of mantissa, without infinities: S1111.111 is NaN, which no encoder writes.
struct Float8Numbers {
  static constexpr float kMost = 448.0f;
  static constexpr uint32_t kMostExponent = 8;
  static constexpr uint32_t kTooLargeMantissa = 0x680001;  // above 464, a tie, which goes to 448
  static constexpr uint32_t kFractionBits = 9;
  static constexpr uint32_t kDecodedExponent = 8;

  // The bits of a float16 with an exponent that is less by 8, denormal numbers included.
  static Float32s Decode(Bytes bytes) {
    constexpr uint32_t kNan = 0x3ff00000u;  // as S1111.111 comes out
    const Float32s value = WidenFloat16((SignedHalves(bytes) << 7) & 0xbf80u);
    return ((Uint32s)value & 0x7fffffffu) == kNan ? (Float32s)(Uint32s{} + kCanonicalNanFloat32) : value;
  }

  // In 2^(e + 20) + x the lowest bit weighs 2^(e - 3), as in an E4M3 number of 2^e or more: the adder rounds. The
  // smallest e is -6, for denormal numbers as well. What it adds up to is 8 to 16 of these, or 0 to 8 there; 16 are the
  // first number of the next binade.
  static Uint32s Encode(Float32s units) {
    constexpr uint32_t kLeastBinade = (127u - 6u) << 23;
    const Uint32s bits = (Uint32s)units;
    const Uint32s magnitude = bits & 0x7fffffffu;
    const Uint32s binade = LargerOf(magnitude, Uint32s{} + kLeastBinade) & 0x7f800000u;
    const Uint32s rounder = binade + (20u << 23);
    const Uint32s eighths = (Uint32s)((Float32s)magnitude + (Float32s)rounder) - rounder;
    return (eighths + ((binade - kLeastBinade) >> 20)) | ((bits >> 24) & 0x80u);
  }
};

}  // namespace
}  // namespace shoal

#endif  // SHOAL_REDUCE_BLOCK_NUMBERS_H_
