// NaN, signed zeros, denormals under a changed floating point mode, and the ends of the integers.
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "gtest/gtest.h"
#include "reduce/convert.h"
#include "tests/unit/reduce/reference.h"

namespace shoal {
namespace {

// Reduces one element through every kernel, which must agree; gives the result.
template <typename Number>
Number ReduceOne(DataType type, ReduceOp op, const std::vector<Number>& ranks, double factor = 1.0) {
  std::vector<const std::byte*> inputs;
  for (const Number& value : ranks) inputs.push_back(reinterpret_cast<const std::byte*>(&value));
  const ReduceSpec spec{WireCodec(type), op, factor};
  Number result{};
  Reduce(spec, inputs, reinterpret_cast<std::byte*>(&result), 1);
  for (const KernelTable* table : AllKernels()) {
    Number other{};
    KernelOf(*table, spec)(inputs.data(), inputs.size(), reinterpret_cast<std::byte*>(&other), 1, factor, 1);
    EXPECT_EQ(std::memcmp(&other, &result, sizeof(result)), 0) << Describe(*table, spec);
  }
  return result;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(SpecialValues, ANanAnywhereGivesTheCanonicalNan) {
  const float nan_with_payload = std::bit_cast<float>(0xffc12345u);
  const float signaling_nan = std::bit_cast<float>(0x7f800001u);
  for (ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd}) {
    for (float nan : {kNan, -kNan, nan_with_payload, signaling_nan}) {
      for (size_t where = 0; where < 4; ++where) {
        std::vector<float> ranks = {1.0f, 2.0f, -3.0f, kInfinity};
        ranks[where] = nan;
        EXPECT_EQ(std::bit_cast<uint32_t>(ReduceOne(DataType::kFloat32, op, ranks)), 0x7fc00000u)
            << ReduceOpName(op) << " rank " << where;
      }
    }
  }
  EXPECT_EQ(std::bit_cast<uint32_t>(ReduceOne<float>(DataType::kFloat32, ReduceOp::kSum, {kInfinity, -kInfinity})),
            0x7fc00000u);
  EXPECT_EQ(std::bit_cast<uint64_t>(ReduceOne<double>(DataType::kFloat64, ReduceOp::kProd, {0.0, HUGE_VAL})),
            0x7ff8000000000000u);
}

TEST(SpecialValues, EqualZerosKeepTheLowerRanksSign) {
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    EXPECT_TRUE(std::signbit(ReduceOne<float>(DataType::kFloat32, op, {-0.0f, 0.0f})));
    EXPECT_FALSE(std::signbit(ReduceOne<float>(DataType::kFloat32, op, {0.0f, -0.0f})));
  }
  EXPECT_TRUE(std::signbit(ReduceOne<float>(DataType::kFloat32, ReduceOp::kSum, {-0.0f, -0.0f})));
}

TEST(SpecialValues, NoFusedMultiplyAdd) {
  // Fused, 0.1f * 3 + -0.3f would keep the product's low bits.
  const std::vector<float> ranks = {0.1f, -0.1f, 0.7f};
  const float factor = 3.3f;
  volatile float first = ranks[0] * factor;
  volatile float second = ranks[1] * factor;
  volatile float third = ranks[2] * factor;
  volatile float sum = first + second;
  sum = sum + third;
  EXPECT_EQ(ReduceOne(DataType::kFloat32, ReduceOp::kPremulSum, ranks, 3.3), sum);
}

TEST(SpecialValues, RoundingModeOfTheThreadDoesNotMatterAndIsKept) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  std::vector<float> ranks = {1.0f, 0x1p-30f};
  std::vector<const std::byte*> inputs;
  for (const float& value : ranks) inputs.push_back(reinterpret_cast<const std::byte*>(&value));
  float sum = 0;
  Reduce({WireCodec(DataType::kFloat32), ReduceOp::kSum, 1.0}, inputs, reinterpret_cast<std::byte*>(&sum), 1);
  const int mode_after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(mode_after, FE_UPWARD);
  EXPECT_EQ(sum, 1.0f);
}

// What a library may have changed of the thread's mode.
#if defined(__x86_64__)
unsigned FloatMode() { return _mm_getcsr(); }
void SetFloatMode(unsigned mode) { _mm_setcsr(mode); }
constexpr unsigned kOtherMode = _MM_FLUSH_ZERO_ON | 0x0040;  // flush to zero, denormals are zero
#elif defined(__aarch64__)
uint64_t FloatMode() {
  uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode)::"memory");
  return mode;
}
void SetFloatMode(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
constexpr uint64_t kOtherMode = 1u << 26 | 1u << 24;  // halves have no infinities, flush to zero
#endif

#if defined(__x86_64__) || defined(__aarch64__)
TEST(SpecialValues, OtherFloatModesOfTheThreadDoNotMatterAndAreKept) {
  const float denormal = std::bit_cast<float>(5u);
  const float beyond_halves = 1e5f;
  std::vector<const std::byte*> inputs(3, reinterpret_cast<const std::byte*>(&denormal));
  const auto before = FloatMode();
  SetFloatMode(before | kOtherMode);
  float sum = 0;
  uint16_t half = 0;
  Reduce({WireCodec(DataType::kFloat32), ReduceOp::kSum, 1.0}, inputs, reinterpret_cast<std::byte*>(&sum), 1);
  Encode(WireCodec(DataType::kFloat32, WireFormat::kFloat16), reinterpret_cast<const std::byte*>(&beyond_halves),
         reinterpret_cast<std::byte*>(&half), 1);
  const auto during = FloatMode();
  SetFloatMode(before);
  EXPECT_EQ(std::bit_cast<uint32_t>(sum), 15u);
  EXPECT_EQ(half, 0x7c00) << "infinity";
  EXPECT_EQ(during & kOtherMode, kOtherMode);
}
#endif

TEST(SpecialValues, IntegersWrap) {
  EXPECT_EQ(ReduceOne<int8_t>(DataType::kInt8, ReduceOp::kSum, {127, 1}), -128);
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kUint8, ReduceOp::kSum, {255, 2}), 1);
  EXPECT_EQ(ReduceOne<int16_t>(DataType::kInt16, ReduceOp::kProd, {-32768, -32768}), 0);
  EXPECT_EQ(ReduceOne<int32_t>(DataType::kInt32, ReduceOp::kSum, {INT32_MAX, 1}), INT32_MIN);
  EXPECT_EQ(ReduceOne<int64_t>(DataType::kInt64, ReduceOp::kSum, {INT64_MIN, -1}), INT64_MAX);
  EXPECT_EQ(ReduceOne<int64_t>(DataType::kInt64, ReduceOp::kProd, {INT64_MAX, 2}), -2);
}

TEST(SpecialValues, IntegerAverageTruncatesTowardsZero) {
  EXPECT_EQ(ReduceOne<int32_t>(DataType::kInt32, ReduceOp::kAvg, {-3, -4}), -3);
  EXPECT_EQ(ReduceOne<int32_t>(DataType::kInt32, ReduceOp::kAvg, {3, 4}), 3);
  EXPECT_EQ(ReduceOne<int64_t>(DataType::kInt64, ReduceOp::kAvg, {INT64_MIN, 0}), INT64_MIN / 2);
  EXPECT_EQ(ReduceOne<uint8_t>(DataType::kUint8, ReduceOp::kAvg, {100, 101, 50}), 83);
}

}  // namespace
}  // namespace shoal
