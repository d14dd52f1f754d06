#include "perf/number_format.h"

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

}  // namespace shoal
