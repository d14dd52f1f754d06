#include "sim/op_truth.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "core/hash.h"
#include "reduce/convert.h"
#include "reduce/reduce.h"
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

// Of numbers whose bits have the weights of an IEEE type of that size, one in four is special.
template <typename Word>
Word AnyBits(uint64_t bits, int exponent_bits) {
  constexpr int kWordBits = 8 * sizeof(Word);
  const int mantissa_bits = kWordBits - 1 - exponent_bits;
  const auto word = static_cast<Word>(bits);
  const auto sign = static_cast<Word>(word & (Word{1} << (kWordBits - 1)));
  const auto exponent = static_cast<Word>(((Word{1} << exponent_bits) - 1) << mantissa_bits);
  switch (bits >> 32 & 15) {
    case 0:  // zero, of either sign
      return sign;
    case 1:
      return static_cast<Word>(sign | exponent);  // an infinity
    case 2:
      return static_cast<Word>(word | exponent | 1);  // a NaN
    case 3:
      return static_cast<Word>(word & ~exponent);  // denormal
    default:
      return word;
  }
}

std::vector<std::byte> FillWithAnyBits(const OpPlan& plan, uint32_t rank) {
  const auto bits = [&](uint64_t i) { return Bits(plan.base, rank, i); };
  switch (plan.dtype) {
    case DataType::kFloat64:
      return Fill<uint64_t>(plan.elements, [&](uint64_t i) { return AnyBits<uint64_t>(bits(i), 11); });
    case DataType::kFloat32:
      return Fill<uint32_t>(plan.elements, [&](uint64_t i) { return AnyBits<uint32_t>(bits(i), 8); });
    case DataType::kFloat16:
      return Fill<uint16_t>(plan.elements, [&](uint64_t i) { return AnyBits<uint16_t>(bits(i), 5); });
    case DataType::kBfloat16:
      return Fill<uint16_t>(plan.elements, [&](uint64_t i) { return AnyBits<uint16_t>(bits(i), 8); });
    default:
      break;
  }
  const uint64_t words = (plan.elements * DataTypeSize(plan.dtype) + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  std::vector<std::byte> bytes = Fill<uint64_t>(words, bits);
  bytes.resize(plan.elements * DataTypeSize(plan.dtype));
  return bytes;
}

// Of contributions as they were sent.
std::vector<std::byte> ReduceAll(const ReduceSpec& spec, const std::vector<std::vector<std::byte>>& contributions,
                                 uint64_t elements) {
  std::vector<const std::byte*> inputs;
  inputs.reserve(contributions.size());
  for (const std::vector<std::byte>& contribution : contributions) inputs.push_back(contribution.data());
  std::vector<std::byte> result(contributions.front().size());
  Reduce(spec, inputs, result.data(), elements);
  return result;
}

std::vector<std::byte> SentContribution(const OpPlan& plan, uint32_t rank) {
  std::vector<std::byte> sent(plan.codec().WireBytes(plan.elements));
  Encode(plan.codec(), Contribution(plan, rank).data(), sent.data(), plan.elements);
  return sent;
}

std::vector<std::byte> ReduceAsSent(const OpPlan& plan, const SumOrder& order) {
  const ReduceSpec whole{.codec = plan.codec(), .op = plan.reduce_op, .premul_factor = plan.premul_factor};
  const bool has_rails = order.mode == NodeReduceMode::kRails;
  // The factor is in the sums of the nodes, and an average is divided in the end, by the number of all ranks.
  ReduceSpec of_node = whole;
  if (has_rails && plan.reduce_op == ReduceOp::kAvg) of_node.op = ReduceOp::kSum;
  std::vector<std::vector<std::byte>> sums;
  sums.reserve(order.sums.size());
  for (const std::vector<uint32_t>& ranks : order.sums) {
    std::vector<std::vector<std::byte>> contributions;
    contributions.reserve(ranks.size());
    for (const uint32_t rank : ranks) contributions.push_back(SentContribution(plan, rank));
    sums.push_back(ReduceAll(of_node, contributions, plan.elements));
  }
  std::vector<std::byte> sum = sums.front();
  if (has_rails) {
    ReduceSpec of_nodes = {.codec = plan.codec(), .op = plan.reduce_op};
    of_nodes.ranks_per_input = static_cast<uint32_t>(order.sums.front().size());
    if (plan.reduce_op == ReduceOp::kPremulSum) of_nodes.op = ReduceOp::kSum;
    sum = ReduceAll(of_nodes, sums, plan.elements);
  }
  std::vector<std::byte> result(plan.codec().TensorBytes(plan.elements));
  Decode(plan.codec(), sum.data(), result.data(), plan.elements);
  return result;
}

float SumInOrder(const OpPlan& plan, const SumOrder& order, uint64_t index) {
  const auto of_node = [&](const std::vector<uint32_t>& ranks) {
    float sum = AnySize(Bits(plan.base, ranks[0], index));
    for (size_t i = 1; i < ranks.size(); ++i) sum += AnySize(Bits(plan.base, ranks[i], index));
    return sum;
  };
  float sum = of_node(order.sums[0]);
  for (size_t node = 1; node < order.sums.size(); ++node) sum += of_node(order.sums[node]);
  return sum;
}

// Float32 sent in blocks. From a source of its own, so that other plans are what they were.
void DrawValuesOfBlocks(uint64_t state, WireFormat wire, OpPlan* plan) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum,       ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kAvg,
                               ReduceOp::kPremulSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd};
  Random random(state ^ 0x1478);
  plan->wire = wire;
  const uint64_t kind = random.Below(4);
  if (kind == 0) return;
  plan->any_bits = kind == 1;
  plan->order_matters = !plan->any_bits;
  plan->reduce_op = kOps[random.Below(std::size(kOps))];
  if (plan->reduce_op == ReduceOp::kPremulSum) plan->premul_factor = static_cast<double>(random.Between(1, 8)) / 4;
}

int Combine(ReduceOp reduce_op, int a, int b) {
  if (reduce_op == ReduceOp::kMin) return std::min(a, b);
  if (reduce_op == ReduceOp::kMax) return std::max(a, b);
  return a + b;
}

}  // namespace

OpPlan PlanOp(uint64_t seed, uint32_t job, const std::string& group, uint64_t op, WireFormat wire,
              uint64_t most_elements) {
  uint64_t state = StableHash({seed, job, op});
  for (const char c : group) state = StableHash({state, static_cast<unsigned char>(c)});
  Random random(state);
  constexpr DataType kTypes[] = {DataType::kFloat32,  DataType::kFloat32, DataType::kFloat32, DataType::kFloat64,
                                 DataType::kBfloat16, DataType::kInt32,   DataType::kInt64};
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax};
  OpPlan plan;
  plan.dtype = kTypes[random.Below(std::size(kTypes))];
  plan.reduce_op = kOps[random.Below(std::size(kOps))];
  const uint64_t limits[] = {1, 10, most_elements / 40, most_elements / 4, most_elements};
  plan.elements = random.Below(limits[random.Below(std::size(limits))] + 1);
  plan.order_matters = plan.dtype == DataType::kFloat32 && plan.reduce_op == ReduceOp::kSum &&
                       wire == WireFormat::kAsIs && random.Chance(700'000);
  plan.base = random.Next();
  if (IsInBlocks(wire) && plan.dtype == DataType::kFloat32) DrawValuesOfBlocks(state, wire, &plan);
  if (wire != WireFormat::kAsIs || !random.Chance(300'000)) return plan;
  constexpr DataType kAllTypes[] = {DataType::kFloat32,  DataType::kFloat64, DataType::kFloat16,
                                    DataType::kBfloat16, DataType::kInt8,    DataType::kInt16,
                                    DataType::kInt32,    DataType::kInt64,   DataType::kUint8};
  constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum,
                                  ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd};
  plan.any_bits = true;
  plan.order_matters = false;
  plan.dtype = kAllTypes[random.Below(std::size(kAllTypes))];
  plan.reduce_op = kAllOps[random.Below(std::size(kAllOps))];
  if (!CanReduce(plan.dtype, plan.reduce_op)) plan.reduce_op = ReduceOp::kSum;
  if (plan.reduce_op == ReduceOp::kPremulSum) plan.premul_factor = static_cast<double>(random.Between(1, 8)) / 4;
  return plan;
}

std::vector<std::byte> Contribution(const OpPlan& plan, uint32_t rank) {
  if (plan.any_bits) return FillWithAnyBits(plan, rank);
  if (plan.order_matters) {
    return Fill<float>(plan.elements, [&](uint64_t i) { return AnySize(Bits(plan.base, rank, i)); });
  }
  return FillAs(plan.dtype, plan.elements, [&](uint64_t i) { return SmallInteger(Bits(plan.base, rank, i)); });
}

std::vector<std::byte> ExpectedResult(const OpPlan& plan, const SumOrder& order) {
  if (plan.elements == 0) return {};
  // int8 has all sums of small whole numbers, fp8 has not.
  const bool is_rounded = plan.wire == WireFormat::kFloat8 || (plan.wire == WireFormat::kInt8 && plan.order_matters);
  if (plan.any_bits || is_rounded) return ReduceAsSent(plan, order);
  if (plan.order_matters) {
    return Fill<float>(plan.elements, [&](uint64_t i) { return SumInOrder(plan, order, i); });
  }
  std::vector<uint32_t> ranks;
  for (const std::vector<uint32_t>& sum : order.sums) ranks.insert(ranks.end(), sum.begin(), sum.end());
  return FillAs(plan.dtype, plan.elements, [&](uint64_t i) {
    int result = SmallInteger(Bits(plan.base, ranks[0], i));
    for (size_t place = 1; place < ranks.size(); ++place) {
      result = Combine(plan.reduce_op, result, SmallInteger(Bits(plan.base, ranks[place], i)));
    }
    return result;
  });
}

std::vector<std::byte> ScaledResult(const OpPlan& plan, const SumOrder& order, uint32_t inputs) {
  if (plan.elements == 0) return {};
  std::vector<std::vector<std::byte>> contributions;
  for (const std::vector<uint32_t>& ranks : order.sums) {
    std::vector<std::vector<std::byte>> of_ranks;
    for (const uint32_t rank : ranks) of_ranks.push_back(Contribution(plan, rank));
    if (order.mode != NodeReduceMode::kRails) {
      contributions = std::move(of_ranks);
    } else {
      contributions.push_back(
          ReduceAll({.codec = WireCodec(plan.dtype), .op = plan.reduce_op}, of_ranks, plan.elements));
    }
  }
  const double factor = static_cast<double>(inputs) / static_cast<double>(contributions.size());
  return ReduceAll({.codec = WireCodec(plan.dtype), .op = ReduceOp::kPremulSum, .premul_factor = factor}, contributions,
                   plan.elements);
}

}  // namespace shoal::sim
