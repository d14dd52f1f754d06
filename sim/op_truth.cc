#include "sim/op_truth.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "core/hash.h"
#include "sim/world.h"

namespace shoal::sim {
namespace {

// Differs by rank and position, so that a missing, doubled or misplaced contribution changes the result.
uint64_t Bits(uint64_t base, uint32_t rank, uint64_t index) {
  uint64_t z = base + (rank + 1) * 0x9e3779b97f4a7c15u + index * 0xd1b54a32d192ed03u;
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93u;
  return z ^ (z >> 32);
}

// A small integer, so that sums and averages' sums are exact in every dtype (bfloat16 too) and any order.
int SmallInteger(uint64_t bits) { return static_cast<int>((bits >> 8) % 9) - 4; }

// Numbers of sizes so different that the order of a float32 sum shows in its last bits.
float AnySize(uint64_t bits) {
  return static_cast<float>(static_cast<int>(bits >> 40 & 0xffff) - 0x8000) * static_cast<float>(1u << bits % 20);
}

struct Bfloat16 {
  uint16_t bits;
};

template <typename T>
T Convert(double value) {
  return static_cast<T>(value);
}

// The values are small integers: the low 16 bits of their float32 form are zero.
template <>
Bfloat16 Convert<Bfloat16>(double value) {
  return {static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16)};
}

template <typename T, typename ValueOf>
std::vector<std::byte> Fill(uint64_t elements, const ValueOf& value_of) {
  std::vector<std::byte> bytes(elements * sizeof(T));
  for (uint64_t i = 0; i < elements; ++i) {
    const T value = value_of(i);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <typename ValueOf>
std::vector<std::byte> FillAs(DataType dtype, uint64_t elements, const ValueOf& value_of) {
  switch (dtype) {
    case DataType::kFloat64:
      return Fill<double>(elements, [&](uint64_t i) { return Convert<double>(value_of(i)); });
    case DataType::kBfloat16:
      return Fill<Bfloat16>(elements, [&](uint64_t i) { return Convert<Bfloat16>(value_of(i)); });
    case DataType::kInt64:
      return Fill<int64_t>(elements, [&](uint64_t i) { return Convert<int64_t>(value_of(i)); });
    case DataType::kInt32:
      return Fill<int32_t>(elements, [&](uint64_t i) { return Convert<int32_t>(value_of(i)); });
    default:
      return Fill<float>(elements, [&](uint64_t i) { return Convert<float>(value_of(i)); });
  }
}

int Combine(ReduceOp reduce_op, int a, int b) {
  if (reduce_op == ReduceOp::kMin) return std::min(a, b);
  if (reduce_op == ReduceOp::kMax) return std::max(a, b);
  return a + b;
}

}  // namespace

OpPlan PlanOp(uint64_t seed, uint32_t job, const std::string& group, uint64_t op, WireFormat wire) {
  uint64_t state = StableHash({seed, job, op});
  for (const char c : group) state = StableHash({state, static_cast<unsigned char>(c)});
  Random random(state);
  constexpr DataType kTypes[] = {DataType::kFloat32,  DataType::kFloat32, DataType::kFloat32, DataType::kFloat64,
                                 DataType::kBfloat16, DataType::kInt32,   DataType::kInt64};
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};
  OpPlan plan;
  plan.dtype = kTypes[random.Below(std::size(kTypes))];
  plan.reduce_op = kOps[random.Below(std::size(kOps))];
  const uint64_t limits[] = {1, 10, 300, 3000, 12000};
  plan.elements = random.Below(limits[random.Below(std::size(limits))] + 1);
  plan.order_matters = plan.dtype == DataType::kFloat32 && plan.reduce_op == ReduceOp::kSum &&
                       wire == WireFormat::kAsIs && random.Chance(700'000);
  plan.base = random.Next();
  return plan;
}

std::vector<std::byte> Contribution(const OpPlan& plan, uint32_t rank) {
  if (plan.order_matters) {
    return Fill<float>(plan.elements, [&](uint64_t i) { return AnySize(Bits(plan.base, rank, i)); });
  }
  return FillAs(plan.dtype, plan.elements, [&](uint64_t i) { return SmallInteger(Bits(plan.base, rank, i)); });
}

std::vector<std::byte> ExpectedResult(const OpPlan& plan, uint32_t ranks) {
  if (plan.order_matters) {
    return Fill<float>(plan.elements, [&](uint64_t i) {
      float sum = AnySize(Bits(plan.base, 0, i));
      for (uint32_t rank = 1; rank < ranks; ++rank) sum += AnySize(Bits(plan.base, rank, i));
      return sum;
    });
  }
  return FillAs(plan.dtype, plan.elements, [&](uint64_t i) {
    int result = SmallInteger(Bits(plan.base, 0, i));
    for (uint32_t rank = 1; rank < ranks; ++rank) {
      result = Combine(plan.reduce_op, result, SmallInteger(Bits(plan.base, rank, i)));
    }
    return result;
  });
}

}  // namespace shoal::sim
