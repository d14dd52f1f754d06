#include "perf/number_format.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace shoal {

double DecodeFloat16(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int mantissa = bits & 0x3ff;
  double magnitude = 0;
  if (exponent == 0) {
    magnitude = mantissa * 0x1p-24;
  } else if (exponent == 0x1f) {
    magnitude = mantissa == 0 ? HUGE_VAL : std::nan("");
  } else {
    magnitude = (1024 + mantissa) * 0x1p-25 * static_cast<double>(1u << exponent);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double DecodeBfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t EncodeFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (magnitude >= 65520.0) return sign | 0x7c00;  // smaller numbers round to 65504
  if (magnitude < 0x1p-14) return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24));
  const int exponent = std::ilogb(magnitude);
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));  // 1024 .. 2048
  return static_cast<uint16_t>(sign | (((exponent + 15) << 10) + (units - 1024)));
}

uint16_t EncodeBfloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t cut = bits & 0xffffu;
  const uint32_t kept = bits >> 16;
  const bool up = cut > 0x8000u || (cut == 0x8000u && (kept & 1u) != 0);
  return static_cast<uint16_t>(kept + (up ? 1 : 0));
}

// The smallest power of two of which the largest number has at most 127, rounded to nearest even.
double UnitOfInt8Block(std::span<const float> block) {
  double largest = 0;
  for (const float number : block) largest = std::max(largest, static_cast<double>(std::fabs(number)));
  // With half of this the largest would have 128 or more.
  double unit = largest < 0x1p-119 ? 0x1p-126 : std::ldexp(1.0, std::ilogb(largest) - 6);
  while (unit < 0x1p121 && std::nearbyint(largest / unit) > 127) unit *= 2;
  return unit;
}

void RoundAsInt8Block(std::span<float> block) {
  const double unit = UnitOfInt8Block(block);
  for (float& number : block) {
    const auto units = static_cast<int>(std::clamp(std::nearbyint(number / unit), -127.0, 127.0));
    number = static_cast<float>(units * unit);
  }
}

}  // namespace shoal
