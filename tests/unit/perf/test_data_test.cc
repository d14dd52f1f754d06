// Right results pass the check, and every kind of wrong one is found. The kernels stand in for the servers.
#include "perf/test_data.h"

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "perf/number_format.h"
#include "reduce/convert.h"
#include "reduce/reduce.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class Reduced {
 public:
  // `skipped`: a rank whose contribution is lost; `doubled`: one that counts twice.
  Reduced(const TestData& test, uint64_t element_count, int skipped = -1, int doubled = -1) : test_(test) {
    const size_t bytes = test.codec.TensorBytes(element_count);
    for (uint32_t rank = 0; rank < test.rank_count; ++rank) {
      contributions_.emplace_back(bytes);
      FillContribution(test, rank, contributions_.back().data(), element_count);
      if (static_cast<int>(rank) != skipped) inputs_.push_back(contributions_.back().data());
      if (static_cast<int>(rank) == doubled) inputs_.push_back(contributions_.back().data());
    }
    result_.resize(bytes);
    ReduceEncoded(element_count);
  }
  std::byte* data() { return result_.data(); }
  const std::vector<std::byte>& contribution(uint32_t rank) const { return contributions_[rank]; }

 private:
  void ReduceEncoded(uint64_t element_count) {
    const WireCodec codec = test_.codec;
    std::vector<std::vector<std::byte>> encoded;
    std::vector<const std::byte*> inputs;
    for (const std::byte* input : inputs_) {
      encoded.emplace_back(codec.WireBytes(element_count));
      Encode(codec, input, encoded.back().data(), element_count);
      inputs.push_back(encoded.back().data());
    }
    std::vector<std::byte> sum(codec.WireBytes(element_count));
    Reduce({codec, test_.op, kPerfPremulFactor}, inputs, sum.data(), element_count);
    Decode(codec, sum.data(), result_.data(), element_count);
  }

  TestData test_;
  std::vector<std::vector<std::byte>> contributions_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte> result_;
};

std::vector<TestData> AllTests() {
  std::vector<TestData> tests;
  for (const NumberKind kind : {NumberKind::kSmallIntegers, NumberKind::kRandom}) {
    for (uint8_t type = 1; DataTypeFromWire(type); ++type) {
      for (uint8_t op = 1; ReduceOpFromWire(op); ++op) {
        if (!CanReduce(static_cast<DataType>(type), static_cast<ReduceOp>(op))) continue;
        for (const uint32_t ranks : {1, 2, 3, 4, 16}) {
          tests.push_back({kind, 42, WireCodec(static_cast<DataType>(type)), static_cast<ReduceOp>(op), ranks});
          if (tests.back().codec.tensor_type() != DataType::kFloat32) continue;
          for (const WireFormat wire : kNarrowWires) {
            tests.push_back(tests.back());
            tests.back().codec = WireCodec(DataType::kFloat32, wire);
          }
        }
      }
    }
  }
  return tests;
}

std::string Describe(const TestData& test) {
  return std::string(test.kind == NumberKind::kRandom ? "random " : "small ") + WireCodecName(test.codec) + " " +
         std::string(ReduceOpName(test.op)) + " of " + std::to_string(test.rank_count);
}

TEST(TestData, RightResultsPass) {
  for (const TestData& test : AllTests()) {
    Reduced reduced(test, 2000);
    const CheckOutcome outcome = CheckResult(test, reduced.data(), 2000);
    EXPECT_EQ(outcome.wrong, 0u) << Describe(test) << ": " << outcome.first_wrong;
    EXPECT_EQ(outcome.first_wrong, "");
  }
}

TEST(TestData, ManyRanksPass) {
  for (const NumberKind kind : {NumberKind::kSmallIntegers, NumberKind::kRandom}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kInt8}) {
      const TestData test{kind, 5, WireCodec(type), ReduceOp::kSum, 1000};
      Reduced reduced(test, 50);
      EXPECT_EQ(CheckResult(test, reduced.data(), 50).wrong, 0u) << Describe(test);
    }
  }
}

TEST(TestData, AWrongElementIsFoundAndNamed) {
  for (const TestData& test : AllTests()) {
    Reduced reduced(test, 300);
    const size_t size = test.codec.TensorBytes(1);
    // The highest bits but the sign: far outside what rounding may do.
    reduced.data()[17 * size + size - 1] ^= std::byte{0x60};
    const CheckOutcome outcome = CheckResult(test, reduced.data(), 300);
    EXPECT_EQ(outcome.wrong, 1u) << Describe(test);
    EXPECT_THAT(outcome.first_wrong, HasSubstr("element 17 of 300")) << Describe(test);
  }
}

TEST(TestData, OneWrongBitIsFoundAmongSmallIntegers) {
  for (TestData test : AllTests()) {
    if (test.kind == NumberKind::kRandom) continue;
    Reduced reduced(test, 300);
    const size_t size = test.codec.TensorBytes(1);
    reduced.data()[299 * size] ^= std::byte{1};
    EXPECT_EQ(CheckResult(test, reduced.data(), 300).wrong, 1u) << Describe(test);
  }
}

TEST(TestData, ALostContributionIsFound) {
  for (TestData test : AllTests()) {
    if (test.rank_count < 2 || test.op == ReduceOp::kMin || test.op == ReduceOp::kMax) continue;
    // Products of so many random numbers are smaller than what rounding of the largest in their block may do.
    if (test.codec.is_in_blocks() && test.op == ReduceOp::kProd && test.rank_count > 4) continue;
    Reduced reduced(test, 400, /*skipped=*/1);
    // Few only where an integer average truncates the difference away.
    EXPECT_GT(CheckResult(test, reduced.data(), 400).wrong, 0u) << Describe(test);
  }
}

TEST(TestData, AContributionThatCountsTwiceIsFound) {
  for (TestData test : AllTests()) {
    if (test.op != ReduceOp::kSum || test.rank_count > 4) continue;
    Reduced reduced(test, 400, /*skipped=*/-1, /*doubled=*/0);
    EXPECT_GT(CheckResult(test, reduced.data(), 400).wrong, 200u) << Describe(test);
  }
}

TEST(TestData, ADigitThatCanNotHaveCrossedTheWireIsFound) {
  for (const WireFormat wire : kNarrowWires) {
    const TestData test{NumberKind::kRandom, 1, WireCodec(DataType::kFloat32, wire), ReduceOp::kSum, 2};
    Reduced reduced(test, 8);
    reduced.data()[12] ^= std::byte{1};  // far below what rounding may do
    const CheckOutcome outcome = CheckResult(test, reduced.data(), 8);
    EXPECT_EQ(outcome.wrong, 1u);
    EXPECT_THAT(outcome.first_wrong, HasSubstr("more digits"));
  }
}

TEST(TestData, NanIsWrong) {
  const TestData test{NumberKind::kRandom, 1, WireCodec(DataType::kFloat32), ReduceOp::kSum, 2};
  Reduced reduced(test, 8);
  const uint32_t nan = 0x7fc00000;
  std::memcpy(reduced.data() + 12, &nan, sizeof(nan));
  EXPECT_EQ(CheckResult(test, reduced.data(), 8).wrong, 1u);
}

TEST(TestData, NumbersDependOnSeedRankAndIndex) {
  TestData test{NumberKind::kRandom, 1, WireCodec(DataType::kInt64), ReduceOp::kSum, 2};
  std::set<int64_t> seen;
  for (const uint64_t seed : {1, 2}) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      test.seed = seed;
      std::vector<int64_t> numbers(1000);
      FillContribution(test, rank, reinterpret_cast<std::byte*>(numbers.data()), numbers.size());
      seen.insert(numbers.begin(), numbers.end());
    }
  }
  EXPECT_EQ(seen.size(), 4000u);
}

TEST(NumberFormat, HalvesSurviveDecodingAndEncoding) {
  for (int bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const double value = DecodeFloat16(half);
    if (value == value) {
      ASSERT_EQ(EncodeFloat16(static_cast<float>(value)), half);
    }
    const double brain = DecodeBfloat16(half);
    if (brain == brain) {
      ASSERT_EQ(EncodeBfloat16(static_cast<float>(brain)), half);
    }
  }
  EXPECT_EQ(EncodeFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(EncodeFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(EncodeFloat16(2049.0f), EncodeFloat16(2048.0f));
  EXPECT_EQ(EncodeFloat16(2051.0f), EncodeFloat16(2052.0f));
  EXPECT_EQ(EncodeBfloat16(257.0f), EncodeBfloat16(256.0f));
  EXPECT_EQ(EncodeBfloat16(259.0f), EncodeBfloat16(260.0f));
}

TEST(TestData, DigestDependsOnEveryByteAndTheLength) {
  std::vector<std::byte> data(100);
  std::set<uint64_t> digests = {DigestBits(0, data.data(), 100), DigestBits(0, data.data(), 99),
                                DigestBits(1, data.data(), 100)};
  for (std::byte& byte : data) {
    byte = std::byte{1};
    digests.insert(DigestBits(0, data.data(), 100));
    byte = std::byte{0};
  }
  EXPECT_EQ(digests.size(), 103u);
}

}  // namespace
}  // namespace shoal
