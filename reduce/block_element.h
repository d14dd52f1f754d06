// Blocks of 8-bit numbers with one scale: how 32 float32 numbers become 33 bytes and back (docs/numerics.md). For
// kernel_template.h and convert_template.h alone; as there, all has internal linkage and calls nothing of the standard
// library.
//
// A block is a byte e and then a byte for each number; a number is what its byte stands for (block_numbers.h) times
// 2^(e - 127).
#ifndef SHOAL_REDUCE_BLOCK_ELEMENT_H_
#define SHOAL_REDUCE_BLOCK_ELEMENT_H_

#include <cstddef>
#include <cstdint>

#include "core/wire_codec.h"
#include "reduce/block_numbers.h"
#include "reduce/element.h"

namespace shoal {
namespace {

// The scale of a block with a number that is not finite. Its bytes say what is where; its finite numbers are lost.
constexpr uint8_t kNonFiniteScale = 255;
enum class NonFinite : uint8_t { kZero = 0, kNan = 1, kInfinity = 2, kMinusInfinity = 3 };

constexpr uint32_t kInfinityBits = 0x7f800000u;

struct Block {
  uint8_t scale;
  uint8_t numbers[kBlockElements];
};
static_assert(sizeof(Block) == 1 + kBlockElements);

inline float FloatOfBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// 2^(biased - 127) for 0 to 254; that of 0 is a denormal number.
inline float PowerOfTwo(uint32_t biased) { return FloatOfBits(biased == 0 ? 0x00400000u : biased << 23); }

#if defined(__AVX512BW__)
inline uint32_t LargestOf(Uint32s words) {
  const __m256i of_8 = _mm256_max_epu32(_mm512_maskz_extracti64x4_epi64(0xff, (__m512i)words, 0),
                                        _mm512_maskz_extracti64x4_epi64(0xff, (__m512i)words, 1));
  const __m128i of_4 = _mm_max_epu32(_mm256_castsi256_si128(of_8), _mm256_extracti128_si256(of_8, 1));
  const __m128i of_2 = _mm_max_epu32(of_4, _mm_shuffle_epi32(of_4, 0b01001110));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(of_2, _mm_shuffle_epi32(of_2, 0b10110001))));
}
// The lowest byte of each word.
inline void StoreLowBytes(const Uint32s* words, uint8_t* numbers) {
  for (size_t p = 0; p < kBlockParts; ++p) {
    const __m128i bytes = _mm512_maskz_cvtepi32_epi8(kAllLanes, (__m512i)words[p]);
    __builtin_memcpy(numbers + p * kNumbersPerPart, &bytes, sizeof(bytes));
  }
}
#elif defined(__AVX2__)
inline uint32_t LargestOf(Uint32s words) {
  const __m128i of_4 =
      _mm_max_epu32(_mm256_castsi256_si128((__m256i)words), _mm256_extracti128_si256((__m256i)words, 1));
  const __m128i of_2 = _mm_max_epu32(of_4, _mm_shuffle_epi32(of_4, 0b01001110));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(of_2, _mm_shuffle_epi32(of_2, 0b10110001))));
}
inline void StoreLowBytes(const Uint32s* words, uint8_t* numbers) {
  const __m256i low = _mm256_set1_epi32(0xff);
  const auto byte_of = [&](size_t p) { return _mm256_and_si256((__m256i)words[p], low); };
  const __m256i packed =
      _mm256_packus_epi16(_mm256_packus_epi32(byte_of(0), byte_of(1)), _mm256_packus_epi32(byte_of(2), byte_of(3)));
  const __m256i in_order = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  __builtin_memcpy(numbers, &in_order, sizeof(in_order));
}
#elif defined(SHOAL_NEON_KERNELS)
inline uint32_t LargestOf(Uint32s words) { return vmaxvq_u32((uint32x4_t)words); }
inline void StoreLowBytes(const Uint32s* words, uint8_t* numbers) {
  const auto low_halves = [&](size_t p) { return vuzp1q_u16((uint16x8_t)words[p], (uint16x8_t)words[p + 1]); };
  for (size_t p = 0; p < kBlockParts; p += 4) {
    const uint8x16_t bytes = vuzp1q_u8((uint8x16_t)low_halves(p), (uint8x16_t)low_halves(p + 2));
    __builtin_memcpy(numbers + p * kNumbersPerPart, &bytes, sizeof(bytes));
  }
}
#else
inline uint32_t LargestOf(Uint32s words) {
  uint32_t largest = words[0];
  for (size_t i = 1; i < kNumbersPerPart; ++i) largest = words[i] > largest ? words[i] : largest;
  return largest;
}
#if defined(__SSE2__)
inline void StoreLowBytes(const Uint32s* words, uint8_t* numbers) {
  const __m128i low = _mm_set1_epi32(0xff);
  const auto byte_of = [&](size_t p) { return _mm_and_si128((__m128i)words[p], low); };
  for (size_t p = 0; p < kBlockParts; p += 4) {
    const __m128i bytes =
        _mm_packus_epi16(_mm_packs_epi32(byte_of(p), byte_of(p + 1)), _mm_packs_epi32(byte_of(p + 2), byte_of(p + 3)));
    __builtin_memcpy(numbers + p * kNumbersPerPart, &bytes, sizeof(bytes));
  }
}
#else
inline void StoreLowBytes(const Uint32s* words, uint8_t* numbers) {
  for (size_t p = 0; p < kBlockParts; ++p) {
    const Bytes bytes = __builtin_convertvector(words[p], Bytes);
    __builtin_memcpy(numbers + p * kNumbersPerPart, &bytes, sizeof(bytes));
  }
}
#endif
#endif

// Any byte gives a number: one that no encoder writes gives NaN.
[[gnu::noinline, gnu::cold]] inline void LoadNonFinite(const std::byte* numbers, Float32s* parts) {
  uint32_t bits[kBlockElements];
  for (size_t i = 0; i < kBlockElements; ++i) {
    const auto what = static_cast<NonFinite>(numbers[i]);
    bits[i] = what == NonFinite::kZero            ? 0
              : what == NonFinite::kInfinity      ? kInfinityBits
              : what == NonFinite::kMinusInfinity ? kInfinityBits | 0x80000000u
                                                  : kCanonicalNanFloat32;
  }
  __builtin_memcpy(parts, bits, sizeof(bits));
}

[[gnu::noinline, gnu::cold]] inline void StoreNonFinite(const Float32s* parts, Block* block) {
  uint32_t bits[kBlockElements];
  __builtin_memcpy(bits, parts, sizeof(bits));
  block->scale = kNonFiniteScale;
  for (size_t i = 0; i < kBlockElements; ++i) {
    const uint32_t magnitude = bits[i] & 0x7fffffffu;
    const NonFinite what = magnitude < kInfinityBits   ? NonFinite::kZero
                           : magnitude > kInfinityBits ? NonFinite::kNan
                           : bits[i] == kInfinityBits  ? NonFinite::kInfinity
                                                       : NonFinite::kMinusInfinity;
    block->numbers[i] = static_cast<uint8_t>(what);
  }
}

template <typename Numbers>
struct BlockElement : ElementBase<uint8_t, float, false, kBlockParts> {
  using Storeds = Block;
  static_assert(kLanes == kBlockElements);

  static constexpr size_t StoredBytes(size_t elements) { return elements == 0 ? 0 : elements + 1; }

  // Of a short block the other numbers are zero. Straight from memory: what is copied first is waited for.
  static void LoadFrom(const std::byte* memory, size_t bytes, Float32s* parts) {
    if (bytes < sizeof(Block)) {
      Block whole{};
      __builtin_memcpy(&whole, memory, bytes);
      return LoadWhole(reinterpret_cast<const std::byte*>(&whole), parts);
    }
    LoadWhole(memory, parts);
  }

  // Numbers beyond the short block's are zero.
  static void StoreTo(const Float32s* parts, std::byte* memory, size_t bytes) {
    if (bytes == sizeof(Block)) return StoreWhole(parts, reinterpret_cast<Block*>(memory));
    Block whole;
    StoreWhole(parts, &whole);
    __builtin_memcpy(memory, &whole, bytes);
  }

 private:
  // Scales that are written. With the lower one the smallest number is float32's smallest normal one, so that nothing
  // is decoded to a denormal one, on which some processors are a hundred times slower. Above the upper one the largest
  // number's binade would be infinite.
  static constexpr uint32_t kLeastScale = 1 + Numbers::kFractionBits;
  static constexpr uint32_t kMostScale = 254 - Numbers::kMostExponent;
  // From this number on the largest scale is not enough.
  static constexpr uint32_t kSaturatesBits = (254u << 23) | Numbers::kTooLargeMantissa;
  // Above it the scale in units of what Decode gives is no float32.
  static constexpr uint32_t kMostUsualScale = 254 - Numbers::kDecodedExponent;

  static void StoreWhole(const Float32s* parts, Block* block) {
    Uint32s magnitudes{};
    for (size_t p = 0; p < kBlockParts; ++p) magnitudes = LargerOf(magnitudes, (Uint32s)parts[p] & 0x7fffffffu);
    const uint32_t largest = LargestOf(magnitudes);
    if (largest < kSaturatesBits) {
      // What is too large for its binade's scale gets the next one.
      const uint32_t exponent = (largest + (0x800000u - Numbers::kTooLargeMantissa)) >> 23;
      const bool is_least = exponent < kLeastScale + Numbers::kMostExponent;
      StoreScaled<false>(parts, is_least ? kLeastScale : exponent - Numbers::kMostExponent, block);
    } else if (largest < kInfinityBits) {
      StoreScaled<true>(parts, kMostScale, block);
    } else {
      StoreNonFinite(parts, block);
    }
  }

  // Of finite numbers.
  template <bool kSaturates>
  static void StoreScaled(const Float32s* parts, uint32_t scale, Block* block) {
    const float inverse = PowerOfTwo(254 - scale);
    Uint32s words[kBlockParts];
    for (size_t p = 0; p < kBlockParts; ++p) {
      Float32s units = parts[p] * inverse;
      if constexpr (kSaturates) {
        const Float32s most = Float32s{} + Numbers::kMost;
        units = units > most ? most : units;
        units = units < -most ? -most : units;
      }
      words[p] = Numbers::Encode(units);
    }
    block->scale = static_cast<uint8_t>(scale);
    StoreLowBytes(words, block->numbers);
  }

  static void LoadWhole(const std::byte* memory, Float32s* parts) {
    const auto scale = static_cast<uint32_t>(memory[0]);
    if (scale > kMostUsualScale) return LoadUnusual(memory, parts);
    LoadScaled(memory, PowerOfTwo(scale + Numbers::kDecodedExponent), parts);
  }

  static void LoadScaled(const std::byte* memory, float factor, Float32s* parts) {
    for (size_t p = 0; p < kBlockParts; ++p) {
      Bytes bytes;
      __builtin_memcpy(&bytes, memory + 1 + p * kNumbersPerPart, sizeof(bytes));
      parts[p] = Numbers::Decode(bytes) * factor;
    }
  }

  [[gnu::noinline, gnu::cold]] static void LoadUnusual(const std::byte* memory, Float32s* parts) {
    const auto scale = static_cast<uint32_t>(memory[0]);
    if (scale == kNonFiniteScale) return LoadNonFinite(memory + 1, parts);
    LoadScaled(memory, PowerOfTwo(127 + Numbers::kDecodedExponent), parts);
    for (size_t p = 0; p < kBlockParts; ++p) parts[p] *= PowerOfTwo(scale);
  }
};

}  // namespace
}  // namespace shoal

#endif  // SHOAL_REDUCE_BLOCK_ELEMENT_H_
