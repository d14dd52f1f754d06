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

namespace {

struct BlockRule {
  double most;  // of units; from 2^exponent on, and below the next power of two
  int exponent;
  double least_unit;
  double most_unit;
};

constexpr BlockRule RuleOf(WireFormat wire) {
  if (wire == WireFormat::kInt8) return {.most = 127, .exponent = 6, .least_unit = 0x1p-126, .most_unit = 0x1p121};
  return {.most = 448, .exponent = 8, .least_unit = 0x1p-117, .most_unit = 0x1p119};
}

// To nearest even, as if there were no largest number.
double RoundedUnits(WireFormat wire, double units) {
  if (wire == WireFormat::kInt8) return std::nearbyint(units);
  // Three bits behind the first one, and nothing below 2^-9.
  const double step = std::fabs(units) < 0x1p-6 ? 0x1p-9 : std::ldexp(1.0, std::ilogb(units) - 3);
  return std::nearbyint(units / step) * step;
}

}  // namespace

// The smallest power of two of which the largest number has at most so many.
double UnitOfBlock(WireFormat wire, std::span<const float> block) {
  const BlockRule rule = RuleOf(wire);
  double largest = 0;
  for (const float number : block) largest = std::max(largest, static_cast<double>(std::fabs(number)));
  // With half of this the largest would have too many.
  double unit = rule.least_unit;
  if (largest > 0) unit = std::max(unit, std::ldexp(1.0, std::ilogb(largest) - rule.exponent));
  while (unit < rule.most_unit && RoundedUnits(wire, largest / unit) > rule.most) unit *= 2;
  return unit;
}

double RoundedInBlock(WireFormat wire, double number, double unit) {
  const double most = RuleOf(wire).most;
  return std::clamp(RoundedUnits(wire, number / unit), -most, most) * unit;
}

void RoundAsBlock(WireFormat wire, std::span<float> block) {
  const double unit = UnitOfBlock(wire, block);
  for (float& number : block) number = static_cast<float>(RoundedInBlock(wire, number, unit));
}

}  // namespace shoal
