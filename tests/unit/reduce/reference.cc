#include "tests/unit/reduce/reference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace shoal {
namespace {

// Wide enough for every sum and product of two.
__extension__ using Int128 = __int128;

template <typename Number>
struct Plain {
  using Stored = Number;
  using Accumulator = Number;
  static Number Load(Number stored) { return stored; }
  static Number Store(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      if (std::isnan(value)) return std::copysign(std::numeric_limits<Number>::quiet_NaN(), Number{1});
    }
    return value;
  }
};

template <int kExponentBits, int kMantissaBits>
struct Half {
  using Stored = uint16_t;
  using Accumulator = float;
  static float Load(uint16_t stored) { return static_cast<float>(DecodeHalf({kExponentBits, kMantissaBits}, stored)); }
  static uint16_t Store(float value) { return EncodeHalf({kExponentBits, kMantissaBits}, value); }
};

template <typename Number>
Number Wrap(Int128 value) {
  return static_cast<Number>(static_cast<uint64_t>(value));
}

template <typename Number>
Number Combine(ReduceOp op, Number kept, Number next) {
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    if (kept != kept) return kept;
    if (next != next) return next;
    if (op == ReduceOp::kMin) return next < kept ? next : kept;
    return next > kept ? next : kept;
  }
  if constexpr (std::is_floating_point_v<Number>) {
    return op == ReduceOp::kProd ? kept * next : kept + next;
  } else if (op == ReduceOp::kProd) {
    return Wrap<Number>(static_cast<Int128>(kept) * next);
  } else {
    return Wrap<Number>(static_cast<Int128>(kept) + next);
  }
}

template <typename Type>
void ReduceAs(const ReduceSpec& spec, std::span<const std::byte* const> inputs, std::byte* output,
              size_t element_count) {
  using Number = typename Type::Accumulator;
  for (size_t i = 0; i < element_count; ++i) {
    Number kept{};
    for (size_t k = 0; k < inputs.size(); ++k) {
      typename Type::Stored stored;
      std::memcpy(&stored, inputs[k] + i * sizeof(stored), sizeof(stored));
      Number value = Type::Load(stored);
      if constexpr (std::is_floating_point_v<Number>) {
        if (spec.op == ReduceOp::kPremulSum) value *= static_cast<Number>(spec.premul_factor);
      }
      kept = k == 0 ? value : Combine<Number>(spec.op, kept, value);
    }
    if (spec.op == ReduceOp::kAvg) {
      const size_t ranks = inputs.size() * spec.ranks_per_input;
      if constexpr (std::is_floating_point_v<Number>) {
        kept /= static_cast<Number>(ranks);
      } else {
        kept = static_cast<Number>(static_cast<Int128>(kept) / static_cast<Int128>(ranks));
      }
    }
    const typename Type::Stored result = Type::Store(kept);
    std::memcpy(output + i * sizeof(result), &result, sizeof(result));
  }
}

}  // namespace

double DecodeHalf(HalfFormat format, uint16_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = (bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  return sign * std::ldexp((1 << format.mantissa_bits) + mantissa, exponent - bias - format.mantissa_bits);
}

uint16_t EncodeHalf(HalfFormat format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(infinity | (1 << (format.mantissa_bits - 1)));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place; nearbyint rounds to nearest even.
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // A carry into the next exponent, from denormal to normal, or to infinity comes out of the plain addition.
  const double whole = std::ldexp(1.0, format.mantissa_bits);
  const int base = units >= whole ? (exponent + bias) << format.mantissa_bits : 0;
  const long encoded = base + static_cast<long>(units >= whole ? units - whole : units);
  return static_cast<uint16_t>(sign | (encoded > infinity ? infinity : encoded));
}

void ReferenceReduce(const ReduceSpec& spec, std::span<const std::byte* const> inputs, std::byte* output,
                     size_t element_count) {
  switch (spec.codec.tensor_type()) {
    case DataType::kFloat32:
      return ReduceAs<Plain<float>>(spec, inputs, output, element_count);
    case DataType::kFloat64:
      return ReduceAs<Plain<double>>(spec, inputs, output, element_count);
    case DataType::kFloat16:
      return ReduceAs<Half<5, 10>>(spec, inputs, output, element_count);
    case DataType::kBfloat16:
      return ReduceAs<Half<8, 7>>(spec, inputs, output, element_count);
    case DataType::kInt8:
      return ReduceAs<Plain<int8_t>>(spec, inputs, output, element_count);
    case DataType::kInt16:
      return ReduceAs<Plain<int16_t>>(spec, inputs, output, element_count);
    case DataType::kInt32:
      return ReduceAs<Plain<int32_t>>(spec, inputs, output, element_count);
    case DataType::kInt64:
      return ReduceAs<Plain<int64_t>>(spec, inputs, output, element_count);
    case DataType::kUint8:
      return ReduceAs<Plain<uint8_t>>(spec, inputs, output, element_count);
  }
}

std::vector<const KernelTable*> AllKernels() {
  std::vector<const KernelTable*> tables;
  for (const KernelTable* const* table = RunnableKernels(); *table != nullptr; ++table) tables.push_back(*table);
  return tables;
}

ReduceKernel KernelOf(const KernelTable& table, const ReduceSpec& spec) {
  return table.kernels[static_cast<int>(spec.codec.tensor_type()) - 1][static_cast<int>(spec.op) - 1];
}

std::string Describe(const KernelTable& table, const ReduceSpec& spec) {
  return std::string(table.name) + " " + std::string(DataTypeName(spec.codec.tensor_type())) + " " +
         std::string(ReduceOpName(spec.op));
}

std::vector<ReduceSpec> AllSpecs() {
  std::vector<ReduceSpec> specs;
  for (int type = 1; type <= kReduceDataTypes; ++type) {
    for (int op = 1; op <= kReduceOps; ++op) {
      const ReduceSpec spec{WireCodec(static_cast<DataType>(type)), static_cast<ReduceOp>(op), 0.37};
      if (CanReduce(spec.codec.tensor_type(), spec.op)) specs.push_back(spec);
    }
  }
  return specs;
}

}  // namespace shoal
