// Elements of every type as bits, for making and checking test data. Shares no code with the kernels it checks.
//
// Pure functions; any thread.
#ifndef SHOAL_PERF_NUMBER_FORMAT_H_
#define SHOAL_PERF_NUMBER_FORMAT_H_

#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "core/wire_format.h"

namespace shoal {

double DecodeFloat16(uint16_t bits);
double DecodeBfloat16(uint16_t bits);
// To nearest even; beyond the range: infinity.
uint16_t EncodeFloat16(float value);
uint16_t EncodeBfloat16(float value);

// Float32 sent in blocks: the unit of a block of such finite numbers, and what a number and the block become on the
// way.
double UnitOfBlock(WireFormat wire, std::span<const float> block);
double RoundedInBlock(WireFormat wire, double number, double unit);
void RoundAsBlock(WireFormat wire, std::span<float> block);

// NumberFormat<type>::Stored is an element in memory. Floats: Wide is what sums are kept in; kMantissaBits are those
// stored, kSumBits the precision of the sum, and 2^kLeastExponent is the smallest number above zero.
template <DataType type>
struct NumberFormat;

template <>
struct NumberFormat<DataType::kFloat32> {
  using Stored = float;
  using Wide = float;
  static constexpr bool kIsFloat = true;
  static constexpr int kMantissaBits = 23;
  static constexpr int kExponentBias = 127;
  static constexpr int kSumBits = 24;
  static constexpr int kLeastExponent = -149;
  static long double Decode(Stored stored) { return stored; }
  static Stored Encode(Wide value) { return value; }
};

template <>
struct NumberFormat<DataType::kFloat64> {
  using Stored = double;
  using Wide = double;
  static constexpr bool kIsFloat = true;
  static constexpr int kMantissaBits = 52;
  static constexpr int kExponentBias = 1023;
  static constexpr int kSumBits = 53;
  static constexpr int kLeastExponent = -1074;
  static long double Decode(Stored stored) { return stored; }
  static Stored Encode(Wide value) { return value; }
};

template <>
struct NumberFormat<DataType::kFloat16> {
  using Stored = uint16_t;
  using Wide = float;
  static constexpr bool kIsFloat = true;
  static constexpr int kMantissaBits = 10;
  static constexpr int kExponentBias = 15;
  static constexpr int kSumBits = 24;
  static constexpr int kLeastExponent = -24;
  static long double Decode(Stored stored) { return DecodeFloat16(stored); }
  static Stored Encode(Wide value) { return EncodeFloat16(value); }
};

template <>
struct NumberFormat<DataType::kBfloat16> {
  using Stored = uint16_t;
  using Wide = float;
  static constexpr bool kIsFloat = true;
  static constexpr int kMantissaBits = 7;
  static constexpr int kExponentBias = 127;
  static constexpr int kSumBits = 24;
  static constexpr int kLeastExponent = -133;
  static long double Decode(Stored stored) { return DecodeBfloat16(stored); }
  static Stored Encode(Wide value) { return EncodeBfloat16(value); }
};

template <typename Number>
struct IntegerFormat {
  using Stored = Number;
  static constexpr bool kIsFloat = false;
};
// clang-format off
template <> struct NumberFormat<DataType::kInt8> : IntegerFormat<int8_t> {};
template <> struct NumberFormat<DataType::kInt16> : IntegerFormat<int16_t> {};
template <> struct NumberFormat<DataType::kInt32> : IntegerFormat<int32_t> {};
template <> struct NumberFormat<DataType::kInt64> : IntegerFormat<int64_t> {};
template <> struct NumberFormat<DataType::kUint8> : IntegerFormat<uint8_t> {};
// clang-format on

// Calls body(NumberFormat<type>()) for the type that `type` is at run time.
template <typename Body>
auto WithNumberFormat(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat64:
      return body(NumberFormat<DataType::kFloat64>());
    case DataType::kFloat16:
      return body(NumberFormat<DataType::kFloat16>());
    case DataType::kBfloat16:
      return body(NumberFormat<DataType::kBfloat16>());
    case DataType::kInt8:
      return body(NumberFormat<DataType::kInt8>());
    case DataType::kInt16:
      return body(NumberFormat<DataType::kInt16>());
    case DataType::kInt32:
      return body(NumberFormat<DataType::kInt32>());
    case DataType::kInt64:
      return body(NumberFormat<DataType::kInt64>());
    case DataType::kUint8:
      return body(NumberFormat<DataType::kUint8>());
    case DataType::kFloat32:
      break;
  }
  return body(NumberFormat<DataType::kFloat32>());
}

}  // namespace shoal

#endif  // SHOAL_PERF_NUMBER_FORMAT_H_
