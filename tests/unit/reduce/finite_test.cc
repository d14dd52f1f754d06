#include "reduce/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "reduce/convert.h"

namespace shoal {
namespace {

template <typename Number>
const std::byte* Bytes(const std::vector<Number>& numbers) {
  return reinterpret_cast<const std::byte*>(numbers.data());
}

template <typename Number>
void ExpectFoundWhereverItIs(DataType dtype, Number one, const std::vector<Number>& finite,
                             const std::vector<Number>& others) {
  for (const uint64_t count : {1, 7, 2047, 2048, 2049, 5000}) {
    std::vector<Number> numbers(count, one);
    EXPECT_EQ(FirstNonFinite(dtype, Bytes(numbers), count), std::nullopt);
    for (const uint64_t place : {uint64_t{0}, count / 2, count - 1}) {
      for (const Number number : finite) {
        numbers[place] = number;
        EXPECT_EQ(FirstNonFinite(dtype, Bytes(numbers), count), std::nullopt) << place << " of " << count;
      }
      for (const Number number : others) {
        numbers[place] = number;
        EXPECT_EQ(FirstNonFinite(dtype, Bytes(numbers), count), place) << "of " << count;
        EXPECT_EQ(FirstNonFinite(dtype, Bytes(numbers), place), std::nullopt) << "what lies behind is not looked at";
      }
      numbers[place] = one;
    }
  }
}

TEST(Finite, NanAndInfinityAreFoundWhereverTheyAre) {
  using F = std::numeric_limits<float>;
  ExpectFoundWhereverItIs<float>(DataType::kFloat32, 1, {F::max(), F::lowest(), F::denorm_min(), -0.0F},
                                 {F::quiet_NaN(), F::signaling_NaN(), F::infinity(), -F::infinity()});
  using D = std::numeric_limits<double>;
  ExpectFoundWhereverItIs<double>(DataType::kFloat64, 1, {D::max(), D::lowest(), D::denorm_min(), -0.0},
                                  {D::quiet_NaN(), D::infinity(), -D::infinity()});
  ExpectFoundWhereverItIs<uint16_t>(DataType::kFloat16, 0x3c00, {0x7bff, 0xfbff, 1, 0x8000},
                                    {0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xffff});
  ExpectFoundWhereverItIs<uint16_t>(DataType::kBfloat16, 0x3f80, {0x7f7f, 0xff7f, 1, 0x8000, 0x7c00},
                                    {0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff});
}

TEST(Finite, TheFirstOfSeveralIsTold) {
  std::vector<float> numbers(6000, 1);
  for (const size_t place : {5999, 4100, 4097}) numbers[place] = NAN;
  EXPECT_EQ(FirstNonFinite(DataType::kFloat32, Bytes(numbers), numbers.size()), 4097u);
}

TEST(Finite, IntegersAreFinite) {
  const std::vector<int32_t> numbers(100, -1);
  EXPECT_EQ(FirstNonFinite(DataType::kInt32, Bytes(numbers), numbers.size()), std::nullopt);
  EXPECT_EQ(SquareSum(DataType::kInt32, Bytes(numbers), numbers.size()), 0);
}

TEST(Finite, SquaresAreSummedInDouble) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> draw(-1000, 1000);
  for (const size_t count : {0, 1, 7, 8, 9, 2048, 2049, 100'000}) {
    std::vector<float> numbers(count);
    double expected = 0;
    for (float& number : numbers) {
      number = draw(random);
      expected += static_cast<double>(number) * number;
    }
    const std::vector<double> wide(numbers.begin(), numbers.end());
    EXPECT_NEAR(SquareSum(DataType::kFloat32, Bytes(numbers), count), expected, 1e-12 * expected);
    EXPECT_NEAR(SquareSum(DataType::kFloat64, Bytes(wide), count), expected, 1e-12 * expected);
  }
}

TEST(Finite, SquaresOf16BitNumbersAreThoseOfTheNumbers) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    const WireCodec codec = *WireCodec::FromWire(static_cast<uint8_t>(type), /*narrowed=*/true);
    std::vector<float> numbers(5000);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 200) - 100;
    std::vector<uint16_t> narrow(numbers.size());
    Encode(codec, Bytes(numbers), reinterpret_cast<std::byte*>(narrow.data()), numbers.size());
    EXPECT_EQ(SquareSum(type, Bytes(narrow), narrow.size()), SquareSum(DataType::kFloat32, Bytes(numbers), 5000));
  }
}

TEST(Finite, AnySumOfSquaresThatIsNotFiniteComesFromSuchANumberOrIsTooLarge) {
  const std::vector<double> huge(2, 1e200);
  EXPECT_TRUE(std::isinf(SquareSum(DataType::kFloat64, Bytes(huge), 2)));
  const std::vector<float> numbers = {1, NAN};
  EXPECT_TRUE(std::isnan(SquareSum(DataType::kFloat32, Bytes(numbers), 2)));
}

TEST(Finite, AddressesNeedNoAlignment) {
  std::vector<std::byte> bytes(4 * 100 + 1);
  const float number = 3;
  for (size_t i = 0; i < 100; ++i) std::memcpy(bytes.data() + 1 + 4 * i, &number, 4);
  EXPECT_EQ(FirstNonFinite(DataType::kFloat32, bytes.data() + 1, 100), std::nullopt);
  EXPECT_EQ(SquareSum(DataType::kFloat32, bytes.data() + 1, 100), 900);
}

}  // namespace
}  // namespace shoal
