#include "reduce/finite.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "reduce/convert.h"

namespace shoal {
namespace {

constexpr uint64_t kBlockElements = 2048;
// Sums that do not wait for each other, so that the compiler may use vectors.
constexpr uint64_t kLanes = 8;

template <typename Number>
Number Load(const std::byte* data, uint64_t index) {
  Number number;
  std::memcpy(&number, data + index * sizeof(Number), sizeof(Number));
  return number;
}

// A number is NaN or infinite if all bits of its exponent are set.
template <typename Bits, Bits kExponent>
std::optional<uint64_t> FindNonFinite(const std::byte* data, uint64_t element_count) {
  const auto is_non_finite = [data](uint64_t index) { return (Load<Bits>(data, index) & kExponent) == kExponent; };
  for (uint64_t begin = 0; begin < element_count; begin += kBlockElements) {
    const uint64_t end = std::min(begin + kBlockElements, element_count);
    Bits found = 0;
    for (uint64_t i = begin; i < end; ++i) found = static_cast<Bits>(found | (is_non_finite(i) ? 1 : 0));
    if (found == 0) continue;
    for (uint64_t i = begin; i < end; ++i) {
      if (is_non_finite(i)) return i;
    }
  }
  return std::nullopt;
}

template <typename Number>
void AddSquares(const std::byte* data, uint64_t element_count, std::array<double, kLanes>* sums) {
  std::array<double, kLanes> local = *sums;
  const auto add = [&](uint64_t index, uint64_t lane) {
    const auto number = static_cast<double>(Load<Number>(data, index));
    local[lane] += number * number;
  };
  uint64_t i = 0;
  for (; i + kLanes <= element_count; i += kLanes) {
    for (uint64_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (; i < element_count; ++i) add(i, i % kLanes);
  *sums = local;
}

void AddSquaresOf16Bits(WireFormat format, const std::byte* data, uint64_t element_count,
                        std::array<double, kLanes>* sums) {
  const WireCodec codec(DataType::kFloat32, format);
  std::array<float, kBlockElements> wide;
  auto* const wide_bytes = reinterpret_cast<std::byte*>(wide.data());
  for (uint64_t begin = 0; begin < element_count; begin += kBlockElements) {
    const uint64_t count = std::min(kBlockElements, element_count - begin);
    Decode(codec, data + codec.WireBytes(begin), wide_bytes, count);
    AddSquares<float>(wide_bytes, count, sums);
  }
}

}  // namespace

std::optional<uint64_t> FirstNonFinite(DataType dtype, const std::byte* data, uint64_t element_count) {
  switch (dtype) {
    case DataType::kFloat32:
      return FindNonFinite<uint32_t, 0x7f800000>(data, element_count);
    case DataType::kFloat64:
      return FindNonFinite<uint64_t, 0x7ff0000000000000>(data, element_count);
    case DataType::kFloat16:
      return FindNonFinite<uint16_t, 0x7c00>(data, element_count);
    case DataType::kBfloat16:
      return FindNonFinite<uint16_t, 0x7f80>(data, element_count);
    default:
      return std::nullopt;
  }
}

double SquareSum(DataType dtype, const std::byte* data, uint64_t element_count) {
  std::array<double, kLanes> sums = {};
  switch (dtype) {
    case DataType::kFloat32:
      AddSquares<float>(data, element_count, &sums);
      break;
    case DataType::kFloat64:
      AddSquares<double>(data, element_count, &sums);
      break;
    case DataType::kFloat16:
      AddSquaresOf16Bits(WireFormat::kFloat16, data, element_count, &sums);
      break;
    case DataType::kBfloat16:
      AddSquaresOf16Bits(WireFormat::kBfloat16, data, element_count, &sums);
      break;
    default:
      break;
  }
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

}  // namespace shoal
