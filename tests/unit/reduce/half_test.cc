// 16-bit floats: all 65536 values, and roundings to nearest even.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "tests/unit/reduce/reference.h"

namespace shoal {
namespace {

struct HalfCase {
  DataType type;
  HalfFormat format;
  uint16_t canonical_nan;
};
constexpr HalfCase kHalfCases[] = {{DataType::kFloat16, kFloat16Format, 0x7e00},
                                   {DataType::kBfloat16, kBfloat16Format, 0x7fc0}};

std::vector<uint16_t> AllHalves() {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  return halves;
}

std::vector<uint16_t> ReduceHalves(const KernelTable& table, const ReduceSpec& spec,
                                   const std::vector<std::vector<uint16_t>>& inputs) {
  std::vector<const std::byte*> pointers;
  for (const auto& input : inputs) pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));
  std::vector<uint16_t> output(inputs[0].size());
  KernelOf(table, spec)(pointers.data(), pointers.size(), reinterpret_cast<std::byte*>(output.data()), output.size(),
                        spec.premul_factor, spec.ranks_per_input);
  return output;
}

TEST(Half, EveryValueSurvivesLoadAndStore) {
  for (const HalfCase& half : kHalfCases) {
    for (const KernelTable* table : AllKernels()) {
      const ReduceSpec spec{WireCodec(half.type), ReduceOp::kSum, 1.0};
      SCOPED_TRACE(Describe(*table, spec));
      const std::vector<uint16_t> output = ReduceHalves(*table, spec, {AllHalves()});
      for (size_t i = 0; i < output.size(); ++i) {
        const bool is_nan = std::isnan(DecodeHalf(half.format, static_cast<uint16_t>(i)));
        ASSERT_EQ(output[i], is_nan ? half.canonical_nan : i) << "of 0x" << std::hex << i;
      }
    }
  }
}

TEST(Half, EveryValueIsLoadedExactly) {
  // Times several factors, so that every bit of a value shows in a product.
  for (const HalfCase& half : kHalfCases) {
    for (const KernelTable* table : AllKernels()) {
      for (double factor : {1.0, 0.5, 4.0, 1024.0, 0x1p-20, 3.0, 1.0 / 3.0, 1e-30, 1e30}) {
        const ReduceSpec spec{WireCodec(half.type), ReduceOp::kPremulSum, factor};
        SCOPED_TRACE(Describe(*table, spec));
        const std::vector<uint16_t> output = ReduceHalves(*table, spec, {AllHalves()});
        for (size_t i = 0; i < output.size(); ++i) {
          const float value = static_cast<float>(DecodeHalf(half.format, static_cast<uint16_t>(i)));
          ASSERT_EQ(output[i], EncodeHalf(half.format, value * static_cast<float>(factor)))
              << "of 0x" << std::hex << i << " times " << factor;
        }
      }
    }
  }
}

TEST(Half, TiesGoToEven) {
  // Each value plus half of its unit in the last place, made as a sum of two: exact in fp32, a tie when stored.
  for (const HalfCase& half : kHalfCases) {
    std::vector<uint16_t> values;
    std::vector<uint16_t> half_units;
    std::vector<uint16_t> expected;
    const int step = 1 << half.format.mantissa_bits;
    // Away from the ends of the exponent range, so that half a unit is a number of the format too.
    const int first = (half.format.mantissa_bits + 3) * step;
    const int last = ((1 << half.format.exponent_bits) - 2) * step;
    for (int bits = first; bits < last; ++bits) {
      values.push_back(static_cast<uint16_t>(bits));
      half_units.push_back(static_cast<uint16_t>((bits / step - half.format.mantissa_bits - 1) * step));
      expected.push_back(static_cast<uint16_t>(bits + (bits & 1)));
    }
    for (const KernelTable* table : AllKernels()) {
      const ReduceSpec spec{WireCodec(half.type), ReduceOp::kSum, 1.0};
      SCOPED_TRACE(Describe(*table, spec));
      EXPECT_EQ(ReduceHalves(*table, spec, {values, half_units}), expected);
    }
  }
}

TEST(Half, SumsOfManyRoundOnce) {
  // 2048 + 1 is a tie in fp16; four times +1, one at a time in fp16, would stay at 2048. In fp32 it is 2052.
  const uint16_t one = EncodeHalf(kFloat16Format, 1.0);
  const uint16_t big = EncodeHalf(kFloat16Format, 2048.0);
  for (const KernelTable* table : AllKernels()) {
    const ReduceSpec spec{WireCodec(DataType::kFloat16), ReduceOp::kSum, 1.0};
    EXPECT_EQ(ReduceHalves(*table, spec, {{big}, {one}, {one}, {one}, {one}})[0], EncodeHalf(kFloat16Format, 2052.0));
  }
}

TEST(Half, RandomSumsAgreeWithTheReference) {
  std::mt19937 random(3);
  for (const HalfCase& half : kHalfCases) {
    std::vector<std::vector<uint16_t>> inputs(2, std::vector<uint16_t>(1 << 18));
    for (auto& input : inputs) {
      for (uint16_t& value : input) value = static_cast<uint16_t>(random());
    }
    std::vector<const std::byte*> pointers;
    for (const auto& input : inputs) pointers.push_back(reinterpret_cast<const std::byte*>(input.data()));
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kAvg}) {
      const ReduceSpec spec{WireCodec(half.type), op, 1.0};
      std::vector<uint16_t> expected(inputs[0].size());
      ReferenceReduce(spec, pointers, reinterpret_cast<std::byte*>(expected.data()), expected.size());
      for (const KernelTable* table : AllKernels()) {
        EXPECT_EQ(ReduceHalves(*table, spec, inputs), expected) << Describe(*table, spec);
      }
    }
  }
}

TEST(Half, ReferenceAgreesWithKnownBits) {
  EXPECT_EQ(EncodeHalf(kFloat16Format, 1.0), 0x3c00);
  EXPECT_EQ(EncodeHalf(kFloat16Format, 65504.0), 0x7bff);
  EXPECT_EQ(EncodeHalf(kFloat16Format, 65519.99), 0x7bff);
  EXPECT_EQ(EncodeHalf(kFloat16Format, 65520.0), 0x7c00);
  EXPECT_EQ(EncodeHalf(kFloat16Format, 0x1p-24), 0x0001);
  EXPECT_EQ(EncodeHalf(kFloat16Format, 0x1p-25), 0x0000);
  EXPECT_EQ(EncodeHalf(kFloat16Format, 0x1.8p-25), 0x0001);
  EXPECT_EQ(EncodeHalf(kFloat16Format, -2.0), 0xc000);
  EXPECT_EQ(EncodeHalf(kBfloat16Format, 1.0), 0x3f80);
  EXPECT_EQ(EncodeHalf(kBfloat16Format, 3.140625), 0x4049);
  EXPECT_EQ(DecodeHalf(kFloat16Format, 0x3555), 0x1.554p-2);
  EXPECT_EQ(DecodeHalf(kBfloat16Format, 0x0001), 0x1p-133);
}

}  // namespace
}  // namespace shoal
