// Blocks of 8-bit integers with one scale: how 32 float32 numbers become 33 bytes and back (docs/numerics.md). For
// kernel_template.h and convert_template.h alone; as there, all has internal linkage and calls nothing of the standard
// library.
//
// A block is a byte e and then a byte for each number. A number is q * 2^(e - 127), the element type and the scale of
// the Open Compute Project's Microscaling formats (MX v1.0, 2023: MXINT8 but for the point's place, E8M0). e is the
// smallest for which the largest number rounds to at most 127. So that one rounds to at least 64, and what was decoded
// is encoded to the same bytes again, exactly. Where e is at its lower bound that holds as well, because it stays
// there.
#ifndef SHOAL_REDUCE_INT8_BLOCK_H_
#define SHOAL_REDUCE_INT8_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "core/wire_codec.h"
#include "reduce/element.h"

namespace shoal {
namespace {

constexpr size_t kBlockNumbers = kInt8BlockElements;
constexpr size_t kNumbersPerPart = kVectorBytes / sizeof(float);
constexpr size_t kBlockParts = kBlockNumbers / kNumbersPerPart;
using Int8s = Vector<int8_t, kNumbersPerPart>;

// The scale of a block with a number that is not finite. Its bytes say what is where; its finite numbers are lost.
constexpr uint8_t kNonFiniteScale = 255;
enum class NonFinite : uint8_t { kZero = 0, kNan = 1, kInfinity = 2, kMinusInfinity = 3 };

// Those that are written. The lower one is the smallest normal number, so that no product is a denormal one, on which
// some processors are a hundred times slower. Above the upper one 64 would already be infinite.
constexpr uint32_t kLeastScale = 1;
constexpr uint32_t kMostScale = 248;
constexpr uint32_t kInfinityBits = 0x7f800000u;
// From this number on the largest scale is not enough: it rounds to 128.
constexpr uint32_t kSaturatesBits = 0x7f7f0000u;

struct Int8Block {
  uint8_t scale;
  int8_t numbers[kBlockNumbers];
};
static_assert(sizeof(Int8Block) == 1 + kBlockNumbers);

inline float FloatOfBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// 2^(scale - 127); that of 0 is a denormal number.
inline float ScaleOf(uint8_t scale) { return FloatOfBits(scale == 0 ? 0x00400000u : uint32_t{scale} << 23); }

// Where the compiler makes of __builtin_convertvector more than there has to be.
#if defined(__AVX512BW__)
inline Float32s FloatsOf(Int8s numbers) {
  return (Float32s)_mm512_maskz_cvtepi32_ps(kAllLanes, _mm512_maskz_cvtepi8_epi32(kAllLanes, (__m128i)numbers));
}
inline Uint32s LargerOf(Uint32s a, Uint32s b) {
  return (Uint32s)_mm512_maskz_max_epu32(kAllLanes, (__m512i)a, (__m512i)b);
}
inline uint32_t LargestOf(Uint32s words) {
  const __m256i of_8 = _mm256_max_epu32(_mm512_maskz_extracti64x4_epi64(0xff, (__m512i)words, 0),
                                        _mm512_maskz_extracti64x4_epi64(0xff, (__m512i)words, 1));
  const __m128i of_4 = _mm_max_epu32(_mm256_castsi256_si128(of_8), _mm256_extracti128_si256(of_8, 1));
  const __m128i of_2 = _mm_max_epu32(of_4, _mm_shuffle_epi32(of_4, 0b01001110));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(of_2, _mm_shuffle_epi32(of_2, 0b10110001))));
}
// The lowest byte of each word.
inline void StoreLowBytes(const Uint32s* words, int8_t* numbers) {
  for (size_t p = 0; p < kBlockParts; ++p) {
    const __m128i bytes = _mm512_maskz_cvtepi32_epi8(kAllLanes, (__m512i)words[p]);
    __builtin_memcpy(numbers + p * kNumbersPerPart, &bytes, sizeof(bytes));
  }
}
#elif defined(__AVX2__)
inline Float32s FloatsOf(Int8s numbers) {
  return (Float32s)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)numbers)));
}
inline Uint32s LargerOf(Uint32s a, Uint32s b) { return (Uint32s)_mm256_max_epu32((__m256i)a, (__m256i)b); }
inline uint32_t LargestOf(Uint32s words) {
  const __m128i of_4 =
      _mm_max_epu32(_mm256_castsi256_si128((__m256i)words), _mm256_extracti128_si256((__m256i)words, 1));
  const __m128i of_2 = _mm_max_epu32(of_4, _mm_shuffle_epi32(of_4, 0b01001110));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(of_2, _mm_shuffle_epi32(of_2, 0b10110001))));
}
inline void StoreLowBytes(const Uint32s* words, int8_t* numbers) {
  const __m256i low = _mm256_set1_epi32(0xff);
  const auto byte_of = [&](size_t p) { return _mm256_and_si256((__m256i)words[p], low); };
  const __m256i packed =
      _mm256_packus_epi16(_mm256_packus_epi32(byte_of(0), byte_of(1)), _mm256_packus_epi32(byte_of(2), byte_of(3)));
  const __m256i in_order = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  __builtin_memcpy(numbers, &in_order, sizeof(in_order));
}
#else
inline Float32s FloatsOf(Int8s numbers) {
  return __builtin_convertvector(__builtin_convertvector(numbers, Vector<int32_t>), Float32s);
}
inline Uint32s LargerOf(Uint32s a, Uint32s b) { return a > b ? a : b; }
inline uint32_t LargestOf(Uint32s words) {
  uint32_t largest = words[0];
  for (size_t i = 1; i < kNumbersPerPart; ++i) largest = words[i] > largest ? words[i] : largest;
  return largest;
}
#if defined(__SSE2__)
inline void StoreLowBytes(const Uint32s* words, int8_t* numbers) {
  const __m128i low = _mm_set1_epi32(0xff);
  const auto byte_of = [&](size_t p) { return _mm_and_si128((__m128i)words[p], low); };
  for (size_t p = 0; p < kBlockParts; p += 4) {
    const __m128i bytes =
        _mm_packus_epi16(_mm_packs_epi32(byte_of(p), byte_of(p + 1)), _mm_packs_epi32(byte_of(p + 2), byte_of(p + 3)));
    __builtin_memcpy(numbers + p * kNumbersPerPart, &bytes, sizeof(bytes));
  }
}
#else
inline void StoreLowBytes(const Uint32s* words, int8_t* numbers) {
  for (size_t p = 0; p < kBlockParts; ++p) {
    const Int8s bytes = __builtin_convertvector((Vector<int32_t>)words[p], Int8s);
    __builtin_memcpy(numbers + p * kNumbersPerPart, &bytes, sizeof(bytes));
  }
}
#endif
#endif

// Any byte gives a number: one that no encoder writes gives NaN.
[[gnu::noinline, gnu::cold]] inline void LoadNonFinite(const std::byte* numbers, Float32s* parts) {
  uint32_t bits[kBlockNumbers];
  for (size_t i = 0; i < kBlockNumbers; ++i) {
    const auto what = static_cast<NonFinite>(numbers[i]);
    bits[i] = what == NonFinite::kZero            ? 0
              : what == NonFinite::kInfinity      ? kInfinityBits
              : what == NonFinite::kMinusInfinity ? kInfinityBits | 0x80000000u
                                                  : kCanonicalNanFloat32;
  }
  __builtin_memcpy(parts, bits, sizeof(bits));
}

[[gnu::noinline, gnu::cold]] inline void StoreNonFinite(const Float32s* parts, Int8Block* block) {
  uint32_t bits[kBlockNumbers];
  __builtin_memcpy(bits, parts, sizeof(bits));
  block->scale = kNonFiniteScale;
  for (size_t i = 0; i < kBlockNumbers; ++i) {
    const uint32_t magnitude = bits[i] & 0x7fffffffu;
    const NonFinite what = magnitude < kInfinityBits   ? NonFinite::kZero
                           : magnitude > kInfinityBits ? NonFinite::kNan
                           : bits[i] == kInfinityBits  ? NonFinite::kInfinity
                                                       : NonFinite::kMinusInfinity;
    block->numbers[i] = static_cast<int8_t>(what);
  }
}

// Of finite numbers: to nearest even. In 1.5 * 2^23 + x the lowest bit weighs 1, so the adder rounds, and the lowest
// byte of the sum's bits is the integer in two's complement.
template <bool kSaturates>
void StoreScaled(const Float32s* parts, uint32_t scale, Int8Block* block) {
  const float inverse = FloatOfBits((254 - scale) << 23);
  Uint32s words[kBlockParts];
  for (size_t p = 0; p < kBlockParts; ++p) {
    Float32s scaled = parts[p] * inverse;
    if constexpr (kSaturates) {
      const Float32s most = Float32s{} + 127.0f;
      scaled = scaled > most ? most : scaled;
      scaled = scaled < -most ? -most : scaled;
    }
    words[p] = (Uint32s)(scaled + 12582912.0f);
  }
  block->scale = static_cast<uint8_t>(scale);
  StoreLowBytes(words, block->numbers);
}

struct Int8BlockElement : ElementBase<int8_t, float, false, kBlockParts> {
  using Storeds = Int8Block;
  static_assert(kLanes == kBlockNumbers);

  static constexpr size_t StoredBytes(size_t elements) { return elements == 0 ? 0 : elements + 1; }

  // Of a short block the other numbers are zero. Straight from memory: what is copied first is waited for.
  static void LoadFrom(const std::byte* memory, size_t bytes, Float32s* parts) {
    if (bytes < sizeof(Int8Block)) {
      Int8Block whole{};
      __builtin_memcpy(&whole, memory, bytes);
      return LoadWhole(reinterpret_cast<const std::byte*>(&whole), parts);
    }
    LoadWhole(memory, parts);
  }

  // Numbers beyond the short block's are zero.
  static void StoreTo(const Float32s* parts, std::byte* memory, size_t bytes) {
    if (bytes == sizeof(Int8Block)) return StoreWhole(parts, reinterpret_cast<Int8Block*>(memory));
    Int8Block whole;
    StoreWhole(parts, &whole);
    __builtin_memcpy(memory, &whole, bytes);
  }

 private:
  static void StoreWhole(const Float32s* parts, Int8Block* block) {
    Uint32s magnitudes{};
    for (size_t p = 0; p < kBlockParts; ++p) magnitudes = LargerOf(magnitudes, (Uint32s)parts[p] & 0x7fffffffu);
    const uint32_t largest = LargestOf(magnitudes);
    if (largest < kSaturatesBits) {
      // Half a unit more, so that what rounds to 128 gets the next scale. 64 is in the largest number's binade.
      const uint32_t scale = (largest + 0x10000u) >> 23;
      StoreScaled<false>(parts, scale < kLeastScale + 6 ? kLeastScale : scale - 6, block);
    } else if (largest < kInfinityBits) {
      StoreScaled<true>(parts, kMostScale, block);
    } else {
      StoreNonFinite(parts, block);
    }
  }

  static void LoadWhole(const std::byte* memory, Float32s* parts) {
    const auto scale = static_cast<uint8_t>(memory[0]);
    if (scale == kNonFiniteScale) return LoadNonFinite(memory + 1, parts);
    const float factor = ScaleOf(scale);
    for (size_t p = 0; p < kBlockParts; ++p) {
      Int8s numbers;
      __builtin_memcpy(&numbers, memory + 1 + p * kNumbersPerPart, sizeof(numbers));
      parts[p] = FloatsOf(numbers) * factor;
    }
  }
};

}  // namespace
}  // namespace shoal

#endif  // SHOAL_REDUCE_INT8_BLOCK_H_
